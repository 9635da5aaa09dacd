// Flows that must behave alike, found before anything is simulated.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/traffic/traffic.hpp"

namespace moeplan::sim {

/// An equitable partition of flows and resources: flows of a class have equal bytes and cross equally many resources of
/// each class with equal shares; resources of a class have equal capacity and carry, of each class of flows, the same
/// total share. The max-min rates are then equal within a class of flows: the allocation is unique, and giving every
/// flow of the quotient's solution the rate of its class satisfies the definition in network.hpp on every resource.
/// Classes stay classes as time passes, since all flows of one end together.
///
/// The quotient has one resource for each class (of the capacity of one member) and one weighted flow for each class,
/// with the load that one member resource carries of it.
struct TrafficClasses {
  struct Use {
    std::int32_t resource_class;
    double load;
  };
  std::vector<double> capacity;             // by class of resources
  std::vector<std::int32_t> class_of_flow;  // -1: crosses nothing or has no bytes
  std::vector<double> bytes;                // by class of flows
  std::vector<std::vector<Use>> uses;       // by class of flows
};

/// The coarsest equitable partition (colour refinement, W. Cai, M. Fuerer, N. Immerman, Combinatorica 12, 1992, sec. 1;
/// O(size) a round), checked exactly; none where it would have more than a quarter as many classes as flows.
[[nodiscard]] std::optional<TrafficClasses> traffic_classes(const TrafficMatrix& matrix, const TrafficNetwork& network);

/// When each resource that holds flows is done, if they decouple.
struct DecoupledTraffic {
  std::vector<double> finish_s;     // by resource; 0 if it holds nobody
  std::vector<std::int64_t> flows;  // how many it holds
  bool by_last;                     // flows are held by the narrowest of the last half of their way, or the first
};

/// Same-popularity traffic: if each flow kept only the narrowest resource of one half of its way, if flows on such a
/// resource had equal bytes, and if the constant rates that follow overload no other resource, then they are
/// the max-min rates: the constraints left out hold anyway. None where this is not so. O(flows), no memory per flow.
[[nodiscard]] std::optional<DecoupledTraffic> decoupled_traffic(const TrafficMatrix& matrix,
                                                                const TrafficNetwork& network);

/// The use that holds a flow in the sense of decoupled_traffic: the least capacity / share of the last (first) half of
/// its way, the half's outermost where they tie.
[[nodiscard]] std::size_t holding_use(const std::vector<FlowUse>& uses, const std::vector<double>& capacity,
                                      bool by_last);

}  // namespace moeplan::sim
