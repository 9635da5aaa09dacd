#include "model/workload/workload.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/sha256.hpp"
#include "model/text/origins.hpp"
#include "model/transformer/model_spec.hpp"

namespace moeplan {

namespace {

// Limits that prevent overflow, without physical meaning: with up to 2^10 selections per token, a hidden size of 2^17
// and 8 bytes per element, every product of counts stays below 2^62. 2^32 tokens are about forty times the largest
// published batch.
constexpr std::int64_t kMostSequences = std::int64_t{1} << 24;
constexpr std::int64_t kLongestSequence = std::int64_t{1} << 24;
constexpr std::int64_t kMostTokens = std::int64_t{1} << 32;
// The context length at which most published models are pre-trained before it is extended (assumed default, 2024).
constexpr std::int64_t kAutoSequence = 4096;
constexpr std::size_t kMostTraceBytes = std::size_t{1} << 30;  // of a trace file
constexpr std::int64_t kMostLossChunks = 1024;
constexpr double kLeastCapacity = 0.001, kMostCapacity = 1000;

bool is_word(const MapReader& reader, std::string_view key, std::string_view word) {
  const Node* n = reader.node().find(key);
  return n && n->kind == Node::Kind::Scalar && n->scalar == word;
}

CodecOptions read_codecs(MapReader codecs) {
  CodecOptions options;
  for (const auto& [format, name] : kWireFormatNames) {
    if (!codecs.find(name)) continue;
    options.allowed.insert(format);
    MapReader codec = codecs.map(name);
    if (format == WireFormat::Int8) options.int8_row_messages = codec.integer_or("row_messages", 2, 1, 2);
    if (format == WireFormat::Zfp) options.zfp_bits = codec.integer_or("bits", 8, 1, 32);
    codec.finish();
  }
  codecs.finish();
  return options;
}

std::vector<double> read_capacity_factors(MapReader& reader) {
  constexpr std::size_t kMost = 64;  // each costs up to a few hundred simulations of a layer
  std::vector<double> out;
  const auto list = reader.list("capacity_factors");
  if (list.size() > kMost) {
    reader.complain("capacity_factors", fmt::format("has {} factors; expected at most {}", list.size(), kMost));
    return out;
  }
  for (const auto& [node, path] : list) {
    const bool is_number = node->kind == Node::Kind::Scalar && !node->is_string;
    const auto parsed = parse_number(is_number ? node->scalar : "");
    const double* factor = std::get_if<double>(&parsed);
    if (factor && *factor >= kLeastCapacity && *factor <= kMostCapacity) {
      out.push_back(*factor);
    } else {
      reader.diagnostics().add(node->where, path,
                               fmt::format("expected a number from {} to {}", kLeastCapacity, kMostCapacity));
    }
  }
  return out;
}

Node codecs_document(const CodecOptions& options) {
  Node out = Node::map();
  for (const auto& [format, name] : kWireFormatNames) {
    if (!options.allowed.contains(format)) continue;
    Node codec = Node::map();
    if (format == WireFormat::Int8) codec.set("row_messages", Node::integer(options.int8_row_messages));
    if (format == WireFormat::Zfp) codec.set("bits", Node::integer(options.zfp_bits));
    out.set(std::string(name), std::move(codec));
  }
  return out;
}

/// Reads routing: {trace: FILE, iteration: N}, with the file's SHA-256 in plans.
std::optional<RecordedRouting> read_recorded(MapReader routing) {
  const std::string file = routing.text("trace"), expected = routing.text_or("sha256", "");
  const std::int64_t number = routing.integer("iteration", 0);
  const auto sources = routing.choice_or<TraceMapping>("sources", TraceMapping::None, kTraceMappingNames);
  routing.finish();
  if (!routing.has("trace") || !routing.has("iteration")) return std::nullopt;
  const std::string hash = sha256(read_text_file(file, kMostTraceBytes));
  if (!expected.empty() && hash != expected) {
    routing.complain("trace",
                     fmt::format("{} is not the file that was planned with: its SHA-256 is {}", in_quotes(file), hash));
    return std::nullopt;
  }
  const RoutingTrace trace = read_routing_trace(file);
  const auto numbers = trace.iterations();
  const auto it = std::lower_bound(numbers.begin(), numbers.end(), number);
  if (it == numbers.end() || *it != number) {
    routing.complain(
        "iteration",
        fmt::format("{} is not in the trace; {} iterations from {} to {} are, the next one {}", number, numbers.size(),
                    numbers.front(), numbers.back(), it == numbers.end() ? numbers.back() : *it));
    return std::nullopt;
  }
  return RecordedRouting{file, hash, number, sources,
                         one_iteration(trace, static_cast<std::size_t>(it - numbers.begin()))};
}

Node recorded_document(const RecordedRouting& recorded) {
  Node out = Node::map();
  out.set("trace", Node::text(recorded.file));
  out.set("sha256", Node::text(recorded.sha256));
  out.set("iteration", Node::integer(recorded.iteration));
  out.set("sources", Node::text(std::string(name_of<TraceMapping>(kTraceMappingNames, recorded.sources))));
  return out;
}

/// The formats of gradients and of the optimizer's moments.
constexpr std::array<std::pair<Dtype, std::string_view>, 2> kStateDtypeNames{
    {{Dtype::Fp32, "fp32"}, {Dtype::Bf16, "bf16"}}};

/// The formats that training computes in; 8-bit formats are those of a recipe's products only.
Dtype read_dtype(MapReader& reader) {
  const auto dtype = reader.choice<Dtype>("dtype", kDtypeNames);
  if (size_of(dtype) > 1) return dtype;
  reader.complain("dtype",
                  fmt::format("{} is no format of activations and messages; expected bf16 or another one, with "
                              "a recipe for the products of linear layers, e.g. precision: fp8_current",
                              name_of<Dtype>(kDtypeNames, dtype)));
  return Dtype::Bf16;
}

std::optional<Precision> read_precision(MapReader& reader, Dtype dtype) {
  if (is_word(reader, "precision", name_of<Dtype>(kDtypeNames, dtype)) || !reader.has("precision")) {
    (void)reader.find("precision");
    return std::nullopt;
  }
  const auto precision = reader.choice<Precision>("precision", kPrecisionNames);
  if (size_of(dtype) == 2) return precision;
  reader.complain("precision",
                  fmt::format("{} quantises from 16 bits; dtype is {}, expected bf16 or fp16",
                              name_of<Precision>(kPrecisionNames, precision), name_of<Dtype>(kDtypeNames, dtype)));
  return std::nullopt;
}

std::optional<Recompute> read_recompute_or_auto(MapReader& reader) {
  if (!is_word(reader, "recompute", "auto")) return read_recompute(reader);
  (void)reader.find("recompute");
  return std::nullopt;
}

/// A set of modules, which these functions parse and explain; without the key, or if it is wrong, `otherwise`.
template <class Set>
Set read_modules(MapReader& reader, const char* key, const Set& otherwise,
                 std::optional<Set> (*parse)(std::string_view), std::string (*error)(std::string_view)) {
  if (!reader.find(key)) return otherwise;
  const std::string text = reader.text(key);
  const std::optional<Set> parsed = parse(text);
  if (!parsed) reader.complain(key, error(text));
  return parsed.value_or(otherwise);
}

Fusions read_fusions(MapReader& reader, const Workload& w) {
  const Fusions fusions = read_modules(reader, "fusions", Fusions::Default, parse_fusions, fusions_error);
  if (fusions.has(Fusion::NormQuantise) && w.precision != Precision::Mxfp8)
    reader.complain("fusions", fmt::format("norms quantise to mxfp8 alone; precision is {}", precision_text(w)));
  if (fusions.has(Fusion::GroupedMlp) && w.precision != Precision::Mxfp8)
    reader.complain("fusions",
                    fmt::format("the experts' fused kernels are for mxfp8 alone; precision is {}", precision_text(w)));
  if (fusions.has(Fusion::GroupedMlp) && !has_megatron_kernels(w))
    reader.complain("fusions", "the experts' fused kernels weigh, in training; with them gate_weights is in_experts");
  return fusions;
}

Fp8Modules read_fp8_modules(MapReader& reader, const Workload& w) {
  const Fp8Modules modules =
      read_modules(reader, "fp8_modules", Fp8Modules::None, parse_fp8_modules, fp8_modules_error);
  if (modules != Fp8Modules::None && !w.precision)
    reader.complain("fp8_modules", fmt::format("are those of recipes in 8 bits; precision is {}", precision_text(w)));
  if (modules.has(Fp8Module::Attention) && !w.fusions.has(Fusion::Attention))
    reader.complain("fp8_modules", "attention in 8 bits is a fused kernel; fusions have no attention");
  return modules;
}

Offload read_offload(MapReader& reader, const Workload& w) {
  const Offload offload = read_modules(reader, "offload", Offload::None, parse_offload, offload_error);
  if (offload != Offload::None && w.mode == Mode::Forward)
    reader.complain("offload", "is for training, which keeps activations and states; expected none");
  if (offload.has(OffloadModule::OptimizerStates) && w.main_weights != MainWeights::Separate)
    reader.complain("offload", "optimizer is for states apart from the weights (main_weights: separate)");
  const bool is_whole = offload.has(OffloadModule::FusedGroupMlp);
  if (is_whole && (offload.has(OffloadModule::ExpertFc1) || offload.has(OffloadModule::MoeActivation)))
    reader.complain("offload", "fused_group_mlp contains expert_fc1 and moe_act");
  return offload;
}

/// Batch, micro batch and sequence length.
void read_sizes(MapReader& reader, std::int64_t learned_positions, Workload& w) {
  w.global_batch = reader.integer("global_batch", 1, kMostSequences);
  if (is_word(reader, "sequence_length", "auto")) {
    (void)reader.find("sequence_length");
    w.sequence_length = learned_positions > 0 ? std::min(learned_positions, kAutoSequence) : kAutoSequence;
  } else {
    w.sequence_length = reader.integer("sequence_length", 1, kLongestSequence);
  }
  if (learned_positions > 0 && w.sequence_length > learned_positions) {
    reader.complain(
        "sequence_length",
        fmt::format("{} exceeds the {} positions that the model has learned; expected at most that, or auto",
                    w.sequence_length, learned_positions));
  }
  if (w.global_batch > kMostTokens / w.sequence_length) {
    reader.complain("global_batch",
                    fmt::format("{} sequences of {} tokens are out of range; expected at most {} tokens",
                                w.global_batch, w.sequence_length, kMostTokens));
  }
  if (reader.find("micro_batch") && !is_word(reader, "micro_batch", "auto")) {
    w.micro_batch = reader.integer("micro_batch", 1, w.global_batch);
  }
}

RecomputedLayers read_recomputed_layers(MapReader& reader, const Workload& w, std::int64_t layers) {
  if (!reader.find("recompute_layers")) return {};
  const std::string text = reader.text("recompute_layers");
  const auto parsed = parse_recomputed_layers(text);
  if (!parsed)
    reader.complain("recompute_layers",
                    fmt::format("{} is not a set of layers; expected all, first:N (of each part of the pipeline) or "
                                "different numbers from 0 on, as 0-2,4,6",
                                in_quotes(text)));
  if (parsed && !parsed->all() && w.recompute == Recompute::None)
    reader.complain("recompute_layers", "has no effect with recompute: none");
  if (parsed && layers > 0 && !parsed->numbers.empty() && parsed->numbers.back() >= layers)
    reader.complain("recompute_layers", fmt::format("layer {} is not in the model, whose layers are 0 to {}",
                                                    parsed->numbers.back(), layers - 1));
  return parsed.value_or(RecomputedLayers{});
}

void read_training(MapReader& reader, std::int64_t layers, Workload& w) {
  if (w.mode == Mode::Train) {
    w.recompute = read_recompute_or_auto(reader);
    w.zero_stage = reader.integer("zero_stage", 0, 3);
    w.optimizer = reader.choice<Optimizer>("optimizer", kOptimizerNames);
  } else {  // a forward pass keeps nothing for a backward pass and updates nothing
    w.recompute = reader.has("recompute") ? read_recompute_or_auto(reader).value_or(Recompute::None) : Recompute::None;
    w.zero_stage = reader.integer_or("zero_stage", 0, 0, 3);
    w.optimizer = reader.choice_or<Optimizer>("optimizer", Optimizer::Adam, kOptimizerNames);
  }
  w.recompute_layers = read_recomputed_layers(reader, w, layers);
}

void read_main_weights(MapReader& reader, Workload& w) {
  w.main_weights = reader.choice_or<MainWeights>("main_weights", MainWeights::Separate, kMainWeightsNames);
  if (w.main_weights != MainWeights::Separate && w.mode == Mode::Forward)
    reader.complain("main_weights", "is for training; expected separate");
  // Weights in 16 bits stay in lower stages; weights in fp32 need no others.
  const bool has_no_effect = size_of(w.dtype) != 2 || (w.main_weights == MainWeights::Only && w.zero_stage < 3);
  if (has_no_effect) w.main_weights = MainWeights::Separate;
  w.loss_chunks = reader.integer_or("loss_chunks", 1, 1, kMostLossChunks);
  if (w.loss_chunks > 1 && w.mode == Mode::Forward) reader.complain("loss_chunks", "is for training; expected 1");
}

/// How tokens select experts: capacity, routing and gate.
void read_selection(MapReader& reader, Workload& w) {
  if (reader.find("capacity_factor") && !is_word(reader, "capacity_factor", "none")) {
    w.capacity_factor = reader.number("capacity_factor", kLeastCapacity, kMostCapacity);
  }
  if (const Node* routing = reader.find("routing"); routing && routing->find("trace")) {
    w.recorded = read_recorded(reader.map("routing"));
  } else if (routing) {
    w.routing = read_routing(reader.map("routing"));
  }
  if (w.capacity_factor && (w.routing != RoutingScenario{} || w.recorded)) {
    reader.complain("routing",
                    "has no effect together with a capacity_factor, with which every expert takes the same rows");
  }
  if (reader.find("gate")) w.gate = read_gate(reader.map("gate"));
  if (w.capacity_factor && w.gate != Gate{}) {
    reader.complain("gate",
                    "has no effect together with a capacity_factor; a gate of kind capacity has a factor of its own");
  }
  if (reader.find("capacity_factors")) w.capacity_factors = read_capacity_factors(reader);
  if (!w.capacity_factors.empty() && !w.capacity_factor) {
    reader.complain("capacity_factors", "needs a capacity_factor, which the plan itself is for");
  }
}

}  // namespace

WorkloadLimits WorkloadLimits::of(const ModelSpec& model) {
  return {
      .learned_positions = model.position_embeddings, .layers = model.num_layers(), .mtp_layers = model.num_mtp_layers};
}

Workload read_workload(const Node& document, const WorkloadLimits& limits) {
  Diagnostics diagnostics;
  MapReader reader(document, "", diagnostics);
  Workload w{};
  w.name = reader.text("name");
  read_sizes(reader, limits.learned_positions, w);
  w.mode = reader.choice<Mode>("mode", kModeNames);
  w.dtype = read_dtype(reader);
  w.precision = read_precision(reader, w.dtype);
  read_training(reader, limits.layers, w);
  w.gradient_dtype = reader.choice_or<Dtype>("gradient_dtype", Dtype::Fp32, kStateDtypeNames);
  w.optimizer_dtype = reader.choice_or<Dtype>("optimizer_dtype", Dtype::Fp32, kStateDtypeNames);
  read_main_weights(reader, w);
  w.overlap_gradients = reader.boolean_or("overlap_gradients", true);
  if (!w.overlap_gradients && w.zero_stage >= 2)
    reader.complain("overlap_gradients",
                    fmt::format("false, but with zero_stage {} gradients are sharded, so that they "
                                "are reduced as they appear; expected true",
                                w.zero_stage));
  read_selection(reader, w);
  w.encoding = reader.choice_or<Encoding>("encoding", Encoding::Sparse, kEncodingNames);
  w.gate_weights = reader.choice_or<GateWeights>("gate_weights", GateWeights::AtSources, kGateWeightsNames);
  w.expert_layout = reader.choice_or<ExpertLayout>("expert_layout", ExpertLayout::Merged, kExpertLayoutNames);
  w.cuda_graphs = read_modules(reader, "cuda_graph", CudaGraphs::None, parse_cuda_graphs, cuda_graphs_error);
  w.fusions = read_fusions(reader, w);
  w.pytorch_modules = reader.choice_or<PyTorchModules>("pytorch_modules", PyTorchModules::None, kPyTorchModulesNames);
  const bool has_own = w.mode == Mode::Forward || w.gate_weights != GateWeights::AtSources;
  if (w.pytorch_modules != PyTorchModules::None && has_own)
    reader.complain("pytorch_modules", "are for training with gate_weights at_sources; expected none");
  w.fp8_activation_inputs = reader.boolean_or("fp8_activation_inputs", false);
  if (w.fp8_activation_inputs && (w.mode == Mode::Forward || size_of(w.dtype) != 2))
    reader.complain("fp8_activation_inputs", "is for training in 16 bits; expected false");
  if (w.fp8_activation_inputs && w.pytorch_modules == PyTorchModules::Eager)
    reader.complain("fp8_activation_inputs", "of eager activation functions stay as they are; expected false");
  if (w.fp8_activation_inputs && w.fusions.has(Fusion::GroupedMlp))
    reader.complain("fp8_activation_inputs",
                    "of experts whose products activate (grouped_mlp) stay as they are; expected false");
  w.fp8_modules = read_fp8_modules(reader, w);
  w.offload = read_offload(reader, w);
  w.mtp_layers = reader.integer_or("mtp_layers", 0, 0, limits.mtp_layers.value_or(ModelLimits::kMtpLayers));
  if (w.mtp_layers > 0 && w.mode == Mode::Forward) reader.complain("mtp_layers", "are for training; expected 0");
  if (reader.find("codecs")) w.codecs = read_codecs(reader.map("codecs"));
  read_origins(reader);
  reader.finish();
  diagnostics.throw_if_any();
  return w;
}

RoutingCounts recorded_counts(const RecordedRouting& recorded, std::size_t layer, std::int64_t sources,
                              std::int64_t tokens, std::int64_t top_k) {
  const RoutingTrace& trace = recorded.counts;
  const bool sums = sources < trace.sources();
  const std::int64_t several = sums ? trace.sources() / sources : sources / trace.sources();
  const auto experts = static_cast<std::size_t>(trace.experts());
  std::vector<std::int64_t> counts;
  counts.reserve(static_cast<std::size_t>(sources) * experts);
  for (std::int64_t s = 0; s < sources; ++s) {
    std::vector<double> popularity(experts, 1e-9);  // positive, so that top_k experts remain
    const std::int64_t first = sums ? s * several : s / several, last = sums ? first + several : first + 1;
    for (std::int64_t from = first; from < last; ++from) {
      const auto row = trace.row(0, static_cast<std::int64_t>(layer), RankId(static_cast<std::int32_t>(from)));
      for (std::size_t e = 0; e < experts; ++e) popularity[e] += row[e];
    }
    const RoutingCounts own = routing_by_popularity({}, std::move(popularity), 1, tokens, top_k);
    for (std::size_t e = 0; e < experts; ++e) counts.push_back(own.at(RankId(0), ExpertId(e)));
  }
  return RoutingCounts::dense(sources, trace.experts(), std::move(counts));
}

Recompute read_recompute(MapReader& reader) {
  const std::string text = reader.text("recompute");
  const auto parsed = parse_recompute(text);
  if (!parsed && reader.has("recompute")) reader.complain("recompute", recompute_error(text));
  return parsed.value_or(Recompute::None);
}

std::string precision_text(const Workload& w) {
  return std::string(w.precision ? name_of<Precision>(kPrecisionNames, *w.precision)
                                 : name_of<Dtype>(kDtypeNames, w.dtype));
}

std::string recompute_text(const Workload& w) { return w.recompute ? name_of(*w.recompute) : "auto"; }

Node workload_document(const Workload& w) {
  Node out = Node::map();
  out.set("name", Node::text(w.name));
  out.set("global_batch", Node::integer(w.global_batch));
  out.set("sequence_length", Node::integer(w.sequence_length));
  out.set("micro_batch", w.micro_batch ? Node::integer(*w.micro_batch) : Node::text("auto"));
  out.set("mode", Node::text(std::string(name_of<Mode>(kModeNames, w.mode))));
  out.set("dtype", Node::text(std::string(name_of<Dtype>(kDtypeNames, w.dtype))));
  out.set("precision", Node::text(precision_text(w)));
  out.set("recompute", Node::text(recompute_text(w)));
  if (!w.recompute_layers.all()) out.set("recompute_layers", Node::text(name_of(w.recompute_layers)));
  out.set("zero_stage", Node::integer(w.zero_stage));
  out.set("optimizer", Node::text(std::string(name_of<Optimizer>(kOptimizerNames, w.optimizer))));
  out.set("gradient_dtype", Node::text(std::string(name_of<Dtype>(kDtypeNames, w.gradient_dtype))));
  out.set("optimizer_dtype", Node::text(std::string(name_of<Dtype>(kDtypeNames, w.optimizer_dtype))));
  if (w.main_weights != MainWeights::Separate)
    out.set("main_weights", Node::text(std::string(name_of<MainWeights>(kMainWeightsNames, w.main_weights))));
  if (w.loss_chunks > 1) out.set("loss_chunks", Node::integer(w.loss_chunks));
  if (!w.overlap_gradients) out.set("overlap_gradients", Node::boolean(false));
  out.set("capacity_factor", w.capacity_factor ? Node::number(*w.capacity_factor) : Node::text("none"));
  out.set("routing", w.recorded ? recorded_document(*w.recorded) : routing_document(w.routing));
  out.set("encoding", Node::text(std::string(name_of<Encoding>(kEncodingNames, w.encoding))));
  out.set("gate_weights", Node::text(std::string(name_of<GateWeights>(kGateWeightsNames, w.gate_weights))));
  out.set("expert_layout", Node::text(std::string(name_of<ExpertLayout>(kExpertLayoutNames, w.expert_layout))));
  out.set("cuda_graph", Node::text(name_of(w.cuda_graphs)));
  if (w.fusions != Fusions::Default) out.set("fusions", Node::text(name_of(w.fusions)));
  if (w.pytorch_modules != PyTorchModules::None)
    out.set("pytorch_modules",
            Node::text(std::string(name_of<PyTorchModules>(kPyTorchModulesNames, w.pytorch_modules))));
  if (w.fp8_activation_inputs) out.set("fp8_activation_inputs", Node::boolean(true));
  if (w.fp8_modules != Fp8Modules::None) out.set("fp8_modules", Node::text(name_of(w.fp8_modules)));
  if (w.offload != Offload::None) out.set("offload", Node::text(name_of(w.offload)));
  if (w.mtp_layers > 0) out.set("mtp_layers", Node::integer(w.mtp_layers));
  out.set("codecs", codecs_document(w.codecs));
  out.set("gate", gate_document(w.gate));
  Node& factors = out.set("capacity_factors", Node::list());
  for (const double f : w.capacity_factors) factors.items.push_back(Node::number(f));
  return out;
}

std::int64_t optimizer_moments(const Workload& workload) { return workload.optimizer == Optimizer::Adam ? 2 : 1; }

std::int64_t weight_bytes(const Workload& workload) {
  return workload.main_weights == MainWeights::Only ? size_of(Dtype::Fp32) : size_of(workload.dtype);
}

bool copies_gathered(const Workload& workload) {
  return workload.zero_stage >= 3 && workload.main_weights != MainWeights::Separate;
}

std::int64_t master_bytes(const Workload& workload) {
  if (size_of(workload.dtype) >= 4 || workload.main_weights != MainWeights::Separate) return 0;
  const bool has_upper_half = workload.dtype == Dtype::Bf16 && !workload.precision;
  return size_of(workload.optimizer_dtype) < 4 && has_upper_half ? 2 : 4;
}

std::int64_t optimizer_bytes(const Workload& workload) {
  return master_bytes(workload) + optimizer_moments(workload) * size_of(workload.optimizer_dtype);
}

Fusions usual_fusions(PyTorchModules modules) {
  Fusions out = Fusions::Default;
  if (modules != PyTorchModules::None) out.remove(Fusion::Permute);
  if (modules != PyTorchModules::Eager) return out;
  out.remove(Fusion::Router);
  out.remove(Fusion::CrossEntropy);
  return out;
}

bool has_megatron_kernels(const Workload& workload) {
  return workload.mode == Mode::Train && workload.gate_weights == GateWeights::InExperts;
}

}  // namespace moeplan
