// How long one MoE layer takes under a placement: a closed form in the shape of a simulation.
//
//   layer = 4 exchange + 3 compute + parameters + gradients        (training; 2 exchange + compute forward alone)
//
// compute is the largest load of a rank times token_time. An exchange is as long as the busiest port: of a rank inside
// its node, of a rank's NIC, of a node's NICs together, in or out; tokens for the rank itself do not travel. That is
// eq. (2) of [FasterMoE] on these ports, and no contention result is faster. Dispatch, combine and their backward forms
// load the same ports (in and out change places), hence the factor.
//
// Parameters of an expert with several holders go from its home in one chain of messages, first through its node, then
// through the others in order, each entered once; gradients take the same way back. All chains are under way together,
// and the busiest port decides. Where transfers overlap, only what exceeds the computations they go beside counts
// ([Pro-Prophet] eq. 8).
//
// Left out, as the same for every placement or unknown before simulation: start-up times, the gate, encode and decode,
// efficiency of small GEMMs, sharing of links between these phases.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

struct LayerTime {
  Seconds compute{};     // forward, of the busiest rank
  Seconds exchange{};    // one dispatch or combine
  Seconds parameters{};  // sending them, before any overlap; 0 where nothing trains
  Seconds gradients{};
  Seconds total{};  // of the layer, forward and, in training, backward
};

/// The price of a placement: this closed form, or a simulation. Less is better.
using PlacementPrice = std::function<Seconds(const RoutingCounts& counts, const Placement& placement)>;

[[nodiscard]] LayerTime layer_time(const RoutingCounts& counts, const Placement& placement,
                                   const PlacementDevices& devices);
[[nodiscard]] PlacementPrice layer_time_price(const PlacementDevices& devices);

/// Moving from one placement to another (migration.hpp), all experts together, busiest port: in training the states of
/// experts whose home changes, else parameters to new holders. No computation goes beside it.
[[nodiscard]] Seconds migration_time(const Placement& from, const Placement& to, const PlacementDevices& devices);

/// Tokens computed, by rank.
[[nodiscard]] std::vector<std::int64_t> rank_loads(const RoutingCounts& counts, const Placement& placement,
                                                   const PlacementDevices& devices);

/// The sums behind layer_time(), which searches change expert by expert. Whole numbers: what was added and taken away
/// again leaves no trace.
class LayerTraffic {
 public:
  LayerTraffic(const ExpertColumns& columns, const PlacementDevices& devices);

  void add(std::size_t expert, const ExpertPlacement& place, Nearest nearest) { apply(expert, place, nearest, 1); }
  void remove(std::size_t expert, const ExpertPlacement& place, Nearest nearest) { apply(expert, place, nearest, -1); }

  [[nodiscard]] LayerTime time() const;
  [[nodiscard]] std::span<const std::int64_t> loads() const { return load_; }
  /// A rank at whose port an exchange is longest, and whose load is largest; the lowest of equals.
  [[nodiscard]] std::size_t busiest_port() const;
  [[nodiscard]] std::size_t busiest_rank() const;

 private:
  /// What passes the ports, in one unit (tokens, or experts).
  struct Ports {
    std::vector<std::int64_t> out_near, in_near, out_far, in_far;  // by rank
    std::vector<std::int64_t> node_out, node_in;                   // by node
  };

  void apply(std::size_t expert, const ExpertPlacement& place, Nearest nearest, std::int64_t sign);
  void apply_alone(std::size_t expert, std::size_t home, std::int64_t sign);
  void pass(Ports& ports, std::size_t from, std::size_t to, std::int64_t amount) const;
  [[nodiscard]] double busiest(const Ports& ports) const;  // seconds a byte of one unit

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
