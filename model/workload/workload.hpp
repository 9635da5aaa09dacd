// What is run: batch, sequence, numerics and routing. Files: configs/workloads; `default` is used where none is named.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/machine/dtype.hpp"
#include "model/text/document.hpp"
#include "model/workload/gate.hpp"
#include "model/workload/routing.hpp"
#include "model/workload/routing_trace.hpp"

namespace moeplan {

enum class Mode { Train, Forward };  // Forward is a prefill; decode serving is out of scope
enum class Recompute { None, Selective, Full };
enum class Optimizer { Adam, Sgd };

/// How tokens become rows in expert order, and back: by index, O(T k M), or by products with a mask of 0 and 1 over
/// tokens and capacity, O(T E C M) multiply-adds (Fairseq, DeepSpeed; [Tutel] sec. 4.2).
enum class Encoding { Sparse, Dense };
/// Rows of an expert's product: of all sources together, or a product for each source ([Tutel] sec. 4.1, the layouts
/// (E_g, C, M) and (W, E_g, C_g, M)).
enum class ExpertLayout { Merged, BySource };

inline constexpr std::array<std::pair<Mode, std::string_view>, 2> kModeNames{
    {{Mode::Train, "train"}, {Mode::Forward, "forward"}}};
inline constexpr std::array<std::pair<Recompute, std::string_view>, 3> kRecomputeNames{
    {{Recompute::None, "none"}, {Recompute::Selective, "selective"}, {Recompute::Full, "full"}}};
inline constexpr std::array<std::pair<Optimizer, std::string_view>, 2> kOptimizerNames{
    {{Optimizer::Adam, "adam"}, {Optimizer::Sgd, "sgd"}}};
inline constexpr std::array<std::pair<Encoding, std::string_view>, 2> kEncodingNames{
    {{Encoding::Sparse, "sparse"}, {Encoding::Dense, "dense"}}};
inline constexpr std::array<std::pair<ExpertLayout, std::string_view>, 2> kExpertLayoutNames{
    {{ExpertLayout::Merged, "merged"}, {ExpertLayout::BySource, "by_source"}}};

/// Codecs lose digits, so a plan uses those alone that the workload allows.
struct CodecOptions {
  std::set<WireFormat> allowed = {};
  std::int64_t zfp_bits = 8;           // of a value: zfp's fixed rate
  std::int64_t int8_row_messages = 2;  // beside the values: a scale, and a zero point (ScheMoE's three all-to-alls)
  bool operator==(const CodecOptions&) const = default;
};

/// What a run's gates did in one iteration, in every MoE layer: each source's experts in the proportions recorded,
/// scaled to the plan's tokens.
struct RecordedRouting {
  std::string file;                           // a routing trace (routing_trace.hpp)
  std::string sha256;                         // of the file
  std::int64_t iteration;                     // by its number in the trace
  TraceMapping sources = TraceMapping::None;  // to the plan's ranks
  RoutingTrace counts;                        // of that iteration alone
  bool operator==(const RecordedRouting&) const = default;
};

struct Workload {
  std::string name;
  std::int64_t global_batch;     // sequences an iteration, over all data-parallel replicas
  std::int64_t sequence_length;  // L
  std::optional<std::int64_t>
      micro_batch;  // sequences a forward pass of one replica; none: "auto", chosen by the planner
  Mode mode;
  Dtype dtype;                         // of activations and of the weights that multiply them
  std::optional<Recompute> recompute;  // none: "auto", chosen by the planner
  std::int64_t zero_stage;  // sharded over data-parallel ranks: 1: optimizer states, 2: gradients too, 3: weights too
  Optimizer optimizer;
  std::optional<double>
      capacity_factor;      // f: every expert takes exactly ceil(k f tokens / E) rows a source; none: dropless
  RoutingScenario routing;  // of the dropless case
  std::optional<RecordedRouting> recorded = {};  // instead
  Encoding encoding = Encoding::Sparse;
  ExpertLayout expert_layout = ExpertLayout::Merged;
  CodecOptions codecs = {};
  Gate gate = {};  // of the dropless case: what it does to the routing
  /// That occur in a run, for Tutel's dictionary; the plan itself is for `capacity_factor`.
  std::vector<double> capacity_factors = {};
  bool operator==(const Workload&) const = default;
};

/// Strict. micro_batch: a number or `auto` (or left out); capacity_factor: a number or `none` (or left out); routing:
/// uniform where left out, a scenario (read_routing()) or a recorded one, {trace: FILE, iteration: N, sources: RULE},
/// with `sha256` where it must be the same file; encoding: sparse and expert_layout: merged where left out; codecs:
/// those allowed, a map as {fp16:
/// {}, int8: {row_messages: 2}, zfp: {bits: 8}}, none where left out; gate: top_k where left out;
/// capacity_factors: at most 64 beside a capacity_factor, none where left out; recompute, zero_stage and optimizer may
/// be left out of a forward workload. At most 2^32 tokens. Raises InputError. recompute: one of kRecomputeNames or
/// `auto`. `sequence_length: auto` is 4096 tokens, or as many as the model has learned positions if those are fewer; an
/// explicit one that exceeds them is an error.
/// `learned_positions`: ModelSpec::position_embeddings; 0: no limit.
[[nodiscard]] Workload read_workload(const Node& document, std::int64_t learned_positions = 0);

/// Counts of layer `layer` where `sources` ranks have `tokens` tokens that select `top_k` experts each: every source's
/// in the proportions recorded, whole as routing_by_popularity() makes them. Neighbouring sources count as one
/// (TraceMapping::Sum), or one stands for several (Split, Repeat): which of them the numbers must allow.
[[nodiscard]] RoutingCounts recorded_counts(const RecordedRouting& recorded, std::size_t layer, std::int64_t sources,
                                            std::int64_t tokens, std::int64_t top_k);

/// "none" ... or "auto".
[[nodiscard]] std::string recompute_text(const Workload& workload);

/// Every field, defaults too, so that it reads back as the same workload.
[[nodiscard]] Node workload_document(const Workload& workload);

}  // namespace moeplan
