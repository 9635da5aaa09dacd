// moeplan eplb LOADS --gpus N --nodes M --redundant R --format FORMAT -o MAP
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "planner/eplb/balance_payoff.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

struct EplbOptions {
  std::string loads, output, cluster, model, format = "sglang";
  planner::ExpertMapShape shape;
  std::int64_t groups = 0, tokens = 4096;
};

/// Mean and least balancedness over the layers with experts.
struct Balance {
  double mean = 0, least = 1;
};

Balance balance_of(const planner::ExpertMap& map, const planner::ExpertLoads& loads) {
  Balance out;
  for (std::size_t l = 0; l < loads.layers.size(); ++l) {
    if (!map.is_moe[l]) continue;
    const double b = planner::balancedness(map, l, loads.layers[l]);
    out.mean += b / static_cast<double>(loads.moe_layers());
    out.least = std::min(out.least, b);
  }
  return out;
}

std::string payoff_lines(const planner::BalancePayoff& p, std::int64_t tokens) {
  std::string out =
      fmt::format("  time        MoE layers of a prefill of {} tokens per GPU: {} -> {} ({:+.1f}%), by closed form\n",
                  tokens, human(p.before), human(p.after), 100 * (p.after / p.before - 1));
  const double kv = p.kv_cache_per_token.value();
  out += fmt::format("  memory      {} per GPU for redundant experts", human(p.redundant_memory));
  out += kv == 0 ? "\n"
                 : fmt::format(": the KV cache of {:.0f} tokens, of {:.0f} that fit\n", p.redundant_memory.value() / kv,
                               std::max(0.0, p.free_memory.value() / kv));
  if (p.free_memory < Bytes(0))
    out += fmt::format("              does not fit: {} too much\n", human(Bytes(-p.free_memory.value())));
  out += fmt::format("  migration   {} experts move, {} in all, from contiguous ones\n", p.moved_experts,
                     human(p.migration));
  const auto passes = p.break_even();
  return out + (passes ? fmt::format("  break-even  after {:.1f} forward passes\n", *passes)
                       : std::string("  break-even  never: there is no gain\n"));
}

/// The workload of a prefill, for the times of products and messages.
planner::Inputs serving_inputs(const EplbOptions& o) {
  return planner::read_inputs(
      planner::load_inputs(o.cluster, o.model, "default",
                           {"workload.mode=forward", fmt::format("workload.global_batch={}", o.shape.gpus),
                            fmt::format("workload.sequence_length={}", o.tokens)}));
}

planner::ExpertMapFormat format_of(const std::string& name) {
  using Format = planner::ExpertMapFormat;
  if (const auto format = named<Format>(planner::kExpertMapFormatNames, name)) return *format;
  const std::vector<std::string> names = all_names<Format>(planner::kExpertMapFormatNames);
  throw InputError({{"--format"}, "", fmt::format("{} is not known{}", in_quotes(name), suggestion(name, names))});
}

void run_eplb(EplbOptions o) {
  check_outputs({o.output});
  const planner::ExpertMapFormat format = format_of(o.format);
  if (o.cluster.empty() != o.model.empty())
    throw InputError({{o.cluster.empty() ? "--cluster" : "--model"}, "", "is missing: times need cluster and model"});
  planner::ExpertLoads loads = planner::read_expert_loads(o.loads);
  std::optional<planner::Inputs> inputs;
  if (!o.model.empty()) {
    inputs = serving_inputs(o);
    loads = planner::by_layer_of(loads, inputs->model, o.loads);
    const std::vector<Moe> layers = planner::moe_layers(inputs->model);
    o.shape.groups = layers.front().expert_groups;
  }
  if (o.groups > 0) o.shape.groups = o.groups;
  const planner::ExpertMap map = planner::balanced_map(loads, o.shape);
  if (const std::string error = planner::map_error(map); !error.empty()) throw InputError({{o.loads}, "", error});
  const Balance before = balance_of(planner::contiguous_map(loads, o.shape), loads), after = balance_of(map, loads);
  fmt::print("{}: {}, {} layers, {} of them with experts, {} experts\n", o.loads, loads.form, loads.layers.size(),
             loads.moe_layers(), loads.experts());
  const bool is_hierarchical = o.shape.groups % o.shape.nodes == 0 && o.shape.nodes > 1;
  fmt::print("  map         {} physical experts on {} GPUs of {} node{}: {} per GPU, {} redundant in all, EPLB {}\n",
             loads.experts() + o.shape.redundant, o.shape.gpus, o.shape.nodes, o.shape.nodes == 1 ? "" : "s",
             map.slots_per_gpu(), o.shape.redundant,
             is_hierarchical ? fmt::format("hierarchical ({} groups)", o.shape.groups) : std::string("global"));
  fmt::print(
      "  balance     mean over largest load of the GPUs: {:.3f} -> {:.3f} in the mean of the layers, {:.3f} -> {:.3f} "
      "in the worst\n",
      before.mean, after.mean, before.least, after.least);
  if (inputs) {
    const Cluster cluster = planner::build_cluster_of(o.cluster, inputs->cluster, o.shape.gpus);
    fmt::print("{}",
               payoff_lines(planner::balance_payoff(map, loads, inputs->model, inputs->workload, cluster, o.tokens),
                            o.tokens));
  } else {
    fmt::print("  time        not predicted; --cluster and --model give times, memory, migration and break-even\n");
  }
  if (o.output.empty()) return;
  write_file_atomically(o.output, planner::expert_map_text(map, format));
  fmt::print("written to {}; load it: {}\n", o.output, planner::how_to_load(map, format, o.output));
}

}  // namespace

void add_eplb_command(CLI::App& app, ExitCode&) {
  auto* c =
      app.add_subcommand("eplb", "Balance recorded loads of experts: a map that serving engines load, and its payoff");
  auto o = std::make_shared<EplbOptions>();
  const CLI::Range count(std::int64_t{1}, std::int64_t{1'048'576});
  c->add_option("loads", o->loads, "What SGLang or vLLM recorded (JSON), or CSV: docs/frameworks.md")->required();
  c->add_option("--gpus", o->shape.gpus, "Expert-parallel GPUs")->required()->check(count);
  c->add_option("--nodes", o->shape.nodes, "Nodes with these GPUs")->check(count)->capture_default_str();
  c->add_option("--redundant", o->shape.redundant, "Redundant experts per layer, over all GPUs together")
      ->check(CLI::Range(std::int64_t{0}, std::int64_t{65'536}))
      ->capture_default_str();
  c->add_option("--groups", o->groups, "Groups of experts (default: the model's, or 1)")->check(count);
  c->add_option("--format", o->format, "sglang, vllm, vllm-ascend, trtllm or eplb")->capture_default_str();
  c->add_option("--cluster", o->cluster, "The cluster; with --model, to predict times");
  c->add_option("--model", o->model, "The model; with --cluster, to predict times");
  c->add_option("--tokens", o->tokens, "Tokens per GPU in a forward pass")->check(count)->capture_default_str();
  c->add_option("-o,--output", o->output, "Where to write the map");
  c->callback([o] { run_eplb(*o); });
}

}  // namespace moeplan::cli
