// The settings of DeepSpeed and TorchTitan.
#include <fmt/format.h>

#include <algorithm>

#include "model/text/reader.hpp"
#include "planner/runs/job_draft.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

using planner::FrameworkDecision;

/// Global batch, micro batch and passes that accumulate gradients, of which two give the third. Every replica has
/// batch = micro * passes sequences.
struct DeepSpeedBatch {
  std::optional<std::int64_t> batch, micro, passes;
};

void read_batch(JobDraft& d, std::int64_t tp) {
  constexpr const char* kBatch = "train_batch_size";
  DeepSpeedBatch b{d.settings.count(kBatch), d.settings.count("train_micro_batch_size_per_gpu"),
                   d.settings.count("gradient_accumulation_steps")};
  if (!b.batch && !b.micro) {
    d.settings.complain("train_micro_batch_size_per_gpu", "is missing; expected it or train_batch_size");
    b.micro = 1;
  }
  std::optional<std::int64_t> dp;
  if (const auto world = d.world()) dp = std::max<std::int64_t>(1, *world / tp);
  if (!dp && b.batch && b.micro && b.passes)
    dp = std::max<std::int64_t>(1, *b.batch / capped_product({*b.micro, *b.passes}));
  if (!dp) {
    d.settings.complain(kBatch,
                        "with micro batch and accumulation steps it would say how many replicas there are; say "
                        "the GPUs with --world");
    dp = 1;
  }
  if (!b.passes && b.batch && b.micro) b.passes = std::max<std::int64_t>(1, *b.batch / capped_product({*b.micro, *dp}));
  if (!b.passes) d.assume("gradient_accumulation_steps 1");
  const std::int64_t passes = b.passes.value_or(1);
  if (!b.micro) b.micro = std::max<std::int64_t>(1, *b.batch / capped_product({*dp, passes}));
  if (!b.batch) b.batch = capped_product({*b.micro, passes, *dp});
  if (capped_product({*b.micro, passes, *dp}) != *b.batch)
    d.settings.complain(
        kBatch, fmt::format("{} is not {} replicas x {} passes x {} sequences", *b.batch, *dp, passes, *b.micro));
  d.inputs.workload.global_batch = *b.batch;
  d.candidate.micro_batch = *b.micro;
  d.candidate.degrees.dp = *dp;
}

void read_deepspeed_precision(JobDraft& d) {
  Workload& w = d.inputs.workload;
  if (d.settings.flag("bf16.enabled")) {
    w.dtype = Dtype::Bf16;
  } else if (d.settings.flag("fp16.enabled")) {
    w.dtype = Dtype::Fp16;
  } else if (d.settings.has("bf16.enabled") || d.settings.has("fp16.enabled")) {
    w.dtype = Dtype::Fp32;
  } else {
    d.assume("dtype " + precision_text(w) + " of the workload");
  }
  const std::string reduced = d.settings.text("communication_data_type");
  w.gradient_dtype = reduced == "fp32" || (reduced.empty() && w.dtype == Dtype::Fp32) ? Dtype::Fp32 : Dtype::Bf16;
  if (reduced.empty())
    d.assume(fmt::format("gradients reduced in {}", w.gradient_dtype == Dtype::Fp32 ? "fp32" : "16 bits"));
  if (reduced == "fp16") d.approximations.emplace_back("communication_data_type fp16: priced as bf16");
}

void read_deepspeed_states(JobDraft& d) {
  Workload& w = d.inputs.workload;
  w.zero_stage = d.settings.count_or("zero_optimization.stage", 0, 0);
  if (!d.settings.has("zero_optimization.stage")) d.assume("zero_optimization.stage 0");
  if (w.zero_stage > 3) {
    d.settings.complain("zero_optimization.stage", fmt::format("{} is no stage; expected 0 to 3", w.zero_stage));
    w.zero_stage = 0;
  }
  if (!d.settings.has("zero_optimization.overlap_comm") && w.zero_stage < 2)
    d.assume("zero_optimization.overlap_comm false");
  w.overlap_gradients = d.settings.flag("zero_optimization.overlap_comm") || w.zero_stage >= 2;
  const std::string optimizer = d.settings.text("optimizer.type");
  if (!optimizer.empty()) w.optimizer = optimizer == "SGD" ? Optimizer::Sgd : Optimizer::Adam;
  if (!optimizer.empty() && optimizer != "SGD" && !optimizer.starts_with("Adam"))
    d.approximations.push_back(fmt::format("optimizer {}: priced as Adam", optimizer));
}

