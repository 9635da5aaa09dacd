// The arguments of SGLang's and vLLM's servers, as prefills.
#include <fmt/format.h>

#include <algorithm>

#include "model/text/reader.hpp"
#include "planner/runs/job_draft.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

using planner::FrameworkDecision;

void read_server_numerics(JobDraft& d) {
  Workload& w = d.inputs.workload;
  const std::string dtype = d.settings.text("dtype");
  if (dtype == "bfloat16") w.dtype = Dtype::Bf16;
  if (dtype == "half" || dtype == "float16") w.dtype = Dtype::Fp16;
  if (dtype == "float" || dtype == "float32") w.dtype = Dtype::Fp32;
  if (dtype.empty()) d.assume("dtype " + precision_text(w) + " of the workload");
  const std::string quantization = d.settings.text("quantization");
  if (quantization.empty()) return;
  const auto ours = d.framework.values_named(FrameworkDecision::Precisions, quantization);
  if (ours.empty())
    d.approximations.push_back(fmt::format("quantization {}: priced as {}", quantization, precision_text(w)));
  if (!ours.empty()) w.precision = named<Precision>(kPrecisionNames, ours.front());
}

/// Layers of each stage, "20,21,20", from the framework's variable.
void read_stages(JobDraft& d) {
  planner::Candidate& c = d.candidate;
  if (c.degrees.pp == 1) return;
  const std::string variable = d.framework.own_name(FrameworkDecision::Layouts, "any");
  const auto given = d.raw.environment.find(variable);
  if (given == d.raw.environment.end())
    return d.assume(fmt::format("layers divided over {} stages by FLOPs", c.degrees.pp));
  for (const std::string_view each : profiler::split(given->second, ',')) {
    const auto layers = profiler::whole_number(profiler::trimmed(each));
    if (!layers)
      return d.settings.complain(variable,
                                 fmt::format("{} is no list of layers such as 20,21,20", in_quotes(given->second)));
    c.layout.parts.push_back({.layers = *layers});
  }
  c.layout.parts.front().embedding = c.layout.parts.back().head = true;
  const std::int64_t all = d.inputs.model.num_layers();
  if (std::ssize(c.layout.parts) != c.degrees.pp || c.layout.layers() != all) {
    d.settings.complain(variable,
                        fmt::format("{} is {} layers on {} stages; expected {} on {}", in_quotes(given->second),
                                    c.layout.layers(), c.layout.parts.size(), all, c.degrees.pp));
  }
}

/// The tokens of a pass as whole sequences of the workload.
void read_tokens(JobDraft& d, const std::string& name, std::int64_t replicas) {
  const std::int64_t length = d.inputs.workload.sequence_length;
  const auto tokens = d.settings.count(name);
  if (!tokens) return d.assume("passes of one sequence");
  const std::int64_t each = std::max<std::int64_t>(1, *tokens / replicas);
  d.candidate.micro_batch = std::max<std::int64_t>(1, each / length);
  if (each % length != 0)
    d.approximations.push_back(
        fmt::format("{} {}: passes of {} sequences of {} tokens", name, *tokens, d.candidate.micro_batch, length));
}

/// Redundant experts of all ranks, and who places them.
void read_redundancy(JobDraft& d, std::int64_t redundant, const std::string& algorithm) {
  const auto ours = d.framework.values_named(FrameworkDecision::Placements, algorithm);
  d.candidate.placement = ours.empty() ? std::string("eplb_global") : ours.front();
  if (ours.empty()) d.assume("experts placed by eplb_global");
  d.redundant_experts = redundant;
}

}  // namespace

void read_sglang_job(JobDraft& d) {
  Degrees& g = d.candidate.degrees;
  const std::int64_t gpus = d.count("tp-size", 1), replicas = d.settings.count_or("dp-size", 1);
  const bool shares = d.settings.flag("enable-dp-attention");
  g.pp = d.settings.count_or("pp-size", 1);
  g.dp = replicas;
  d.all_to_all = d.settings.text("moe-a2a-backend", "none");
  const bool exchanges = d.all_to_all != "none";
  const std::int64_t ep = d.settings.count_or("ep-size", exchanges ? gpus : 1);
  if (shares && gpus % replicas != 0)
    d.settings.complain("dp-size", fmt::format("{} attention replicas do not divide tp-size {}", replicas, gpus));
  g.tp = shares ? std::max<std::int64_t>(1, gpus / replicas) : gpus;
  if (!shares && replicas > 1 && ep > 1)
    d.settings.complain("dp-size", "replicas share experts only with --enable-dp-attention");
  g.ep = ep;
  g.esp = ep > 1 ? std::max<std::int64_t>(1, gpus / ep) : g.tp;
  if (gpus % ep != 0) d.settings.complain("ep-size", fmt::format("{} does not divide tp-size {}", ep, gpus));
  if (ep == 1) d.all_to_all.clear();
  read_server_numerics(d);
  read_stages(d);
  const bool has_most = d.settings.has("max-prefill-tokens");
  read_tokens(d, has_most ? "max-prefill-tokens" : "chunked-prefill-size", has_most || !shares ? 1 : replicas);
  const std::string location = d.settings.text("init-expert-location", "trivial");
  const std::int64_t redundant = d.settings.count_or("ep-num-redundant-experts", 0, 0);
  if (redundant > 0 || d.settings.has("eplb-algorithm") ||
      (d.settings.has("init-expert-location") && location != "trivial"))
    read_redundancy(d, redundant, d.settings.text("eplb-algorithm"));
}

void read_vllm_job(JobDraft& d) {
  Degrees& g = d.candidate.degrees;
  g.tp = d.count("tensor-parallel-size", 1);
  g.pp = d.settings.count_or("pipeline-parallel-size", 1);
  g.dp = d.settings.count_or("data-parallel-size", 1);
  const bool divides = d.settings.flag("enable-expert-parallel");
  g.ep = divides ? g.tp * g.dp : 1;
  g.esp = divides ? 1 : g.tp;
  if (g.ep > 1) d.all_to_all = d.settings.text("all2all-backend", "allgather_reducescatter");
  read_server_numerics(d);
  read_stages(d);
  read_tokens(d, "max-num-batched-tokens", 1);
  if (!d.settings.flag("enable-eplb")) return;
  std::int64_t redundant = 0;
  if (d.settings.has("eplb-config")) {
    const Node* given = d.settings.list("eplb-config").front();
    const Node config = given->kind == Node::Kind::Map ? *given : parse_json(given->scalar, d.context.file);
    const Node* number = config.find("num_redundant_experts");
    const auto value = number ? profiler::whole_number(number->scalar) : std::optional<std::int64_t>(0);
    if (!value)
      d.settings.complain("eplb-config",
                          fmt::format("num_redundant_experts {} is no number", in_quotes(number->scalar)));
    redundant = value.value_or(0);
  }
  read_redundancy(d, redundant, "default");
}

}  // namespace moeplan::runs
