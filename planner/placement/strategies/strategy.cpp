#include "planner/placement/strategies/strategy.hpp"

#include <fmt/format.h>

#include <array>
#include <cassert>

#include "model/base/whole_numbers.hpp"
#include "planner/placement/strategies/strategy_text.hpp"

namespace moeplan::planner {

Seconds PlacementProblem::price_of(const Placement& placement) const {
  const Seconds layer = price ? price(counts, placement) : layer_time(counts, placement, devices).total;
  if (!current) return layer;
  return layer + migration_time(*current, placement, devices) / static_cast<double>(iterations);
}

PlacementAnswer PlacementStrategy::place(const PlacementProblem& problem) const {
  const PlacementDevices& d = problem.devices;
  assert(problem.counts.sources() == d.ranks && d.ranks > 0 && d.ranks_per_node > 0 && "every rank is a source");
  if (d.slots < ceil_div(problem.experts(), d.ranks)) {
    return {std::nullopt,
            Infeasibility(Constraint::Limit, d.slots, ceil_div(problem.experts(), d.ranks),
                          fmt::format("{} slots on each of {} ranks do not hold {} experts in equal shares", d.slots,
                                      d.ranks, problem.experts()))};
  }
  PlacementAnswer result = answer(problem);
  assert((!result.placement || !placement_error(*result.placement, d, problem.experts())) &&
         "a strategy's answer is a valid placement");
  return result;
}

std::span<const std::unique_ptr<PlacementStrategy>> placement_strategies() {
  static const std::array<std::unique_ptr<PlacementStrategy>, 16> kStrategies{
      make_no_placement(),
      make_fastermoe_placement(FasterMoeKind::Paper),
      make_fastermoe_placement(FasterMoeKind::Code),
      make_fastermoe_placement(FasterMoeKind::Priced),
      make_pro_prophet_placement(ProProphetParts::Planner),
      make_pro_prophet_placement(ProProphetParts::PlannerAndScheduler),
      make_pro_prophet_placement(ProProphetParts::Full),
      make_top_experts_placement(2),
      make_top_experts_placement(3),
      make_eplb_placement(EplbKind::Global),
      make_eplb_placement(EplbKind::Hierarchical),
      make_eplb_placement(EplbKind::Distinct),
      make_smartmoe_placement(),
      make_lplb_placement(LplbTopology::Cube),
      make_lplb_placement(LplbTopology::Ring),
      make_auto_placement(),
  };
  return kStrategies;
}

std::vector<std::string> placement_names() {
  std::vector<std::string> names;
  for (const auto& s : placement_strategies()) names.emplace_back(s->name());
  return names;
}

const PlacementStrategy* find_placement_strategy(std::string_view name) {
  const std::optional<StrategyText> text = parse_strategy_text(name);
  if (!text) return nullptr;
  for (const auto& strategy : placement_strategies()) {
    if (strategy->name() == text->name) return strategy.get();
  }
  return nullptr;
}

}  // namespace moeplan::planner
