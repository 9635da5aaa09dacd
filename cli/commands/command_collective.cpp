// moeplan collective --cluster C --op OP [--algorithm NAME] [--world N] [--sizes MIN:MAX:FACTOR | --traffic FILE
//   [--flows F.csv]] [--routing SHAPE[:NUMBER]] [-C cluster.a.b=c] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <numeric>

#include "cli/commands/commands.hpp"
#include "cli/commands/output_files.hpp"
#include "cli/commands/progress.hpp"
#include "cli/options/destination_uniform_routing.hpp"
#include "cli/options/message_sizes.hpp"
#include "cli/pages/collectives/collective_report.hpp"
#include "cli/pages/collectives/collective_table.hpp"
#include "model/base/diagnostics.hpp"
#include "planner/plan/inputs.hpp"
#include "sim/traffic/route_rows.hpp"
#include "sim/traffic/traffic_file.hpp"

namespace moeplan::cli {

namespace {

struct CollectiveOptions {
  std::string cluster, op, algorithm, sizes = "1KiB:1GiB:2", traffic, flows, routing;
  std::optional<std::int64_t> world;
  std::vector<std::string> overrides;
  bool json = false, quiet = false;
};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

const planner::CollectiveAlgorithm& algorithm_of(const CollectiveOptions& o) {
  const bool has_default = !o.traffic.empty() || !o.routing.empty();
  return collective_algorithm(o.op.empty() && has_default ? "all_to_all" : o.op, o.algorithm);
}

/// Everything that is wrong with the options, as far as it can be told without reading a file.
void check_collective(const CollectiveOptions& o) {
  Diagnostics wrong;
  wrong.collect([&] {
    const planner::CollectiveAlgorithm& a = algorithm_of(o);
    if (a.collective == Collective::AllToAll && a.name == "linear") return;
    for (const auto& [option, text] : {std::pair("--traffic", &o.traffic), std::pair("--routing", &o.routing)}) {
      if (text->empty()) continue;
      throw InputError(Diagnostic{{option}, "", "is for a linear all_to_all: all flows start together"});
    }
  });
  if (!o.routing.empty()) wrong.collect([&] { (void)parse_column_routing(o.routing); });
  wrong.collect([&] { (void)parse_message_sizes(o.sizes); });
  if (o.world && *o.world < 2) wrong.add({"--world"}, "", fmt::format("is {}; expected at least 2 ranks", *o.world));
  if (!o.flows.empty() && !o.routing.empty()) {
    wrong.add({"--flows"}, "", "is not offered for traffic by column: the flows of all pairs are never listed");
  } else if (!o.flows.empty() && o.traffic.empty()) {
    wrong.add({"--flows"}, "", "needs --traffic");
  }
  wrong.collect([&] { check_cluster_overrides(o.overrides); });
  wrong.throw_if_any();
}

Cluster cluster_of(const CollectiveOptions& o, std::optional<std::int64_t> world) {
  return planner::load_cluster(o.cluster, o.overrides, world);
}

[[noreturn]] void refuse_few_ranks(std::int64_t world, std::int64_t ranks, const std::string& file) {
  throw InputError(
      Diagnostic{{"--world"}, "", fmt::format("{} ranks are fewer than the {} of {}", world, ranks, file)});
}

ColumnRun column_run(const sim::DestinationUniformTraffic& traffic, std::int64_t size, std::vector<double> bytes) {
  auto answer = traffic.simulate(bytes, false);
  if (const auto* reason = std::get_if<std::string>(&answer)) {
    throw InputError(
        Diagnostic{{"--world"},
                   "",
                   fmt::format("{} ranks are too many to simulate pair by pair (the most are {}), and by column it "
                               "would not be exact on this cluster: {}",
                               bytes.size(), sim::kMostRanksByPairs, *reason)});
  }
  return {size, std::move(bytes), std::move(std::get<sim::ColumnResult>(answer))};
}

void run_columns(const CollectiveOptions& o, sim::ColumnFile file, Clock::time_point start) {
  const auto ranks = static_cast<std::int64_t>(file.bytes.size());
  if (std::all_of(file.bytes.begin(), file.bytes.end(), [](double b) { return b == 0; })) {
    throw InputError(Diagnostic{{o.traffic}, "", "holds no flow"});
  }
  if (!o.flows.empty()) {
    throw InputError(
        Diagnostic{{"--flows"}, "", "is not offered for traffic by column: the flows of all pairs are never listed"});
  }
  if (o.world && *o.world < ranks) refuse_few_ranks(*o.world, ranks, o.traffic);
  if (!o.world && ranks < 2) throw InputError(Diagnostic{{"--world"}, "", "is needed: the columns are of rank 0 only"});
  const Cluster cluster = cluster_of(o, o.world.value_or(ranks));
  file.bytes.resize(static_cast<std::size_t>(cluster.world_size()), 0);
  const double size = std::accumulate(file.bytes.begin(), file.bytes.end(), 0.0);
  ColumnReport report{.traffic = std::filesystem::path(o.traffic).filename(),
                      .cluster = cluster,
                      .runs = {},
                      .simulation_wall_s = 0,
                      .wall_s = 0};
  const auto simulation_start = Clock::now();
  const sim::DestinationUniformTraffic traffic(cluster);
  report.runs.push_back(column_run(traffic, static_cast<std::int64_t>(std::min(size, 9e18)), std::move(file.bytes)));
  report.simulation_wall_s = seconds_since(simulation_start);
  report.wall_s = seconds_since(start);
  fmt::print("{}", o.json ? column_json(report) : column_page(report));
}

void run_routing(const CollectiveOptions& o, Clock::time_point start) {
  const RoutingScenario scenario = parse_column_routing(o.routing);
  const std::vector<std::int64_t> sizes = parse_message_sizes(o.sizes);
  const Cluster cluster = cluster_of(o, o.world);
  const std::int64_t world = cluster.world_size();
  if (world < 2) throw InputError(Diagnostic{{"--cluster"}, "", fmt::format("{} has one GPU only", cluster.name)});
  ColumnReport report{.traffic = o.routing, .cluster = cluster, .runs = {}, .simulation_wall_s = 0, .wall_s = 0};
  Progress progress("simulating", o.quiet);
  const auto simulation_start = Clock::now();
  const sim::DestinationUniformTraffic traffic(cluster);
  for (const std::int64_t bytes : sizes) {
    const std::int64_t size = planner::whole_message(Collective::AllToAll, world, bytes);
    report.runs.push_back(column_run(traffic, size, column_bytes(scenario, world, size)));
    progress.show(static_cast<std::int64_t>(report.runs.size()), static_cast<std::int64_t>(sizes.size()));
  }
  report.simulation_wall_s = seconds_since(simulation_start);
  report.wall_s = seconds_since(start);
  fmt::print("{}", o.json ? routing_json(report) : routing_page(report));
}

void run_traffic(const CollectiveOptions& o, Clock::time_point start) {
  auto read = sim::read_traffic_or_columns(o.traffic);
  if (auto* columns = std::get_if<sim::ColumnFile>(&read)) return run_columns(o, std::move(*columns), start);
  const sim::TrafficFile& file = std::get<sim::TrafficFile>(read);
  const std::int64_t ranks = file.matrix.ranks;
  if (file.matrix.flows.empty()) throw InputError(Diagnostic{{o.traffic}, "", "holds no flow"});
  if (o.world && *o.world < ranks) refuse_few_ranks(*o.world, ranks, o.traffic);
  const Cluster cluster = cluster_of(o, o.world.value_or(ranks));
  const bool with_flow_finish = !o.flows.empty() || !file.finish_s.empty();
  const auto simulation_start = Clock::now();
  sim::RouteRows routes(cluster);
  const sim::TrafficResult result = sim::simulate_traffic(file.matrix, routes.network(), with_flow_finish);
  const double simulation_wall_s = seconds_since(simulation_start);
  if (!o.flows.empty()) write_file_atomically(o.flows, flows_csv(file.matrix, result));
  TrafficReport report{.file = std::filesystem::path(o.traffic).filename(),
                       .cluster = cluster,
                       .matrix = file.matrix,
                       .result = result,
                       .largest_difference = std::nullopt,
                       .simulation_wall_s = simulation_wall_s,
                       .wall_s = 0};
  if (!file.finish_s.empty()) {
    report.largest_difference = largest_relative_difference(result.flow_finish_s, file.finish_s);
  }
  report.wall_s = seconds_since(start);
  fmt::print("{}", o.json ? traffic_json(report) : traffic_page(report));
}

void run_collective(const CollectiveOptions& o) {
  const auto start = Clock::now();
  check_collective(o);
  check_outputs({o.flows});
  if (!o.traffic.empty()) return run_traffic(o, start);
  if (!o.routing.empty()) return run_routing(o, start);
  const planner::CollectiveAlgorithm& algorithm = algorithm_of(o);
  const Cluster cluster = cluster_of(o, o.world);
  const auto simulation_start = Clock::now();
  const std::vector<std::int64_t> sizes = parse_message_sizes(o.sizes);
  Progress progress("simulating", o.quiet);
  const std::vector<CollectiveResult> results = collective_table(
      algorithm, cluster, sizes, [&](std::int64_t done, std::int64_t total) { progress.show(done, total); });
  const double simulation_wall_s = seconds_since(simulation_start);
  fmt::print("{}", o.json ? collective_json(algorithm, cluster, results, simulation_wall_s, seconds_since(start))
                          : collective_page(algorithm, cluster, results));
}

}  // namespace

void add_collective_command(CLI::App& app, ExitCode&) {
  auto* c = app.add_subcommand("collective",
                               "Predict the table that nccl-tests prints, or when each flow of a traffic file ends");
  auto o = std::make_shared<CollectiveOptions>();
  c->add_option("--cluster", o->cluster, "The cluster: a name of configs/clusters or a path")->required();
  c->add_option(
      "--op", o->op,
      "all_to_all, all_gather, reduce_scatter, all_reduce or broadcast, also as nccl-tests calls them (alltoall)");
  c->add_option(
      "--algorithm", o->algorithm,
      "linear (default), pairwise, 2dh ... for all_to_all; ring (default), tree or recursive ones for the others: see "
      "moeplan list collectives");
  c->add_option("--world", o->world, "Ranks: the first N GPUs (default: all, or those of the traffic)");
  auto* sizes =
      c->add_option("--sizes", o->sizes, "MIN:MAX:FACTOR, in nccl-tests' meaning of size, e.g. 1MiB:1GiB:8 or 1M:1G:8")
          ->capture_default_str();
  auto* traffic = c->add_option("--traffic", o->traffic,
                                "src,dst,bytes[,finish_s] or dst,bytes (for every source) as CSV, or a "
                                "matrix of bytes; plain or gzip");
  traffic->excludes(sizes);
  c->add_option("--routing", o->routing,
                "All-to-all of the sizes to experts of this popularity, one per rank, the same for every source: "
                "uniform, zipf:EXPONENT, lognormal:SIGMA, hot_expert:FACTOR, hot_rank:FACTOR, spread:FACTOR, "
                "zero_load:FRACTION, or a map as a workload's routing")
      ->excludes(traffic);
  c->add_option("--flows", o->flows, "Write when each flow of the traffic ends, as CSV");
  c->add_option("-C", o->overrides, "Override a value: cluster.a.b=c")->take_all();
  c->add_flag("--json", o->json, "Print JSON");
  c->add_flag("--quiet", o->quiet, "No progress on standard error");
  c->callback([o] { run_collective(*o); });
}

}  // namespace moeplan::cli
