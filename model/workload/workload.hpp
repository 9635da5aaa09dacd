// A workload: batch, sequence length, numerics and routing of a training or forward iteration. Files:
// configs/workloads; `default` is used if none is named.
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
#include "model/operators/precision.hpp"
#include "model/text/document.hpp"
#include "model/workload/cuda_graphs.hpp"
#include "model/workload/fp8_modules.hpp"
#include "model/workload/fusions.hpp"
#include "model/workload/gate.hpp"
#include "model/workload/offload.hpp"
#include "model/workload/recompute.hpp"
#include "model/workload/routing.hpp"
#include "model/workload/routing_trace.hpp"

namespace moeplan {

enum class Mode { Train, Forward };  // Forward is a prefill; decode serving is out of scope
enum class Optimizer { Adam, Sgd };

/// What the optimizer updates: fp32 copies besides the weights in 16 bits (Megatron-LM's and DeepSpeed's optimizers);
/// fp32 weights, which are the only ones between their uses, sharded, and gathered in 16 bits (PyTorch's FSDP2 with
/// mixed precision, torchtitan); or the weights in 16 bits themselves.
enum class MainWeights { Separate, Only, None };

/// Whether modules are PyTorch's own (torchtitan), whose kernels the host launches in a tenth of the time of a module
/// of Transformer Engine or Megatron-Core: with elementwise operations fused by torch.compile, or one after the other,
/// each of which keeps its operands (those of the experts and of the gate's weights; others are priced as fused).
enum class PyTorchModules { None, Compiled, Eager };

/// How tokens are permuted to rows in expert order, and back: by index, O(T k M), or by products with a mask of zeros
/// and ones over tokens and capacity, O(T E C M) multiply-adds (Fairseq, DeepSpeed; [Tutel] sec. 4.2), which is made in
/// the layer's format or in fp32 (Fairseq's --moe-gating-use-fp32).
enum class Encoding { Sparse, Dense, DenseFp32 };
[[nodiscard]] constexpr bool is_dense(Encoding encoding) { return encoding != Encoding::Sparse; }
/// Where an expert's result is multiplied by the gate's weight: at the token's source, whose backward pass then needs
/// the returned rows, or between the expert's activation and down projection, to which the choices travel
/// (Megatron-Core from 0.12 on, DeepEP). Results are the same.
enum class GateWeights { AtSources, InExperts };
/// The products of an expert: one over the rows of all sources, which the exchange merges, or one per source ([Tutel]
/// sec. 4.1, the layouts (E_g, C, M) and (W, E_g, C_g, M)). Sorted: one product; rows arrive by source, and a kernel
/// sorts them by expert, and back by source before they return (Megatron-Core's all-to-all dispatcher).
enum class ExpertLayout { Merged, BySource, Sorted };

inline constexpr std::array<std::pair<Mode, std::string_view>, 2> kModeNames{
    {{Mode::Train, "train"}, {Mode::Forward, "forward"}}};
inline constexpr std::array<std::pair<Optimizer, std::string_view>, 2> kOptimizerNames{
    {{Optimizer::Adam, "adam"}, {Optimizer::Sgd, "sgd"}}};
inline constexpr std::array<std::pair<MainWeights, std::string_view>, 3> kMainWeightsNames{
    {{MainWeights::Separate, "separate"}, {MainWeights::Only, "only"}, {MainWeights::None, "none"}}};
inline constexpr std::array<std::pair<PyTorchModules, std::string_view>, 3> kPyTorchModulesNames{
    {{PyTorchModules::None, "none"}, {PyTorchModules::Compiled, "compiled"}, {PyTorchModules::Eager, "eager"}}};
inline constexpr std::array<std::pair<Encoding, std::string_view>, 3> kEncodingNames{
    {{Encoding::Sparse, "sparse"}, {Encoding::Dense, "dense"}, {Encoding::DenseFp32, "dense_fp32"}}};
inline constexpr std::array<std::pair<GateWeights, std::string_view>, 2> kGateWeightsNames{
    {{GateWeights::AtSources, "at_sources"}, {GateWeights::InExperts, "in_experts"}}};
inline constexpr std::array<std::pair<ExpertLayout, std::string_view>, 3> kExpertLayoutNames{
    {{ExpertLayout::Merged, "merged"}, {ExpertLayout::BySource, "by_source"}, {ExpertLayout::Sorted, "sorted"}}};

/// Options of the codecs. Codecs are lossy, so a plan uses only those that the workload allows.
struct CodecOptions {
  std::set<WireFormat> allowed = {};
  std::int64_t zfp_bits = 8;           // bits per value: zfp's fixed rate
  std::int64_t int8_row_messages = 2;  // in addition to the values: scale, zero point (ScheMoE's three all-to-alls)
  bool operator==(const CodecOptions&) const = default;
};

/// A routing recorded in one iteration, used in every MoE layer: each source's expert loads in the recorded
/// proportions, scaled to the plan's tokens.
struct RecordedRouting {
  std::string file;                           // a routing trace (routing_trace.hpp)
  std::string sha256;                         // of the file
  std::int64_t iteration;                     // iteration number in the trace
  TraceMapping sources = TraceMapping::None;  // mapping to the plan's ranks
  RoutingTrace counts;                        // of that iteration only
  bool operator==(const RecordedRouting&) const = default;
};

struct Workload {
  std::string name;
  std::int64_t global_batch;                // sequences per iteration, over all data-parallel replicas
  std::int64_t sequence_length;             // L
  std::optional<std::int64_t> micro_batch;  // sequences per forward pass of a replica; none: "auto", by the planner
  Mode mode;
  Dtype dtype;                         // of activations, messages, and the weights that multiply them
  std::optional<Recompute> recompute;  // none: "auto", chosen by the planner
  std::int64_t zero_stage;  // sharded over data-parallel ranks: 1: optimizer states, 2: also gradients, 3: also weights
  Optimizer optimizer;
  std::optional<double>
      capacity_factor;      // f: experts take exactly ceil(k f tokens / E) rows per source; none: dropless
  RoutingScenario routing;  // of the dropless case
  /// The layers that `recompute` applies to. Those of multi-token prediction are always among them.
  RecomputedLayers recompute_layers = {};
  std::optional<Precision> precision = {};       // recipe of the linear layers' products; none: all products in dtype
  std::optional<RecordedRouting> recorded = {};  // replaces `routing`
  Encoding encoding = Encoding::Sparse;
  GateWeights gate_weights = GateWeights::AtSources;
  ExpertLayout expert_layout = ExpertLayout::Merged;
  CudaGraphs cuda_graphs = CudaGraphs::None;  // key cuda_graph
  Fusions fusions = Fusions::Default;
  PyTorchModules pytorch_modules = PyTorchModules::None;
  bool fp8_activation_inputs = false;         // activation functions' inputs are kept for backward in fp8
  Fp8Modules fp8_modules = Fp8Modules::None;  // what multiplies in the recipe's format besides linear layers
  Offload offload = Offload::None;            // what is in host memory between its uses
  /// Layers of multi-token prediction that are trained along, on the last stage, where no layout says which.
  std::int64_t mtp_layers = 0;
  CodecOptions codecs = {};
  Gate gate = {};                       // of the dropless case: modifies the routing
  Dtype gradient_dtype = Dtype::Fp32;   // in which gradients are accumulated and reduced: fp32 or bf16
  Dtype optimizer_dtype = Dtype::Fp32;  // of the optimizer's moments: fp32 or bf16
  MainWeights main_weights = MainWeights::Separate;
  /// Parts of a microbatch's tokens of which logits, loss and their gradients are computed one after the other
  /// (torchtitan's ChunkedLoss, Liger-Kernel's fused linear cross-entropy).
  std::int64_t loss_chunks = 1;
  /// Gradients are reduced concurrently with the rest of the last backward pass (Megatron-LM's --overlap-grad-reduce),
  /// otherwise after it, all at once (DeepSpeed's ZeRO stage 1).
  bool overlap_gradients = true;
  /// Capacity factors that occur during training, for Tutel's dictionary; the plan itself uses `capacity_factor`.
  std::vector<double> capacity_factors = {};
  bool operator==(const Workload&) const = default;
};

struct ModelSpec;

/// What a model limits in a workload: its learned positions and its layers, 0: no limit; and its layers of multi-token
/// prediction.
struct WorkloadLimits {
  std::int64_t learned_positions = 0, layers = 0;
  std::optional<std::int64_t> mtp_layers = {};  // none: no limit
  [[nodiscard]] static WorkloadLimits of(const ModelSpec& model);
};

/// Reads a workload strictly. Raises InputError.
///
/// Values and defaults: dtype: fp32, tf32, fp16 or bf16. precision: a recipe (kPrecisionNames), with a dtype of 16
/// bits, or the dtype's own name (default). micro_batch: a number or `auto` (default). capacity_factor: a number or
/// `none` (default). routing: uniform by default, a scenario (read_routing()) or a recorded routing {trace: FILE,
/// iteration: N, sources: RULE}, with `sha256` to require a specific file content. encoding: sparse by default.
/// gate_weights: at_sources by default.
/// expert_layout: merged by default. cuda_graph: none by default, full_iteration, or modules joined by "+"
/// (GraphModule). fusions: Fusions::Default, none, or fusions joined by "+" (Fusion), norm_quantise with precision
/// mxfp8; written only if they differ from the default. pytorch_modules: none by default, compiled or eager, with
/// gate_weights at_sources; written only if not none. fp8_activation_inputs: false by default; written only if true.
/// fp8_modules: none by default, or modules joined by "+" (Fp8Module), with a recipe in 8 bits; written only if there
/// are any. offload: none by default, or modules joined by "+" (OffloadModule), to train; written only if there are
/// any. mtp_layers: 0 by default, to train, at most those of the model; written only if there are any. codecs: the
/// allowed codecs, a map like {fp16: {}, int8: {row_messages: 2}, zfp: {bits: 8}}; none by default. gate: top_k by
/// default. capacity_factors: at most 64, in addition to a capacity_factor; none by default. recompute: none,
/// selective, full, modules joined by "+" (RecomputeModule), or `auto`. recompute_layers: all by default, "first:N" or
/// numbers (RecomputedLayers), if anything is recomputed; written only if not all. gradient_dtype and optimizer_dtype:
/// fp32 by default. main_weights: separate by default, and in place of `only` below zero_stage 3 or in fp32; written
/// only if not separate. loss_chunks: 1 by default, to train; written only if there are more. overlap_gradients: true
/// by default, and wherever gradients are sharded (zero_stage 2 and 3), which are reduced as they appear; written only
/// if it is false. recompute, zero_stage and optimizer may be omitted in a forward workload. sequence_length: a number,
/// or `auto` for 4096 tokens, or the model's number of learned positions if that is smaller; a number that exceeds them
/// is an error. At most 2^32 tokens.
[[nodiscard]] Workload read_workload(const Node& document, const WorkloadLimits& limits = {});

/// Counts of layer `layer` for `sources` ranks with `tokens` tokens that select `top_k` experts each: every source's
/// tokens in the recorded proportions, rounded to integers as by routing_by_popularity(). Neighbouring sources are
/// merged (TraceMapping::Sum), or one is mapped to several (Split, Repeat); the numbers must allow the mapping.
[[nodiscard]] RoutingCounts recorded_counts(const RecordedRouting& recorded, std::size_t layer, std::int64_t sources,
                                            std::int64_t tokens, std::int64_t top_k);

/// The recipe as text, or the dtype: "fp8_current", "bf16".
[[nodiscard]] std::string precision_text(const Workload& workload);

/// The key `recompute` of a map: none, selective, full, or modules. Reports any other text.
[[nodiscard]] Recompute read_recompute(MapReader& reader);

/// The recompute setting as text: "none" ... or "auto".
[[nodiscard]] std::string recompute_text(const Workload& workload);

/// What is fused where a workload does not say: Fusions::Default, but what compiled or eager modules of PyTorch fuse of
/// it.
[[nodiscard]] Fusions usual_fusions(PyTorchModules modules);
/// Whether training runs the kernels of Megatron-Core (2026): the experts multiply by the gate's weights there.
[[nodiscard]] bool has_megatron_kernels(const Workload& workload);
/// The optimizer's moments: Adam's two or SGD's momentum.
[[nodiscard]] std::int64_t optimizer_moments(const Workload& workload);
/// Bytes of a parameter between its uses: 4 where fp32 weights are the only ones.
[[nodiscard]] std::int64_t weight_bytes(const Workload& workload);
/// Whether weights are gathered into one buffer of a layer, out of which they are copied, and gradients are copied into
/// one to be reduced (PyTorch's FSDP2).
[[nodiscard]] bool copies_gathered(const Workload& workload);
/// Whether gradients are kept in buffers from one iteration to the next, in which they are averaged and set to zero
/// (Megatron-Core's param_and_grad_buffer.py, DeepSpeed); otherwise they are freed (PyTorch).
[[nodiscard]] inline bool keeps_gradients(const Workload& workload) {
  return workload.zero_stage <= 1 && workload.pytorch_modules == PyTorchModules::None;
}
/// Bytes of an fp32 copy of a parameter that the optimizer keeps besides 16-bit weights: the 2 bytes that a bf16 weight
/// lacks where the moments are 16-bit and no product is of a narrower format (Megatron-Core's
/// use_precision_aware_optimizer with its default store_param_remainders), otherwise all 4.
[[nodiscard]] std::int64_t master_bytes(const Workload& workload);
/// Bytes that the optimizer keeps per parameter: the master copy, and the moments in the workload's optimizer_dtype.
[[nodiscard]] std::int64_t optimizer_bytes(const Workload& workload);
/// The document with every field, including defaults, that reads back as the same workload.
[[nodiscard]] Node workload_document(const Workload& workload);

}  // namespace moeplan