/// The modules of a part of TorchTitan's pipeline.
std::optional<planner::LayoutPart> part_of(const Node& names) {
  planner::LayoutPart part;
  if (names.kind != Node::Kind::List) return std::nullopt;
  for (const Node& name : names.items) {
    if (name.scalar.starts_with("layers.")) {
      ++part.layers;
    } else if (name.scalar == "tok_embeddings") {
      part.embedding = true;
    } else if (name.scalar == "output") {
      part.head = true;
    } else if (name.scalar != "norm") {
      return std::nullopt;
    }
  }
  return part;
}

void read_torchtitan_layout(JobDraft& d) {
  constexpr const char* kParts = "parallelism.module_fqns_per_model_part";
  planner::Candidate& c = d.candidate;
  const std::string schedule = d.settings.text("parallelism.pipeline_parallel_schedule", "1F1B");
  const bool is_interleaved = schedule == "Interleaved1F1B";
  if (!is_interleaved && schedule != "1F1B")
    d.approximations.push_back(fmt::format("pipeline_parallel_schedule {}: priced as 1F1B", schedule));
  c.virtual_stages = is_interleaved ? 2 : 1;
  if (!d.settings.has(kParts)) {
    d.assume(fmt::format("layers divided over {} parts by FLOPs", c.degrees.pp * c.virtual_stages));
    return;
  }
  planner::PipelineLayout layout;
  for (const Node* names : d.settings.list(kParts)) {
    const auto part = part_of(*names);
    if (!part)
      return d.settings.complain(kParts, "expected lists of \"tok_embeddings\", \"layers.0\", \"norm\" and \"output\"");
    layout.parts.push_back(*part);
  }
  const std::int64_t layers = d.inputs.model.num_layers();
  if (layout.layers() != layers)
    d.settings.complain(kParts, fmt::format("has {} layers, the model {}", layout.layers(), layers));
  if (std::ssize(layout.parts) % c.degrees.pp != 0)
    d.settings.complain(
        kParts, fmt::format("has {} parts; expected a multiple of {} stages", layout.parts.size(), c.degrees.pp));
  c.virtual_stages = std::max<std::int64_t>(1, std::ssize(layout.parts) / c.degrees.pp);
  c.layout = std::move(layout);
}

void read_torchtitan_degrees(JobDraft& d) {
  Degrees& g = d.candidate.degrees;
  g.tp = d.count("parallelism.tensor_parallel_degree", 1);
  g.cp = d.count("parallelism.context_parallel_degree", 1);
  g.pp = d.count("parallelism.pipeline_parallel_degree", 1);
  constexpr const char* kShard = "parallelism.data_parallel_shard_degree";
  const std::int64_t replicas = d.settings.count_or("parallelism.data_parallel_replicate_degree", 1);
  std::int64_t shards = 1;
  if (d.settings.has(kShard) && d.settings.text(kShard) != "-1") {
    shards = d.settings.count_or(kShard, 1);
  } else if (const auto world = d.world()) {
    shards = std::max<std::int64_t>(1, *world / capped_product({g.tp, g.cp, g.pp, replicas}));
  } else {
    d.settings.complain(kShard, "takes all GPUs that are left; say how many there are with --world");
  }
  if (replicas > 1)
    d.approximations.push_back(
        fmt::format("data_parallel_replicate_degree {}: states are sharded over all replicas", replicas));
  g.dp = capped_product({replicas, shards});
  g.ep = d.count("parallelism.expert_parallel_degree", 1);
  // Experts that are not divided are sharded as the dense part.
  g.esp = g.ep == 1 ? g.tp : d.settings.count_or("parallelism.expert_tensor_parallel_degree", 1);
  d.candidate.sequence_parallel = g.tp > 1;
  d.all_to_all = d.settings.text("parallelism.expert_parallel_comm_backend", "standard");
}

