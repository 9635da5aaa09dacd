// EPLB as a strategy: every slot is filled, and replicas divide their expert's tokens equally.
#include "planner/placement/strategies/eplb.hpp"

#include <fmt/format.h>

#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

/// EPLB has no homes: the home is the holder that is the home in the current (or contiguous) placement, otherwise the
/// first holder.
void choose_homes(Placement& placement, const PlacementProblem& problem) {
  const Placement before =
      problem.current ? *problem.current : contiguous_placement(problem.experts(), problem.devices.ranks);
  for (std::size_t e = 0; e < placement.experts.size(); ++e) {
    ExpertPlacement& place = placement.experts[e];
    const RankId now = before.experts[e].home;
    place.home = place.holder(now) ? now : place.holders.front().rank;
  }
}

class Eplb final : public PlacementStrategy {
 public:
  explicit Eplb(EplbKind kind) : kind_(kind) {}
  std::string_view name() const override {
    switch (kind_) {
      case EplbKind::Global: return "eplb_global";
      case EplbKind::Hierarchical: return "eplb_hierarchical";
      case EplbKind::Distinct: return "eplb_distinct";
    }
    return "";
  }
  std::string_view summary() const override {
    switch (kind_) {
      case EplbKind::Global: return "heaviest experts replicated, replicas packed over all ranks [EPLB, global]";
      case EplbKind::Hierarchical: return "groups of experts to nodes, then replicas in each node [EPLB, hierarchical]";
      case EplbKind::Distinct: return "eplb_global without two replicas of an expert on one rank";
    }
    return "";
  }

 protected:
  PlacementAnswer answer(const PlacementProblem& problem) const override {
    const PlacementDevices& d = problem.devices;
    const std::vector<std::int64_t> loads = problem.counts.expert_load();
    const std::int64_t groups = problem.options.expert_groups;
    Placement placement{Nearest::Off, std::vector<ExpertPlacement>(loads.size())};
    const auto hold = [&](std::int64_t expert, std::int64_t rank) {
      add_holder(placement.experts[static_cast<std::size_t>(expert)], RankId(static_cast<std::int32_t>(rank)), 1);
    };
    if (kind_ == EplbKind::Distinct) {
      const auto held = distinct_rebalance(loads, d.ranks * d.slots, d.ranks);
      for (std::size_t r = 0; r < held.size(); ++r) {
        for (const std::int64_t e : held[r]) hold(e, static_cast<std::int64_t>(r));
      }
    } else {
      if (kind_ == EplbKind::Hierarchical) {
        if (auto reason = infeasibility(problem)) return {std::nullopt, std::move(reason)};
      }
      const bool hierarchical = kind_ == EplbKind::Hierarchical;
      const EplbLayer layer =
          eplb_rebalance(loads, d.ranks * d.slots, hierarchical ? groups : 1, hierarchical ? d.nodes() : 1, d.ranks);
      for (std::size_t p = 0; p < layer.phy2log.size(); ++p) {
        hold(layer.phy2log[p], static_cast<std::int64_t>(p) / d.slots);
      }
    }
    choose_homes(placement, problem);
    return {std::move(placement)};
  }

 private:
  static std::optional<Infeasibility> infeasibility(const PlacementProblem& problem) {
    const PlacementDevices& d = problem.devices;
    const std::int64_t groups = problem.options.expert_groups;
    if (groups % d.nodes() != 0) {
      return Infeasibility(Constraint::Multiple, groups, d.nodes(),
                           fmt::format("{} expert groups do not divide among {} nodes", groups, d.nodes()));
    }
    if (problem.experts() % groups != 0) {
      return Infeasibility(Constraint::Multiple, problem.experts(), groups,
                           fmt::format("{} experts do not divide into {} groups", problem.experts(), groups));
    }
    if (d.ranks % d.ranks_per_node == 0) return std::nullopt;
    return Infeasibility(Constraint::Multiple, d.ranks, d.ranks_per_node, "nodes have different numbers of ranks");
  }

  EplbKind kind_;
};

}  // namespace

std::unique_ptr<PlacementStrategy> make_eplb_placement(EplbKind kind) { return std::make_unique<Eplb>(kind); }

}  // namespace moeplan::planner
