// The time of an all-reduce along trees: NCCL's double binary trees over nodes with a chain inside each, and the
// switch's reduction of NVLink domains (NVLS). docs/communication.md derives it and lists the fitted numbers.
//
// Notation: n ranks on N nodes, m = n/N; S bytes of the tensor. A tree is 2 (m - 1) steps inside nodes and 2 log2 N
// between them deep, and moves S bytes up and down:
//
//   tree   time = network_base + base + 2 (m - 1) step + 2 log2 N (network_step + S / hop_bandwidth) + 2 S / bandwidth
//   NVLS   time = base + m step + S / bandwidth, inside one domain
//          time = network_base + base + m step + 2 log2 N network_step + max(S / bandwidth, 2 (N-1)/N S / node's NICs)
//
// Between nodes every rank reduces an m-th of what its node's switch has added up through its own NIC (NCCL's
// NVLSTree).
#pragma once

#include <optional>
#include <string>

#include "model/base/quantity.hpp"
#include "model/collectives/collective_cost.hpp"
#include "model/collectives/group_shape.hpp"
#include "model/collectives/network.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The numbers of one protocol of trees between nodes.
struct TreeModel {
  std::string protocol;
  Seconds base, step;
  Seconds network_step;
  BytesPerSecond bandwidth;                          // of the bytes up and down
  std::optional<BytesPerSecond> hop_bandwidth = {};  // of a message that each hop passes on whole; none: pipelined
  bool operator==(const TreeModel&) const = default;
};

/// The numbers of an NVSwitch's reduction.
struct NvlsModel {
  Seconds base, step;
  BytesPerSecond bandwidth;
  std::optional<Seconds> network_step = {};  // none: not between nodes
  bool operator==(const NvlsModel&) const = default;
};

/// The time of an all-reduce without the launch; none for a group on one node.
[[nodiscard]] std::optional<CollectiveCost> tree_cost(const TreeModel& model, const Network& network, GroupShape shape,
                                                      Bytes bytes);
/// None between nodes without figures.
[[nodiscard]] std::optional<CollectiveCost> nvls_cost(const NvlsModel& model, const Network& network, GroupShape shape,
                                                      Bytes bytes);

/// Read an entry of the list `trees`, and the map `nvls`, of a file in configs/collectives.
[[nodiscard]] TreeModel read_tree_model(MapReader entry);
[[nodiscard]] NvlsModel read_nvls_model(MapReader map);

}  // namespace moeplan
