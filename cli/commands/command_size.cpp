// moeplan size --model M --cluster C[=PRICE]... --tokens 15T --days 30 | --tokens-per-day 500B | --gpus N
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/options/option_values.hpp"
#include "cli/pages/size_report.hpp"
#include "cli/pages/text/colour.hpp"
#include "model/text/unit_text.hpp"
#include "planner/size/job_sizes.hpp"

namespace moeplan::cli {

namespace {

struct SizeOptions {
  std::string model, workload = "default", framework, precision, recompute, tokens, tokens_per_day, nic_rates, output;
  std::vector<std::string> clusters, overrides;
  double days = 0, availability = 1, nics_within = 5;
  std::int64_t gpus = 0, global_batch = 0, most_gpus = planner::SizeLimits{}.most_gpus,
               most_tried = planner::SizeLimits{}.most_tried, threads = 0;
  bool json = false, quiet = false, approximates = false;
};

constexpr const char* kAnyFramework = "any";

/// A size's search is that of `plan`, with fewer refined pipelines and fewer simulated candidates: there are many
/// sizes.
constexpr std::int64_t kRefinedOfSize = 12, kSimulatedOfSize = 8;

SizeTarget size_target(const SizeOptions& o) {
  SizeTarget t{.availability = o.availability};
  Diagnostics wrong;
  wrong.collect([&] {
    if (!o.tokens.empty()) t.tokens = token_count_option("--tokens", o.tokens);
  });
  wrong.collect([&] {
    if (!o.tokens_per_day.empty()) t.tokens_per_day = token_count_option("--tokens-per-day", o.tokens_per_day);
  });
  if (o.gpus > 0) t.gpus = o.gpus;
  const int targets = (o.tokens_per_day.empty() ? 0 : 1) + (o.days > 0 ? 1 : 0) + (o.gpus > 0 ? 1 : 0);
  if (targets != 1) {
    wrong.add(
        {"--tokens-per-day, --days, --gpus"}, "",
        fmt::format("{} are given; expected one of --tokens-per-day 500B, --tokens 15T --days 30, and --gpus 1024",
                    targets == 0 ? "none" : fmt::format("{}", targets)));
  }
  if (o.days > 0 && o.tokens.empty()) wrong.add({"--days"}, "", "needs --tokens, how many tokens in so many days");
  wrong.throw_if_any();
  if (o.days > 0) t.tokens_per_day = *t.tokens / o.days;
  return t;
}

std::vector<std::string> overrides_of_size(const SizeOptions& o, const std::optional<planner::Framework>& framework) {
  std::vector<std::string> overrides;
  if (framework) overrides = framework->overrides;
  overrides.insert(overrides.end(), o.overrides.begin(), o.overrides.end());
  if (o.global_batch > 0) overrides.push_back(fmt::format("workload.global_batch={}", o.global_batch));
  if (!o.recompute.empty()) overrides.push_back("workload.recompute=" + o.recompute);
  if (o.precision.empty()) return overrides;
  if (named<Dtype>(kDtypeNames, o.precision)) overrides.push_back("workload.dtype=" + o.precision);
  overrides.push_back("workload.precision=" + o.precision);
  return overrides;
}

/// The price after the last equals sign of a --cluster, if there is one.
std::optional<double> price_of(const std::string& text) {
  const std::size_t equals = text.rfind('=');
  if (equals == std::string::npos) return std::nullopt;
  const Parsed<double> price = parse_number(text.substr(equals + 1));
  const auto* value = std::get_if<double>(&price);
  if (!value || *value < 0) {
    throw InputError(Diagnostic{{"--cluster"},
                                "",
                                fmt::format("{} has no price after the equals sign; expected e.g. hgx_h200=2.50, per "
                                            "GPU-hour",
                                            in_quotes(text))});
  }
  return *value;
}

/// The framework that plans are for: that which is asked for, or the usual one of the workload's mode.
std::optional<planner::Framework> framework_of(const SizeOptions& o) {
  if (o.framework == kAnyFramework) return std::nullopt;
  if (!o.framework.empty()) return planner::load_framework(o.framework);
  const Node workload = load_document(planner::find_config("workloads", o.workload));
  const Node* mode = workload.find("mode");
  const bool serves = mode && mode->scalar == name_of<Mode>(kModeNames, Mode::Forward);
  return planner::load_framework(serves ? "sglang" : "megatron");
}

/// Sets the GPUs of a node that are used, and has the price of the others paid by them.
void settle_nodes(SizedCluster& c) {
  c.gpus_per_node = planner::whole_nodes(c.inputs.cluster, kMostWorld).front();
  const auto* machine = std::get_if<ClusterTemplate>(&c.inputs.cluster.machine);
  if (machine && c.price)
    *c.price *= static_cast<double>(machine->gpus_per_node) / static_cast<double>(c.gpus_per_node);
}

SizedCluster sized_cluster(const SizeOptions& o, const std::string& text,
                           const std::optional<planner::Framework>& framework) {
  SizedCluster c{.documents = {}, .inputs = {}, .price = {}};
  Diagnostics wrong;
  wrong.collect([&] { c.price = price_of(text); });
  wrong.collect([&] {
    c.documents = planner::load_inputs(
        text.substr(0, text.rfind('=')), o.model, o.workload, overrides_of_size(o, framework),
        o.approximates ? planner::UnknownFamilies::Approximated : planner::UnknownFamilies::Refused);
  });
  wrong.throw_if_any();
  c.inputs = planner::read_inputs(c.documents);
  if (framework) planner::settle_for_framework(*framework, c.documents, c.inputs);
  if (c.inputs.cluster.ranks_per_gpu > 1)
    throw InputError(
        {{c.documents.cluster_source}, "ranks_per_gpu", "GPUs are counted, with one rank each; expected 1"});
  settle_nodes(c);
  return c;
}

/// Racks whose number of GPUs is no power of two, as NVL72, with the largest power of two of them in use: more jobs can
/// be divided for 64 of 72 GPUs. The price is that of all of them. None for other clusters.
std::optional<SizedCluster> with_spare_gpus(const SizedCluster& c) {
  const auto* machine = std::get_if<ClusterTemplate>(&c.inputs.cluster.machine);
  if (!machine) return std::nullopt;
  const auto all = static_cast<std::uint64_t>(machine->gpus_per_node), used = std::bit_floor(all);
  if (!is_rack(*machine) || machine->used_per_node || used == all) return std::nullopt;
  const std::vector<std::string> overrides{
      fmt::format("cluster.template.used_per_node={}", used),
      fmt::format("cluster.name='{}, {} of {} a rack'", c.inputs.cluster.name, used, all)};
  SizedCluster out{.documents = c.documents, .inputs = {}, .price = c.price};
  planner::apply_overrides(out.documents, overrides);
  out.inputs = planner::read_inputs(out.documents);
  out.inputs.workload = c.inputs.workload;  // as settled for the framework
  settle_nodes(out);
  return out;
}

std::vector<SizedCluster> sized_clusters(const SizeOptions& o, const std::optional<planner::Framework>& framework) {
  std::vector<SizedCluster> out;
  Diagnostics found, wrong;
  for (const std::string& text : o.clusters) {
    found.collect([&] {
      out.push_back(sized_cluster(o, text, framework));
      if (auto spare = with_spare_gpus(out.back())) out.push_back(std::move(*spare));
    });
  }
  const std::span<const Diagnostic> all = found.list();
  for (auto d = all.begin(); d != all.end(); ++d) {  // those of the model once, not for every cluster
    if (std::find(all.begin(), d, *d) == d) wrong.add(d->where, d->key_path, d->message);
  }
  wrong.throw_if_any();
  return out;
}

const Fabric* fabric_of(const ClusterSpec& cluster) {
  const auto* machine = std::get_if<ClusterTemplate>(&cluster.machine);
  return machine && machine->fabric ? &*machine->fabric : nullptr;
}

/// The rates of --nic-rates, or a quarter, half and twice that of the cluster; its own is always one. Ascending.
std::vector<BytesPerSecond> nic_rates(const SizeOptions& o, BytesPerSecond own) {
  std::vector<BytesPerSecond> rates{own};
  if (o.nic_rates.empty()) {
    for (const double times : {0.25, 0.5, 2.0}) rates.push_back(own * times);
  } else {
    for (const BytesPerSecond rate : bandwidth_list_option("--nic-rates", o.nic_rates)) rates.push_back(rate);
  }
  std::sort(rates.begin(), rates.end());
  rates.erase(std::unique(rates.begin(), rates.end()), rates.end());
  return rates;
}

using ClusterProgress = std::function<void(const std::string& cluster, std::int64_t gpus, std::int64_t, std::int64_t)>;

/// The job of the answer with NICs of other rates. One node uses none.
std::vector<NicSizing> nic_sizings(const SizeOptions& o, const SizeReport& r, const planner::SearchSpace& space,
                                   const planner::SizeProgress& progress) {
  const SizedCluster& c = r.answer();
  const Fabric* fabric = fabric_of(c.inputs.cluster);
  if (!fabric || o.nic_rates == "none" || *c.sizing.gpus <= c.gpus_per_node) return {};
  constexpr std::int64_t kTried = 4;
  std::vector<NicSizing> out;
  for (const BytesPerSecond rate : nic_rates(o, fabric->nic_bandwidth)) {
    NicSizing n{.rate = rate, .is_own = rate == fabric->nic_bandwidth};
    planner::PlanInputs documents = c.documents;
    planner::apply_overrides(documents,
                             {fmt::format("cluster.template.fabric.nic_bandwidth={} B/s", exact(rate.value()))});
    const planner::Inputs inputs = planner::read_inputs(documents);
    if (n.is_own) {
      n.sizing = c.sizing;
    } else if (r.target.gpus) {
      n.sizing.tried.push_back(planner::tried_size(inputs, space, *c.sizing.gpus, progress));
      if (n.sizing.tried.front().best) n.sizing.gpus = c.sizing.gpus;
    } else {
      n.sizing = planner::fewest_gpus(
          inputs, space, r.target.needed_tokens_per_s(),
          {.most_gpus = o.most_gpus, .most_tried = kTried, .start = static_cast<double>(*c.sizing.gpus)}, progress);
    }
    out.push_back(std::move(n));
  }
  return out;
}

/// Searches the answer's size once more, for the bound of its plan file.
void write_answer(const SizeReport& r, planner::SearchSpace space, const std::string& path) {
  const SizedCluster& c = r.answer();
  space.wants_global_bound = true;
  const planner::TriedSize t = planner::tried_size(c.inputs, space, *c.sizing.gpus);
  const Cluster cluster = planner::build_cluster_of(c.documents.cluster_source, c.inputs.cluster, t.gpus);
  const planner::Prediction p =
      planner::predict(planner::Problem(c.inputs.model, c.inputs.workload, cluster), t.best->candidate);
  planner::write_plan({.inputs = c.documents,
                       .world_size = t.gpus,
                       .candidate = t.best->candidate,
                       .makespan = p.makespan,
                       .estimate = p.estimate,
                       .global_bound = t.global_bound},
                      path);
}

/// The target and the clusters, not sized yet. Raises InputError with everything that is wrong.
SizeReport read_size_input(const SizeOptions& o) {
  SizeReport r{.target = {}, .clusters = {}};
  Diagnostics wrong;
  wrong.collect([&] { r.target = size_target(o); });
  wrong.collect([&] { check_outputs({o.output}); });
  wrong.collect([&] { r.framework = framework_of(o); });
  wrong.collect([&] { r.clusters = sized_clusters(o, r.framework); });
  wrong.collect([&] {
    if (!o.nic_rates.empty() && o.nic_rates != "none") (void)bandwidth_list_option("--nic-rates", o.nic_rates);
  });
  wrong.throw_if_any();
  r.nics_within = o.nics_within / 100;
  r.most_gpus = o.most_gpus;
  return r;
}

void run_size(const SizeOptions& o, ExitCode& code) {
  const auto start = std::chrono::steady_clock::now();
  SizeReport r = read_size_input(o);
  planner::SearchSpace space;
  space.framework = r.framework;
  space.threads = static_cast<int>(o.threads);
  space.most_refined = std::min(space.most_refined, kRefinedOfSize);
  space.most_simulated = kSimulatedOfSize;
  space.wants_global_bound = false;
  {
    Progress bar("sizing", o.quiet);
    std::string cluster;
    const planner::SizeProgress progress = [&](std::int64_t gpus, std::int64_t done, std::int64_t total) {
      bar.show(done, total, fmt::format(", {} GPUs of {}", gpus, cluster));
    };
    for (SizedCluster& c : r.clusters) {
      cluster = c.inputs.cluster.name;
      c.sizing = o.gpus > 0 ? planner::fastest_of(c.inputs, space, o.gpus, progress)
                            : planner::fewest_gpus(c.inputs, space, r.target.needed_tokens_per_s(),
                                                   {.most_gpus = o.most_gpus, .most_tried = o.most_tried}, progress);
    }
    r.best = best_cluster(r.target, r.clusters);
    if (r.best) cluster = r.answer().inputs.cluster.name + " with other NICs";
    if (r.best) r.nics = nic_sizings(o, r, space, progress);
  }
  r.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!r.best) code = ExitCode::NothingFeasible;
  if (r.best && !o.output.empty()) write_answer(r, space, o.output);
  if (o.json) return fmt::print("{}", size_json(r));
  print_page(r.best ? stdout : stderr, size_page(r));
  if (r.best && !o.output.empty()) fmt::print("\n  plan   {}\n", o.output);
}

void add_target_options(CLI::App& c, SizeOptions& o) {
  c.add_option("--tokens", o.tokens, "Tokens of the whole job: 15T, 500B, 2.5e12");
  c.add_option("--days", o.days, "Target: finish --tokens in this many days")->check(CLI::Range(1e-3, 1e5));
  c.add_option("--tokens-per-day", o.tokens_per_day, "Target: tokens per day, e.g. 500B");
  c.add_option("--gpus", o.gpus, "Number of GPUs available, instead of a target")
      ->check(CLI::Range(std::int64_t{1}, kMostWorld));
  c.add_option("--availability", o.availability, "Fraction of the time in which the job makes progress")
      ->check(CLI::Range(0.01, 1.0))
      ->capture_default_str();
}

}  // namespace

