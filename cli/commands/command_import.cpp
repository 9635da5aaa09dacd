// moeplan import hf-config|routing-trace|sglang-counts FILE [-o F]
// moeplan import megatron FILE, run TABLE (import_megatron.cpp)
// moeplan import deepspeed|torchtitan|sglang|vllm FILE (frameworks/import_frameworks.cpp)
// moeplan import nccl-tests LOG... --cluster NEW.yaml (clusters/import_nccl_tests.cpp)
// moeplan import nccl-topo|nvidia-smi-topo|ibnetdiscover FILE --cluster NEW.yaml (clusters/import_topology.cpp)
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <map>

#include "cli/commands/commands.hpp"
#include "cli/commands/import_megatron.hpp"
#include "cli/commands/output_files.hpp"
#include "model/text/document.hpp"
#include "model/transformer/hf_config.hpp"
#include "model/workload/routing_statistics.hpp"
#include "model/workload/routing_trace.hpp"
#include "planner/eplb/expert_loads.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

std::string with_commas(std::int64_t n) {
  std::string digits = fmt::format("{}", n);
  for (auto i = static_cast<std::ptrdiff_t>(digits.size()) - 3; i > 0; i -= 3) {
    digits.insert(static_cast<std::size_t>(i), ",");
  }
  return digits;
}

void import_hf_config(const std::string& file, const std::string& output, bool approximates) {
  check_outputs({output});
  const Node document = load_document(file);
  if (!is_hf_config(document)) {
    throw InputError({{file}, "", "is no Hugging Face configuration: it has neither model_type nor architectures"});
  }
  const Node model_doc = planner::load_model_document(
      file, approximates ? planner::UnknownFamilies::Approximated : planner::UnknownFamilies::Refused);
  const ModelSpec model = read_model(model_doc);
  const ParameterCounts counts = count_parameters(model);
  const auto line = [](const char* what, std::int64_t n) {
    fmt::print("{:<36} {:>22}  {:8.3f} B\n", what, with_commas(n), static_cast<double>(n) * 1e-9);
  };
  fmt::print("{}: {} layers, {} of them with experts\n", model.name, model.num_layers(), model.num_moe_layers());
  line("total parameters", counts.total);
  line("active parameters", counts.active);
  line("active without embeddings", counts.active_without_embeddings);
  if (counts.mtp > 0) line("multi-token-prediction layers, apart", counts.mtp);
  for (const std::string& text : planner::approximations_of(model_doc)) fmt::print("approximated: {}\n", text);
  if (output.empty()) return;
  write_file_atomically(output, to_yaml(model_doc));
  fmt::print("written to {}\n", output);
}

struct TraceImport {
  std::string file;
  std::string output;
  std::int64_t ranks = 0;    // 0: as many as the trace has
  std::int64_t experts = 0;  // 0: as many as the trace has
  TraceMapping rank_rule = TraceMapping::None;
  TraceMapping expert_rule = TraceMapping::None;
};

void import_routing_trace(const TraceImport& o) {
  check_outputs({o.output});
  RoutingTrace trace = read_routing_trace(o.file);
  if (o.ranks > 0) trace = with_sources(trace, o.ranks, o.rank_rule, o.file);
  if (o.experts > 0) trace = with_experts(trace, o.experts, o.expert_rule, o.file);
  const auto iterations = trace.iterations();
  fmt::print("{} iterations ({} to {}), {} layers, {} ranks, {} experts\n", iterations.size(), iterations.front(),
             iterations.back(), trace.layers(), trace.sources(), trace.experts());
  fmt::print("{:>5} {:>15} {:>10} {:>8} {:>11} {:>9}\n", "layer", "max/mean expert", "max", "entropy", "drift", "max");
  const std::vector<LayerRouting> layers = trace_statistics(trace, trace.sources());
  for (std::size_t l = 0; l < layers.size(); ++l) {
    fmt::print("{:>5} {:>15.3f} {:>10.3f} {:>8.4f} {:>11.4f} {:>9.4f}\n", l, layers[l].mean_max_over_mean,
               layers[l].most_max_over_mean, layers[l].mean_entropy, layers[l].mean_drift, layers[l].most_drift);
  }
  if (o.output.empty()) return;
  write_routing_trace(o.output, trace);
  fmt::print("written to {}\n", o.output);
}