void read_torchtitan_batch(JobDraft& d) {
  constexpr const char* kGlobal = "training.global_batch_size";
  Workload& w = d.inputs.workload;
  planner::Candidate& c = d.candidate;
  const std::int64_t local = d.count("training.local_batch_size", 8);
  const bool has_global = d.settings.has(kGlobal) && d.settings.text(kGlobal) != "-1";
  const std::int64_t pass = capped_product({local, c.degrees.dp});
  w.global_batch = has_global ? d.settings.count_or(kGlobal, 1) : pass;
  if (!has_global) d.assume(fmt::format("training.global_batch_size {}", w.global_batch));
  if (w.global_batch % pass != 0)
    d.settings.complain(
        kGlobal, fmt::format("{} is no multiple of {} replicas of {} sequences", w.global_batch, c.degrees.dp, local));
  if (d.settings.has("training.seq_len")) w.sequence_length = d.settings.count_or("training.seq_len", 1);
  if (!d.settings.has("training.seq_len"))
    d.assume(fmt::format("training.seq_len {} of the workload", w.sequence_length));
  c.micro_batch = c.degrees.pp > 1 ? d.count("parallelism.pipeline_parallel_microbatch_size", 1) : local;
  if (c.degrees.pp > 1 && w.global_batch != pass)
    d.approximations.push_back(fmt::format("{} passes through the pipeline: priced as one", w.global_batch / pass));
}

void read_torchtitan_numerics(JobDraft& d) {
  Workload& w = d.inputs.workload;
  const std::string param = d.settings.text("training.mixed_precision_param", "bfloat16");
  w.dtype = param == "float32" ? Dtype::Fp32 : Dtype::Bf16;
  w.precision = std::nullopt;
  for (const Node* converter : d.settings.list("model.converters")) {
    const std::string own = converter->scalar.substr(converter->scalar.rfind('.') + 1);
    const auto ours = d.framework.values_named(FrameworkDecision::Precisions, own);
    if (ours.empty()) d.approximations.push_back(fmt::format("model.converters {}: has no effect", converter->scalar));
    if (!ours.empty()) w.precision = named<Precision>(kPrecisionNames, ours.front());
  }
  w.optimizer = Optimizer::Adam;
  w.gradient_dtype = w.optimizer_dtype = Dtype::Fp32;
  const std::string reshard = d.settings.text("parallelism.fsdp_reshard_after_forward", "default");
  const auto stage = d.framework.values_named(FrameworkDecision::ZeroStages, reshard);
  w.zero_stage =
      stage.empty() ? (d.candidate.degrees.pp > 1 ? 2 : 3) : profiler::whole_number(stage.front()).value_or(3);
  if (stage.empty()) d.assume(fmt::format("fsdp_reshard_after_forward {}", w.zero_stage == 3 ? "always" : "never"));
  w.overlap_gradients = true;
  const std::string mode = d.settings.text("activation_checkpoint.mode", "selective");
  w.recompute = mode == "full" ? Recompute::Full : mode == "none" ? Recompute::None : Recompute::PerOperation;
  // training.dtype: of weights between their uses, gradients and states; only weights in fp32 are gathered in 16 bits.
  const bool all_in_16_bits = d.settings.text("training.dtype", "float32") == "bfloat16" && w.dtype == Dtype::Bf16;
  if (all_in_16_bits) w.gradient_dtype = w.optimizer_dtype = Dtype::Bf16;
  w.main_weights = all_in_16_bits                               ? MainWeights::None
                   : w.zero_stage == 3 && size_of(w.dtype) == 2 ? MainWeights::Only
                                                                : MainWeights::Separate;
  const bool compiles = d.settings.flag("compile.enable") || d.settings.flag("training.compile");
  w.pytorch_modules = compiles ? PyTorchModules::Compiled : PyTorchModules::Eager;
  w.gate_weights = GateWeights::AtSources;
  w.fusions = usual_fusions(w.pytorch_modules);
}

}  // namespace

void read_deepspeed_job(JobDraft& d) {
  Degrees& g = d.candidate.degrees;
  const auto said = [&](const char* name, const std::optional<std::int64_t>& degree) {
    if (!degree) d.assume(fmt::format("{} 1: the model's code decides it; say it with --{}", name, name));
    return degree.value_or(1);
  };
  g.tp = said("tp", d.context.tp);
  g.ep = said("ep", d.context.ep);
  g.esp = d.context.esp.value_or(1);
  read_batch(d, g.tp);
  read_deepspeed_precision(d);
  read_deepspeed_states(d);
  if (!d.inputs.workload.recompute) {
    d.assume("recompute none: the model's code decides it; say it with -C workload.recompute=full");
    d.inputs.workload.recompute = Recompute::None;
  }
}

void read_torchtitan_job(JobDraft& d) {
  read_torchtitan_degrees(d);
  read_torchtitan_batch(d);
  if (d.candidate.degrees.pp > 1) read_torchtitan_layout(d);
  read_torchtitan_numerics(d);
}

}  // namespace moeplan::runs
