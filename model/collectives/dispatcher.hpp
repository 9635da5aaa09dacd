// The time of a dispatch and of a combine of a mixture-of-experts layer by kernels made for it (DeepEP, TensorRT-LLM's
// all-to-all), for tokens that choose their experts evenly. docs/communication.md derives it and lists the fitted
// numbers.
//
// Notation: n ranks on N nodes; T tokens of each rank; b bytes of a token's row. A token's rows reach
//   D = n (1 - C(E - E/n, k) / C(E, k)) ranks, its own among them, and of these L = D - its own on its node;
//   X = (N - 1) (1 - C(E - E/N, k) / C(E, k)) other nodes.
// A kernel that does not merge a token's selections (low latency) sends k rows instead: D = k, L = k (m - 1)/n, X = k
// (N - 1)/N.
//
//   time = base + doubling log2(n or N) + expert E + ramp T / (T + ramp_tokens) + T (token / SMs of the casts + norm)
//   norm = (copies^p + links^p + nics^p)^(1/p): what is overlapped; with p = 6 the slowest nearly decides alone
//   copies = (D b / copy + X b / send) / SMs,  links = L b / link,  nics = X b / nic
//
// SMs copy one row a rank and token inside a node at `copy` and stage one row a node at `send`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/quantity.hpp"
#include "model/collectives/group_shape.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// One layer's exchange, seen by one rank.
struct DispatchShape {
  GroupShape group;
  double tokens = 0;  // of each rank
  double top_k = 1, experts = 1;
  double sms = 0;        // that the kernel may use; 0: the dispatcher's own number
  double row_bytes = 0;  // of a token with its scales
};

/// The numbers of one direction.
struct DispatchDirection {
  Seconds base{}, doubling{};  // the latter with each doubling of the nodes, or of the ranks if all are on one node
  Seconds expert{};            // of each expert of the model: counters, queues
  Seconds ramp{};              // filling the pipelines of chunks; half of it is paid at ramp_tokens
  double ramp_tokens = 1;
  Seconds token{};                               // of a token's cast (quantisation), on one SM
  double row_overhead = 0;                       // bytes in addition to each row
  std::optional<BytesPerSecond> copy = {};       // of an SM inside a node; none: SMs are not what limits
  std::optional<BytesPerSecond> send = {};       // of an SM to other nodes; none: they are not
  std::optional<BytesPerSecond> link = {};       // of a rank's NVLink
  std::optional<BytesPerSecond> wide_link = {};  // the same in groups of more ranks than a host has; none: `link`
  std::optional<BytesPerSecond> nic = {};        // of a rank; none: not between nodes
  bool operator==(const DispatchDirection&) const = default;
};

/// The numbers of a dispatcher on a machine.
struct DispatcherModel {
  std::string dispatcher, mode;
  std::string combine_format;       // that the numbers of the combine apply to; "": any
  bool merges = true;               // sends one row a rank and token, not one a selection
  std::optional<double> sms = {};   // it takes this many if not told otherwise; 0: those of kernels that multiply
  double overlap = 6;               // p of the norm, at least 1 (no overlap)
  bool casts_by_expert = false;     // casts run on one SM an expert, up to `sms`
  std::int64_t host_ranks = 0;      // ranks of a host, from whose number on wide_link applies; 0: it does not
  std::int64_t measured_ranks = 1;  // the largest group that the numbers were fitted to
  DispatchDirection dispatch{}, combine{};
  bool operator==(const DispatcherModel&) const = default;
  [[nodiscard]] std::string name() const { return mode.empty() ? dispatcher : dispatcher + " " + mode; }
};

/// The parts of the time of one direction.
struct DispatchCost {
  Seconds fixed;  // base, doubling, experts and ramp
  Seconds casts;
  Seconds copies, links, nics;  // of all tokens, each alone
  Seconds overlapped;           // of these together
  [[nodiscard]] Seconds time() const { return fixed + casts + overlapped; }
  /// "fixed", "casts", "copies", "links" or "nics": the largest.
  [[nodiscard]] std::string_view bound() const;
};

/// Rows of a token: copies on ranks of all nodes, those that leave its rank for others of the node's NVLink domain, and
/// those that cross to other nodes.
struct TokenRows {
  double ranks = 0, linked = 0, crossing = 0;
};
[[nodiscard]] TokenRows token_rows(bool merges, const DispatchShape& shape);

/// The time of one direction; none between nodes without figures.
[[nodiscard]] std::optional<DispatchCost> dispatch_cost(const DispatcherModel& model,
                                                        const DispatchDirection& direction, const DispatchShape& shape);
/// The same for other numbers of rows than those of even choices. What has no figures takes no time.
[[nodiscard]] DispatchCost dispatch_cost(const DispatcherModel& model, const DispatchDirection& direction,
                                         const DispatchShape& shape, const TokenRows& rows);

/// Bytes of a token's row of `hidden` values with its scales: fp8_block has a 4-byte scale for each 128 values, mxfp8 a
/// byte for each 32, nvfp4 a byte for each 16, low_precision (of combines) as nvfp4; none for an unknown format.
[[nodiscard]] std::optional<double> row_bytes(std::string_view format, double hidden);

/// Reads an entry of the list `dispatchers` of a file in configs/collectives.
[[nodiscard]] DispatcherModel read_dispatcher_model(MapReader entry);

}  // namespace moeplan
