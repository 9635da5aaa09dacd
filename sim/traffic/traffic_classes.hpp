// Classes of flows with provably equal rates, found before any simulation.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/traffic/traffic_matrix.hpp"

namespace moeplan::sim {

/// An equitable partition of flows and resources: flows of one class have equal bytes and cross equally many resources
/// of each class with equal shares; resources of one class have equal capacity and carry the same total share of each
/// class of flows. The max-min rates are then equal within a class of flows: the allocation is unique, and giving each
/// flow the rate of its class in the quotient's solution satisfies the definition in network.hpp on every resource.
/// The partition remains equitable over time, since all flows of a class end together.
///
/// The quotient has one resource for each class of resources (with the capacity of one member) and one weighted flow
/// for each class of flows, whose load on a resource class is its load on one member.
struct TrafficClasses {
  struct Use {
    std::int32_t resource_class;
    double load;
  };
  std::vector<double> capacity;             // by class of resources
  std::vector<std::int32_t> class_of_flow;  // -1: the flow crosses no resource or has no bytes
  std::vector<double> bytes;                // by class of flows
  std::vector<std::vector<Use>> uses;       // by class of flows
};

/// The coarsest equitable partition by colour refinement (W. Cai, M. Fuerer, N. Immerman, Combinatorica 12, 1992,
/// sec. 1; O(size) per round), verified exactly; none if it would have more than a quarter as many classes as flows.
[[nodiscard]] std::optional<TrafficClasses> traffic_classes(const TrafficMatrix& matrix, const TrafficNetwork& network);

/// Traffic that decouples into independent bottleneck resources, with the completion time of each.
struct DecoupledTraffic {
  std::vector<double> finish_s;     // by resource; 0 if it is the bottleneck of no flow
  std::vector<std::int64_t> flows;  // by resource: the number of flows whose bottleneck it is
  bool by_last;                     // the bottleneck is in the last half of each flow's path; false: in the first half
};

/// The closed form for traffic that decouples, e.g. destination-uniform traffic. Each flow keeps only the narrowest
/// resource of one half of its path. If the flows on each such resource have equal bytes, and if the resulting constant
/// rates overload no other resource, these are the max-min rates, because the omitted constraints hold as well. None if
/// either condition fails. O(flows) time, no memory per flow.
[[nodiscard]] std::optional<DecoupledTraffic> decoupled_traffic(const TrafficMatrix& matrix,
                                                                const TrafficNetwork& network);

/// The index of the use that limits a flow in the sense of decoupled_traffic: the lowest capacity / share in the last
/// (first) half of its path; among equal ones, the use nearest to that end of the path.
[[nodiscard]] std::size_t holding_use(const std::vector<FlowUse>& uses, const std::vector<double>& capacity,
                                      bool by_last);

}  // namespace moeplan::sim
