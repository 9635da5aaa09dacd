#include "cli/pages/page_parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>

#include "model/analysis/analysis.hpp"
#include "model/collectives/collective_costs.hpp"
#include "model/collectives/collective_models.hpp"
#include "model/costs/communication.hpp"
#include "model/costs/compute.hpp"
#include "model/operators/operator_models.hpp"
#include "model/text/origins.hpp"
#include "model/text/unit_text.hpp"
#include "planner/report/accuracy.hpp"

namespace moeplan::cli {

namespace {

std::string routing_text(const RoutingScenario& r) {
  std::string loads;
  if (r.shape == RoutingShape::Lognormal)
    loads = r.max_load ? fmt::format("max load {}, ", *r.max_load) : fmt::format("sigma {}, ", r.lognormal_sigma);
  return fmt::format("{} routing ({}seed {})", name_of<RoutingShape>(kRoutingShapeNames, r.shape), loads, r.seed);
}

}  // namespace

std::string in_percent(double share) { return fmt::format("{:.1f}%", 100 * share); }
std::string signed_percent(double share) { return fmt::format("{:+.1f}%", 100 * share); }

std::string run_text(const planner::Candidate& c) {
  const Degrees& d = c.degrees;
  std::string out =
      fmt::format("pp {}{} tp {}{} ", d.pp, c.virtual_stages > 1 ? fmt::format("x{}", c.virtual_stages) : "", d.tp,
                  c.sequence_parallel ? " sp" : "");
  if (d.cp > 1) out += fmt::format("cp {} ", d.cp);
  out +=
      fmt::format("dp {} ep {}{} | micro batch {} | {} | ", d.dp, d.ep, d.esp > 1 ? fmt::format(" etp {}", d.esp) : "",
                  c.micro_batch, c.runs.empty() ? c.schedule.name() : "schedules by layer");
  if (c.expert_places.empty()) return out + "experts contiguous";
  return out + fmt::format("experts by {}{}", c.placement.name(),
                           c.redundant_experts > 0 ? fmt::format(", {} redundant a rank", c.redundant_experts) : "");
}

std::string settings_text(const planner::Candidate& c) {
  std::vector<std::string> parts;
  if (c.rank_order != planner::RankOrder::Megatron) parts.push_back("ranks in order " + name_of(c.rank_order));
  if (c.order == planner::OperationOrder::Searched) parts.emplace_back("operations reordered");
  if (c.pipeline == planner::PipelineShape::V) parts.emplace_back("stages in a V");
  if (c.ep_overlap) parts.emplace_back("exchanges overlap the neighbouring microbatch");
  if (c.delays_weight_gradients) parts.emplace_back("weight gradients delayed");
  if (!c.layout.empty()) parts.push_back("layout " + shortened(c.layout.text()));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string plan_text(const planner::Candidate& c) {
  std::string out = fmt::format("{} | recompute {}", run_text(c), name_of(c.recompute));
  if (!c.runs.empty()) {
    out += " | schedule, all-to-all, chunks and codec by layer: " + planner::strategies_text(c.runs);
  } else {
    if (c.pipeline_degree > 1) out += fmt::format(" | {} chunks", c.pipeline_degree);
    if (c.all_to_all != "linear") out += fmt::format(" | {} all-to-all", c.all_to_all.name());
    if (c.codec != CodecPair{}) out += fmt::format(" | {} codec", codec_pair_name(c.codec));
  }
  const std::string settings = settings_text(c);
  return settings.empty() ? out : out + " | " + settings;
}

std::string speed_text(const planner::Prediction& p) {
  return fmt::format("step time {}, {:.0f} tokens/s/GPU, MFU {}", human(p.makespan.seconds()), p.tokens_per_s_per_gpu,
                     in_percent(p.model_flops_utilization));
}

std::string memory_text(const MemoryUse& m, const Cluster& cluster) {
  return fmt::format(
      "{} GiB of {}: weights {}, gradients {}, optimizer {}, activations {}, working buffers {}, runtime {}{}",
      gib(m.total()), gib(cluster.memory_per_rank()), gib(m.weights), gib(m.gradients), gib(m.optimizer),
      gib(m.activations), gib(m.working), gib(m.runtime), host_memory_text(m));
}

std::string host_memory_text(const MemoryUse& m) {
  return m.host > Bytes(0) ? fmt::format("; {} GiB in the host's memory", gib(m.host)) : "";
}

std::string tightness_text(Bytes peak, Bytes capacity, const Workload& workload) {
  const std::optional<planner::MemoryAccuracy> known = planner::shipped_memory_accuracy(workload);
  if (!known || peak > capacity || peak * (1 + known->p90) <= capacity) return "";
  return fmt::format("; it may not fit: of {} measured peaks 9 in 10 were predicted within {}", known->runs,
                     in_percent(known->p90));
}

std::string job_text(const planner::Inputs& inputs, const Cluster& cluster) {
  const std::string ranks = cluster.ranks_per_gpu > 1 ? fmt::format("{} ranks on ", cluster.world_size()) : "";
  return fmt::format("{} on {}{} x {} of {}", inputs.model.name, ranks, cluster.gpus(), cluster.gpu.name, cluster.name);
}

std::string workload_text(const Workload& w) {
  std::string out = fmt::format("{}: {}, {} sequences of {} tokens, {}, ", w.name, name_of<Mode>(kModeNames, w.mode),
                                w.global_batch, w.sequence_length, precision_text(w));
  if (w.fp8_modules != Fp8Modules::None) out += fmt::format("{} too, ", name_of(w.fp8_modules));
  if (w.mode == Mode::Train) {
    out += fmt::format("{} with ZeRO {}, {} recomputation, ", name_of<Optimizer>(kOptimizerNames, w.optimizer),
                       w.zero_stage, w.recompute == Recompute::None ? "no" : recompute_text(w));
    if (!w.recompute_layers.all()) out += fmt::format("layers {} recomputed, ", name_of(w.recompute_layers));
    if (w.main_weights == MainWeights::Only) out += "weights in fp32 only, ";
    if (w.main_weights == MainWeights::None) out += "no weights in fp32, ";
    if (w.loss_chunks > 1) out += fmt::format("loss in {} chunks, ", w.loss_chunks);
    if (w.pytorch_modules != PyTorchModules::None)
      out +=
          fmt::format("PyTorch's own modules ({}), ", name_of<PyTorchModules>(kPyTorchModulesNames, w.pytorch_modules));
    if (w.fp8_activation_inputs) out += "inputs of activation functions kept in fp8, ";
    if (w.mtp_layers > 0)
      out += fmt::format("{} layer{} of multi-token prediction, ", w.mtp_layers, w.mtp_layers == 1 ? "" : "s");
    if (w.offload != Offload::None) out += fmt::format("{} in host memory, ", name_of(w.offload));
    if (w.fusions != Fusions::Default) out += fmt::format("fusions {}, ", name_of(w.fusions));
  }
  if (w.capacity_factor) return out + fmt::format("capacity factor {}", *w.capacity_factor);
  const bool is_dropless = w.gate.kind != GateKind::Capacity;
  out += is_dropless ? "dropless, " : "";
  out += w.recorded ? fmt::format("routing of iteration {} of {}", w.recorded->iteration, w.recorded->file)
                    : routing_text(w.routing);
  const std::string gate = gate_text(w.gate);
  return gate.empty() ? out : out + ", " + gate;
}

std::string page_header(const planner::Inputs& inputs, const Cluster& cluster) {
  std::string out = job_text(inputs, cluster) + '\n';
  if (const auto* machine = std::get_if<ClusterTemplate>(&inputs.cluster.machine)) {
    const std::int64_t all = machine->gpus_per_node, used = used_per_node(*machine, cluster.gpus());
    if (used < all && !machine->used_per_node)
      out += labelled("racks", fmt::format("{0} of the {1} GPUs of each are used, since {1} do not divide the job; "
                                           "-C cluster.template.used_per_node={1} uses all",
                                           used, all));
  }
  return out + labelled("workload", workload_text(inputs.workload));
}

namespace {

/// Whose modules measured runs like this one have.
std::string_view modules_text(const Workload& workload) {
  return workload.pytorch_modules == PyTorchModules::None ? "" : " of PyTorch's modules";
}

}  // namespace

std::string accuracy_text(const planner::Inputs& inputs) {
  const std::optional<planner::Accuracy> known = planner::shipped_accuracy_of(inputs.cluster.gpu, inputs.workload);
  if (!known) {
    return inputs.workload.mode == Mode::Forward ? "unknown: only training was compared with measured runs"
                                                 : fmt::format("unknown: too few measured runs{} on {}",
                                                               modules_text(inputs.workload), inputs.cluster.gpu.name);
  }
  return fmt::format("of {} measured runs{} on up to {} {}{}: half within {:.0f}%, 9 of 10 within {:.0f}%, bias {}",
                     known->runs, modules_text(inputs.workload), known->most_gpus, known->gpu,
                     known->precision.empty() ? ", any precision" : " in " + known->precision, 100 * known->median,
                     100 * known->p90, signed_percent(known->bias));
}

std::string accuracy_line(const planner::Inputs& inputs) { return labelled("accuracy", accuracy_text(inputs)); }

std::string stage_text(const Program& program, RankId rank) {
  if (program.stages.size() == 1) return "";
  return fmt::format("stage {} of {}", program.stage_of(rank) + 1, program.stages.size());
}

std::string stream_table(const planner::Prediction& p) {
  std::string out = "  stream     busy (mean of all ranks)\n";
  for (const StreamUse& s : stream_use(p.program, p.timeline)) {
    out += fmt::format("  {:<9} {:>5.1f}%\n", name_of<Stream>(kStreamNames, s.stream), 100 * s.utilisation.mean);
  }
  return out;
}

std::string link_table(const planner::Prediction& p, const Topology& topology, std::size_t most) {
  std::string out = fmt::format("  {:<32} {:>12} {:>7}\n", "busiest links", "carried", "busy");
  const std::vector<LinkUtilisation> links = link_utilisation(p.timeline, topology);
  for (std::size_t i = 0; i < std::min(most, links.size()); ++i) {
    out += fmt::format("  {:<32} {:>12} {:>6.1f}%\n", links[i].name, human(links[i].bytes), 100 * links[i].utilisation);
  }
  return out;
}

namespace {

/// The kernels whose figures price products and attention; "" without operators.
std::string figures_text(const GpuSpec& gpu, const Workload& workload) {
  if (!gpu.operators) {
    if (!workload.precision) return "";
    return fmt::format("{} products are priced by shares of the fp8 peak, those of bf16", precision_text(workload));
  }
  const GemmModel* products = figures_of_products(gpu, workload.dtype, workload.precision);
  const bool in_8_bits = workload.precision && workload.fp8_modules.has(Fp8Module::Attention);
  const MathFormat format = in_8_bits ? format_of(*workload.precision) : MathFormat::Bf16;
  const AttentionModel* attention = training_attention_model(*gpu.operators, false, format);
  const auto by = [](const auto* model) {
    return model ? fmt::format("the shapes of {}'s kernels", model->library) : std::string("a share of the peak");
  };
  const bool is_wider = attention && attention->format != format;
  const std::string precision = precision_text(workload);
  return fmt::format("{} products are priced by {}, attention by {}{}", precision, by(products), by(attention),
                     is_wider ? fmt::format(" in bf16: there are none in {}", precision) : "");
}

/// That the Program has recurrences or sparse attention; "" if it has none.
std::string fused_products_text(const Program& program) {
  for (const Block& block : program.blocks) {
    for (const Operation& operation : block.operations) {
      if (std::holds_alternative<FusedProducts>(operation.work))
        return "recurrences, sparse attention and its indexers are priced by attention's share of the peak: not "
               "measured";
    }
  }
  return "";
}

/// That collectives are priced for groups much larger than those that were measured; "" if none is.
std::string extrapolation_text(const Cluster& cluster, const Program& program) {
  if (!cluster.collective_models) return "";
  std::int64_t largest = 1;
  for (const Block& block : program.blocks) {
    for (const Operation& operation : block.operations) {
      if (const Communication* c = operation.communication()) largest = std::max(largest, program.group(c->group).size);
    }
  }
  const std::int64_t measured = cluster.collective_models->measured_ranks;
  if (!is_extrapolated({.ranks = largest, .nodes = 1}, measured)) return "";
  return fmt::format("collectives of up to {} ranks are priced by figures fitted to at most {}: beyond their data",
                     largest, measured);
}

/// That a dispatcher's kernels are priced by figures of other groups, or by none; "" if they have figures.
std::string dispatcher_text(const Cluster& cluster, const Program& program) {
  std::vector<std::string> out;
  for (const UnmeasuredKernels& k : unmeasured_kernels(program, cluster)) {
    const std::string groups = fmt::format("exchanges of {} {}", k.name,
                                           k.nodes == 1 ? "inside one node" : fmt::format("on {} nodes", k.nodes));
    out.push_back(!k.has_others
                      ? fmt::format("{} are priced by the links alone: {} has no figures of it", groups, cluster.name)
                      : fmt::format("{} are priced by figures of groups {}: not measured", groups,
                                    k.nodes == 1 ? "on several nodes" : "inside one node"));
  }
  return fmt::format("{}", fmt::join(out, "; "));
}

/// That kernels whose elements may bound them are priced by their bytes; "" if the GPU has their rates.
std::string elements_text(const GpuSpec& gpu, const Program& program) {
  std::set<std::string_view> missing;
  for (const Block& block : program.blocks) {
    for (const Operation& operation : block.operations) {
      const Kernel* kernel = std::get_if<Kernel>(&operation.work);
      const std::optional<ElementRate> rate = kernel ? element_rate(*kernel, gpu) : std::nullopt;
      if (rate && !rate->per_second) missing.insert(rate->key);
    }
  }
  if (missing.empty()) return "";
  return fmt::format(
      "PyTorch's own kernels are priced by their bytes alone, which may be too fast: {} has no element_rates of {}",
      gpu.name, fmt::join(missing, ", "));
}

/// That measured all-reduces are priced as what they contain (measured_cost.hpp, rule 6); "" if none is.
std::string fast_all_reduce_text(const Cluster& cluster, const Program& program) {
  const auto reduces = [](const Operation& operation) {
    const Communication* c = operation.communication();
    return c && c->collective == Collective::AllReduce;
  };
  if (std::none_of(program.blocks.begin(), program.blocks.end(), [&](const Block& block) {
        return std::any_of(block.operations.begin(), block.operations.end(), reduces);
      }))
    return "";
  const std::vector<FastAllReduce> fast = fast_all_reduces(cluster.collectives);
  if (fast.empty()) return "";
  return fmt::format("{} measured {} priced as a slower collective that it contains: {}", fast.size(),
                     fast.size() == 1 ? "all-reduce is" : "all-reduces are each", text_of(fast.front()));
}

/// The number of assumed values in a cluster, and the first `most` of them; "" if there are none.
std::string assumed_text(const Node& cluster_document, std::size_t most) {
  const std::vector<std::string> assumed = assumed_numbers(cluster_document);
  if (assumed.empty()) return "";
  std::string out = in_lines(fmt::format("{} numbers of this cluster are assumed, not measured (see its origins){}",
                                         assumed.size(), most > 0 ? ", for example" : ""));
  for (std::size_t i = 0; i < std::min(most, assumed.size()); ++i) out += "    " + shortened(assumed[i]) + '\n';
  return out;
}

}  // namespace

std::vector<std::string> pricing_warnings(const Cluster& cluster, const Program& program) {
  std::vector<std::string> out;
  for (std::string text :
       {fused_products_text(program), elements_text(cluster.gpu, program), extrapolation_text(cluster, program),
        dispatcher_text(cluster, program), fast_all_reduce_text(cluster, program)}) {
    if (!text.empty()) out.push_back(std::move(text));
  }
  return out;
}

std::vector<std::string> pricing_notes(const planner::Inputs& inputs, const Cluster& cluster, const Program& program) {
  std::vector<std::string> out = pricing_warnings(cluster, program);
  std::string figures = figures_text(cluster.gpu, inputs.workload);
  if (!figures.empty()) out.insert(out.begin(), std::move(figures));
  return out;
}

std::string notes_text(const planner::Inputs& inputs, const planner::PlanInputs& documents, const Cluster& cluster,
                       const Program& program, std::size_t most) {
  std::string out;
  for (const std::string& note : pricing_notes(inputs, cluster, program)) out += in_lines(note);
  out += assumed_text(documents.cluster, most);
  return out.empty() ? out : '\n' + out;
}

}  // namespace moeplan::cli
