#include "planner/placement/strategies/closed_forms.hpp"

#include <algorithm>

#include "model/workload/routing_statistics.hpp"
#include "planner/placement/layer_time.hpp"
#include "planner/placement/strategies/fastermoe.hpp"
#include "planner/placement/strategies/pro_prophet.hpp"

namespace moeplan::planner {

namespace {

std::int64_t max_load(const std::vector<std::int64_t>& loads) { return *std::max_element(loads.begin(), loads.end()); }

}  // namespace

PlacementForms placement_forms(const RoutingCounts& counts, const Placement& placement,
                               const PlacementDevices& devices) {
  const ExpertColumns columns(counts);
  TokenDivider divider(devices.ranks, devices.ranks_per_node);
  std::vector<std::int64_t> computed(static_cast<std::size_t>(devices.ranks), 0), received = computed;
  std::int64_t copied = 0;
  for (std::size_t e = 0; e < placement.experts.size(); ++e) {
    const ExpertPlacement& place = placement.experts[e];
    if (place.holders.size() > 1) ++copied;
    for (const TokenFlow& flow : divider.divide(columns.column(e), place, placement.nearest)) {
      computed[flow.rank.index()] += flow.tokens;
      if (flow.source != flow.rank) received[flow.rank.index()] += flow.tokens;
    }
  }
  const std::int64_t most_computed = *std::max_element(computed.begin(), computed.end());
  const std::int64_t most_received = *std::max_element(received.begin(), received.end());
  const auto pro_prophet = [&](bool scheduled) {
    return pro_prophet_time(most_received, most_computed, copied, /*not_sent=*/0, devices, scheduled);
  };
  const std::int64_t most_before =
      max_load(rank_loads(counts, contiguous_placement(counts.experts(), devices.ranks), devices));
  return {.fastermoe = copied > 0 ? fastermoe_shadowed_latency(copied, most_computed, devices)
                                  : fastermoe_imbalanced_latency(most_computed, devices),
          .sends_less = copied > 0 && fastermoe_sends_less(copied, most_before, devices),
          .saves_more = copied > 0 && fastermoe_saves_more(copied, most_before, most_computed, devices),
          .pro_prophet = pro_prophet(/*scheduled=*/false),
          .pro_prophet_scheduled = pro_prophet(/*scheduled=*/true),
          .balance_degree = balance_degree(computed)};
}

}  // namespace moeplan::planner