std::map<std::string, TraceMapping> mapping_names() {
  std::map<std::string, TraceMapping> names;
  for (const auto& [rule, name] : kTraceMappingNames) names.emplace(name, rule);
  return names;
}

void add_routing_trace(CLI::App& import) {
  auto* command = import.add_subcommand(
      "routing-trace",
      "A CSV of tokens by iteration, layer, rank and expert, plain or gzip: checks it, prints how "
      "uneven and how steady each layer is, writes it in order");
  auto o = std::make_shared<TraceImport>();
  command->add_option("file", o->file, "The trace: iteration,layer,rank,e0,e1,...")->required();
  command->add_option("-o,--output", o->output, "Where to write it; gzip where the name ends in .gz");
  command->add_option("--ranks", o->ranks, "Map it to as many ranks, by --rank-rule")->check(CLI::PositiveNumber);
  command->add_option("--experts", o->experts, "Map it to as many experts, by --expert-rule")
      ->check(CLI::PositiveNumber);
  command->add_option("--rank-rule", o->rank_rule, "none, sum (neighbours are one), split (evenly) or repeat")
      ->transform(CLI::CheckedTransformer(mapping_names()));
  command->add_option("--expert-rule", o->expert_rule, "none, sum (neighbours are one) or split (evenly)")
      ->transform(CLI::CheckedTransformer(mapping_names()));
  command->callback([o] { import_routing_trace(*o); });
}

struct LoadsImport {
  std::string file, output;
  std::int64_t ranks = 1;
};

/// Loads of experts as one iteration of a routing trace: layers with experts only, divided evenly over the ranks.
void import_loads(const LoadsImport& o) {
  check_outputs({o.output});
  const planner::ExpertLoads loads = planner::read_expert_loads(o.file);
  std::vector<std::uint32_t> counts;
  for (std::size_t l = 0; l < loads.layers.size(); ++l) {
    if (!loads.has_experts(l)) continue;
    for (const std::int64_t n : loads.layers[l]) {
      if (n > std::numeric_limits<std::uint32_t>::max())
        throw InputError({{o.file}, "", fmt::format("{} selections of an expert are more than a trace holds", n)});
      counts.push_back(static_cast<std::uint32_t>(n));
    }
  }
  const RoutingTrace trace({0}, loads.moe_layers(), 1, loads.experts(), std::move(counts));
  write_routing_trace(o.output, with_sources(trace, o.ranks, TraceMapping::Split, o.file));
  fmt::print(
      "{}: {}, {} layers of {} experts\nwritten to {}; plan with it: -C 'workload.routing={{trace: {}, iteration: "
      "0}}'\n",
      o.file, loads.form, loads.moe_layers(), loads.experts(), o.output, o.output);
}

void add_loads(CLI::App& import) {
  auto* command = import.add_subcommand(
      "sglang-counts", "Loads of experts as engines record them (docs/frameworks.md), as a routing trace for training");
  auto o = std::make_shared<LoadsImport>();
  command->add_option("file", o->file, "The loads")->required();
  command->add_option("--ranks", o->ranks, "Ranks over which the tokens are divided")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_option("-o,--output", o->output, "The trace; gzip if its name ends in .gz")->required();
  command->callback([o] { import_loads(*o); });
}

}  // namespace

void add_import_command(CLI::App& app, ExitCode&) {
  auto* import = app.add_subcommand("import", "Convert files of other tools into configurations of moeplan");
  import->require_subcommand(1);
  auto* hf =
      import->add_subcommand("hf-config", "A Hugging Face config.json: prints its parameters, writes a model file");
  auto file = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  hf->add_option("file", *file, "config.json")->required();
  hf->add_option("-o,--output", *output, "Where to write the model");
  auto approximates = std::make_shared<bool>(false);
  hf->add_flag("--approximate-unknown", *approximates, "Read an unknown family as the nearest known one");
  hf->callback([file, output, approximates] { import_hf_config(*file, *output, *approximates); });
  add_routing_trace(*import);
  add_loads(*import);
  add_import_megatron(*import);
  add_import_frameworks(*import);
  add_import_run(*import);
  add_import_nccl_tests(*import);
  add_import_topology(*import);
}

}  // namespace moeplan::cli