void add_size_command(CLI::App& app, ExitCode& code) {
  auto* c = app.add_subcommand("size", "Find the fewest GPUs for a deadline, the NICs they need, and the cost");
  auto o = std::make_shared<SizeOptions>();
  c->add_option("--model", o->model, "Name in configs/models or its id on Hugging Face, a file, or a config.json")
      ->required();
  c->add_flag("--approximate-unknown", o->approximates,
              "Read a config.json of an unknown family as the nearest known one, and name the assumptions");
  c->add_option("--cluster", o->clusters,
                "Name in configs/clusters or a file, with the price per GPU-hour: "
                "hgx_h200=2.50; several to compare")
      ->required()
      ->take_all();
  add_target_options(*c, *o);
  c->add_option("--workload", o->workload, "Name in configs/workloads, or a file")->capture_default_str();
  const CLI::Range count(std::int64_t{1}, kMostWorld);
  c->add_option("--global-batch", o->global_batch, "Global batch size, in sequences; sets workload.global_batch")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
  c->add_option("--framework", o->framework,
                "Only what this framework runs (moeplan list frameworks); any: all that moeplan knows, which takes "
                "longer. Default: megatron; sglang for a forward pass");
  c->add_option("--precision", o->precision,
                "Number format or recipe of the matrix products (moeplan list precisions)");
  c->add_option(
      "--recompute", o->recompute,
      "Recomputation: none, selective, full, auto, or modules such as moe_act+layernorm; sets workload.recompute");
  c->add_option(
      "--nic-rates", o->nic_rates,
      "NIC bandwidths to compare: 200Gbps,400Gbps, or none (default: a quarter, half and twice the cluster's)");
  c->add_option("--nics-within", o->nics_within, "Throughput that a NIC may lose against the best one, in percent")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  c->add_option("--max-gpus", o->most_gpus, "The most GPUs to try")->check(count)->capture_default_str();
  c->add_option("--most-tried", o->most_tried, "How many sizes of a cluster to try")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  c->add_option("--threads", o->threads, "Threads; 0: one per core. The result does not depend on them")
      ->check(CLI::Range(0, 1024));
  c->add_option("-o,--output", o->output, "Write the plan of the answer here");
  c->add_option("-C", o->overrides, "Override a value of every cluster, the model or the workload: cluster.a.b=c")
      ->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o, &code] { run_size(*o, code); });
}

}  // namespace moeplan::cli
