// The machine and the layer, as far as a placement of experts depends on them.
#pragma once

#include <cstdint>

#include "model/base/quantity.hpp"

namespace moeplan::planner {

/// Nodes are consecutive ranks. Bandwidths are each way: as much in as out, both at once.
struct PlacementDevices {
  std::int64_t ranks;
  std::int64_t ranks_per_node;    // the last node may have fewer
  std::int64_t slots;             // experts that a rank has room for, replicas included
  Seconds token_time;             // one token through one expert, forward; backward takes twice as long
  Bytes token_bytes;              // what a token is when it travels to its expert, and as much back
  Bytes parameter_bytes;          // of one expert
  Bytes gradient_bytes;           // of one expert
  Bytes state_bytes;              // what moves with an expert's home: parameters and optimizer states
  BytesPerSecond rank_bandwidth;  // of a rank to the others of its node
  BytesPerSecond nic_bandwidth;   // of a rank to other nodes
  BytesPerSecond node_bandwidth;  // of a node to other nodes, all its ranks together

  /// Training runs forward and backward (four exchanges, three times the forward computation), sends the parameters of
  /// replicated experts to their holders and the gradients back. Otherwise forward alone, and replicas stay.
  bool trains = true;
  /// Transfers go on beside the computations of the block before: what exceeds them costs time ([Pro-Prophet] eq. 8).
  bool overlaps_transfers = false;
  Seconds non_expert_time{};  // forward of what else the block computes (FNEC); backward twice (BNEC)

  [[nodiscard]] std::int64_t node_of(std::int64_t rank) const { return rank / ranks_per_node; }
  [[nodiscard]] std::int64_t nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

/// Mean of the bandwidths over all ordered pairs of different ranks: the papers' single figure for a network (W_net of
/// [FasterMoE], B of [Pro-Prophet]). Between nodes a rank has its NIC, or its share of its node's. One rank: its own.
[[nodiscard]] BytesPerSecond average_bandwidth(const PlacementDevices& devices);

}  // namespace moeplan::planner
