// A closed-form model of the time of one MoE layer under a placement, with the structure of a simulation.
//
//   layer = 4 exchange + 3 compute + parameters + gradients        (training; 2 exchange + compute forward alone)
//
// compute is the largest load of a rank times token_time. An exchange takes the time of the busiest port, in or out: of
// a rank within its node, of a rank's NIC, or of all NICs of a node together; tokens for the rank itself do not travel.
// This is eq. (2) of [FasterMoE] applied to these ports, and a lower bound under any contention model. Dispatch,
// combine and their backward forms load the same ports (with in and out exchanged), hence the factor.
//
// The parameters of an expert with several holders travel from its home in one chain of messages, first through its own
// node, then through the others in order, each entered once; gradients take the reverse path. All chains are
// concurrent, and the busiest port determines the time. If transfers overlap, only the part that exceeds the concurrent
// computation counts ([Pro-Prophet] eq. 8).
//
// Omitted, because they are equal for every placement or unknown before simulation: start-up times, the gate, encode
// and decode, the efficiency of small GEMMs, and link sharing between these phases.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

/// The components of a layer's time.
struct LayerTime {
  Seconds compute{};     // forward, on the busiest rank
  Seconds exchange{};    // one dispatch or combine
  Seconds parameters{};  // sending them, before any overlap; 0 without training
  Seconds gradients{};
  Seconds total{};  // of the layer: forward and, in training, backward
};

/// The price of a placement, either this closed form or a simulation. Lower is better.
using PlacementPrice = std::function<Seconds(const RoutingCounts& counts, const Placement& placement)>;

[[nodiscard]] LayerTime layer_time(const RoutingCounts& counts, const Placement& placement,
                                   const PlacementDevices& devices);

/// The time of migrating from one placement to another (migration.hpp): all experts together, on the busiest port. In
/// training it moves the states of experts whose home changes, otherwise parameters to new holders. No computation runs
/// concurrently.
[[nodiscard]] Seconds migration_time(const Placement& from, const Placement& to, const PlacementDevices& devices);

/// The number of tokens that each rank computes.
[[nodiscard]] std::vector<std::int64_t> rank_loads(const RoutingCounts& counts, const Placement& placement,
                                                   const PlacementDevices& devices);

/// The sums from which layer_time() follows, updated expert by expert during a search. All are integers, so that adding
/// and removing an expert restores them exactly.
class LayerTraffic {
 public:
  LayerTraffic(const ExpertColumns& columns, const PlacementDevices& devices);

  void add(std::size_t expert, const ExpertPlacement& place, Nearest nearest) { apply(expert, place, nearest, 1); }
  void remove(std::size_t expert, const ExpertPlacement& place, Nearest nearest) { apply(expert, place, nearest, -1); }

  [[nodiscard]] LayerTime time() const;
  [[nodiscard]] std::span<const std::int64_t> loads() const { return load_; }
  /// The rank with the busiest port and the rank with the largest load; ties: the lowest rank.
  [[nodiscard]] std::size_t busiest_port() const;
  [[nodiscard]] std::size_t busiest_rank() const;

 private:
  /// Traffic through the ports, in one unit (tokens or experts).
  struct Ports {
    std::vector<std::int64_t> out_near, in_near, out_far, in_far;  // by rank
    std::vector<std::int64_t> node_out, node_in;                   // by node
  };

  void apply(std::size_t expert, const ExpertPlacement& place, Nearest nearest, std::int64_t sign);
  void apply_alone(std::size_t expert, std::size_t home, std::int64_t sign);
  void pass(Ports& ports, std::size_t from, std::size_t to, std::int64_t amount) const;
  [[nodiscard]] double busiest(const Ports& ports) const;  // seconds per byte of one unit

  friend Seconds migration_time(const Placement& from, const Placement& to, const PlacementDevices& devices);

  const ExpertColumns* columns_;
  PlacementDevices devices_;
  TokenDivider divider_;
  std::vector<std::size_t> node_;  // of a rank
  std::vector<std::int64_t> load_;
  Ports tokens_, experts_;
  std::int64_t chains_ = 0;  // experts with several holders
};

}  // namespace moeplan::planner
