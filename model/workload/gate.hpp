// Gates that modify the selections of a plain top-k gate: they drop selections or redirect them to other experts to
// reduce the iteration time. They change the model that is trained, so they are off unless a workload asks for one, and
// reports say how much they change. They affect RoutingCounts only.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/machine/cluster.hpp"
#include "model/text/reader.hpp"
#include "model/workload/routing.hpp"

namespace moeplan {

enum class GateKind {
  TopK,      // every token goes to the experts with the highest scores
  Topology,  // [FasterMoE] sec. 4.3: a limited number of a rank's selections leave its node
  Capacity   // GShard's capacity; [Tutel] sec. 4.1's capacity_setting if it changes from step to step
};
inline constexpr std::array<std::pair<GateKind, std::string_view>, 3> kGateKindNames{
    {{GateKind::TopK, "top_k"}, {GateKind::Topology, "topology"}, {GateKind::Capacity, "capacity"}}};

struct Gate {
  GateKind kind = GateKind::TopK;
  std::optional<double> net_over_local = {};  // topology: W_net / W_local; none: derived from the cluster's template
  /// The default 1.2 is GShard's in training, which [FasterMoE] compares with (FastMoE's gshard_gate.py).
  double factor = 1.2;    // capacity: > 0: f; 0: the smallest that drops nothing; < 0: the same, but at most -factor
  bool is_padded = true;  // capacity: every expert takes equally many rows from every source, padded with zeros
  bool operator==(const Gate&) const = default;
};

/// Reads a gate strictly; only `kind` is required, and keys of other kinds are unknown. Reports into the reader's
/// diagnostics.
[[nodiscard]] Gate read_gate(MapReader gate);
[[nodiscard]] Node gate_document(const Gate& gate);
/// Display name, e.g. "topology gate (W_net / W_local 0.11)"; "" for the plain gate.
[[nodiscard]] std::string gate_text(const Gate& gate);

/// W_net / W_local of a template: the total bandwidth of a node's NICs over the bandwidth of one GPU's link, each in
/// one direction. None for explicit topologies and for a single node.
[[nodiscard]] std::optional<double> net_over_local(const ClusterSpec& cluster);

/// The counts after a gate, and the number of selections that it changed, summed over all sources.
struct GatedRouting {
  RoutingCounts counts;
  std::int64_t selections = 0;  // selections of the plain top-k gate
  std::int64_t rerouted = 0;    // of these, redirected to another expert
  std::int64_t dropped = 0;     // of these, dropped
  std::int64_t padding = 0;     // rows of zeros in addition to the remaining selections
};

/// Predicate: whether an expert is on a source's own node.
using IsNear = std::function<bool(RankId source, ExpertId expert)>;

/// The topology gate. Of a source's S selections, at most floor(net_over_local / workers_per_node S) go to experts that
/// are not near, so that a node's network traffic takes no longer than its local traffic. (The paper has L tokens
/// instead of S, with one expert per token.) The selections that leave would depend on the scores, which are unknown
/// here, so each far expert keeps its proportion of them. The others are redistributed to near experts in proportion to
/// those experts' counts, at most one selection per token and expert; selections that do not fit are dropped. O(sources
/// x experts).
[[nodiscard]] GatedRouting topology_gated(const RoutingCounts& asked, std::int64_t top_k, double net_over_local,
                                          std::int64_t workers_per_node, const IsNear& is_near);

/// The capacity gate. An expert takes at most T rows of a source: ceil(factor S / experts) for the S selections of
/// `tokens` tokens, or (factor 0) the largest count. Padded: T is rounded up to a multiple of `multiple_of` (Tutel:
/// pipeline degree times shards, so that parts are equal), and every expert takes exactly T rows from every source.
[[nodiscard]] GatedRouting capacity_gated(const RoutingCounts& asked, std::int64_t top_k, std::int64_t tokens,
                                          double factor, bool is_padded, std::int64_t multiple_of);

}  // namespace moeplan
