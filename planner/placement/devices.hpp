// The properties of the cluster and of the layer on which an expert placement depends.
#pragma once

#include <cstdint>

#include "model/base/quantity.hpp"

namespace moeplan::planner {

/// The ranks of one expert-parallel group and the costs of one layer. Nodes are consecutive ranks. Bandwidths are full
/// duplex: each direction has the full bandwidth at the same time.
struct PlacementDevices {
  std::int64_t ranks;
  std::int64_t ranks_per_node;    // the last node may have fewer
  std::int64_t slots;             // experts that fit on a rank, including replicas
  Seconds token_time;             // one token through one expert, forward; backward takes twice as long
  Bytes token_bytes;              // of a dispatched token; the same for combine
  Bytes parameter_bytes;          // of one expert
  Bytes gradient_bytes;           // of one expert
  Bytes state_bytes;              // transferred when an expert's home moves: parameters and optimizer states
  BytesPerSecond rank_bandwidth;  // of a rank to the other ranks of its node
  BytesPerSecond nic_bandwidth;   // of a rank to other nodes
  BytesPerSecond node_bandwidth;  // of a node to other nodes, all its ranks together

  /// Whether the layer trains. Training runs forward and backward (four exchanges, three times the forward
  /// computation), sends the parameters of replicated experts to their holders and returns the gradients. Otherwise
  /// only forward runs, and replicas persist.
  bool trains = true;
  /// Transfers overlap with the computation of the preceding block, so that only their excess costs time ([Pro-Prophet]
  /// eq. 8).
  bool overlaps_transfers = false;
  Seconds
      non_expert_time{};  // forward time of the block's other computation (FNEC); backward takes twice as long (BNEC)

  [[nodiscard]] std::int64_t node_of(std::int64_t rank) const { return rank / ranks_per_node; }
  [[nodiscard]] std::int64_t nodes() const { return (ranks + ranks_per_node - 1) / ranks_per_node; }
};

/// The mean bandwidth over all ordered pairs of distinct ranks: the papers' single figure for a network (W_net in
/// [FasterMoE], B in [Pro-Prophet]). Between nodes a rank has the bandwidth of its NIC, or its part of the node's. With
/// a single rank: rank_bandwidth.
[[nodiscard]] BytesPerSecond average_bandwidth(const PlacementDevices& devices);

/// The bandwidth of one broadcast along a chain that enters every node once, as copies get their weights and return
/// their gradients (copy_parts.hpp): that of its slowest hop.
[[nodiscard]] BytesPerSecond chain_bandwidth(const PlacementDevices& devices);

}  // namespace moeplan::planner
