// Gates that change what a plain top-k gate asks for: they drop selections or lead them to other experts, for the sake
// of speed. The model that is trained is then another one, so they are off unless a workload asks, and reports say how
// much they change. They change RoutingCounts and nothing else.
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
  TopK,      // every token goes to the experts that it likes best
  Topology,  // [FasterMoE] sec. 4.3: at most so many selections of a rank leave its node, the others stay
  Capacity   // GShard's capacity; [Tutel] sec. 4.1's capacity_setting where it changes from step to step
};
inline constexpr std::array<std::pair<GateKind, std::string_view>, 3> kGateKindNames{
    {{GateKind::TopK, "top_k"}, {GateKind::Topology, "topology"}, {GateKind::Capacity, "capacity"}}};

struct Gate {
  GateKind kind = GateKind::TopK;
  std::optional<double> net_over_local = {};  // topology: W_net / W_local; none: that of the cluster's template
  double factor = 1.2;    // capacity: > 0: f; 0: the least that drops nothing; < 0: that, but at most -factor.
                          // 1.2: GShard's in training, as [FasterMoE] compares with (FastMoE's gshard_gate.py)
  bool is_padded = true;  // capacity: every expert takes as many rows from every source, zeros where tokens are fewer
  bool operator==(const Gate&) const = default;
};

/// Strict; only `kind` is required, and keys of other kinds are unknown. Reports into the reader's diagnostics.
[[nodiscard]] Gate read_gate(MapReader gate);
[[nodiscard]] Node gate_document(const Gate& gate);
/// "topology gate (W_net / W_local 0.11)"; "" for the plain gate.
[[nodiscard]] std::string gate_text(const Gate& gate);

/// W_net / W_local of a template: what all NICs of a node carry over what the link of one GPU does, each one way. None
/// for explicit machines and for a single node.
[[nodiscard]] std::optional<double> net_over_local(const ClusterSpec& cluster);

/// Counts behind a gate, and what it did to the selections, summed over all sources.
struct GatedRouting {
  RoutingCounts counts;
  std::int64_t selections = 0;  // that the plain top-k gate asks for
  std::int64_t rerouted = 0;    // of these, led to another expert
  std::int64_t dropped = 0;     // of these, given up
  std::int64_t padding = 0;     // rows of zeros beside those that are left
};

/// Whether an expert is on a source's own node.
using IsNear = std::function<bool(RankId source, ExpertId expert)>;

/// Of a source's S selections, at most floor(net_over_local / workers_per_node S) go to experts that are not near: then
/// a node's network traffic takes no longer than the local one. (The paper's L tokens, of tokens that select one
/// expert.) Which ones go is the scores' matter, not known here: each far expert keeps its share of them. The others
/// select again among near experts, which get them in proportion to what they had, at most one selection a token;
/// what finds no room is dropped. O(sources x experts).
[[nodiscard]] GatedRouting topology_gated(const RoutingCounts& asked, std::int64_t top_k, double net_over_local,
                                          std::int64_t workers_per_node, const IsNear& is_near);

/// An expert takes at most T rows of a source: ceil(factor S / experts) for the S selections of `tokens` tokens, or
/// (factor 0) as many as the largest count. Padded: T rounded up to a multiple of `multiple_of` (Tutel: pipeline degree
/// times shards, so that parts are equal), and exactly T rows for every expert and source.
[[nodiscard]] GatedRouting capacity_gated(const RoutingCounts& asked, std::int64_t top_k, std::int64_t tokens,
                                          double factor, bool is_padded, std::int64_t multiple_of);

}  // namespace moeplan
