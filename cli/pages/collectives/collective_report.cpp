#include "cli/pages/collectives/collective_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>

#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::cli {

namespace {

using Json = nlohmann::ordered_json;

constexpr int kSchemaVersion = 1;
constexpr std::int64_t kElementBytes = 4;  // bytes of float, nccl-tests' default type

std::string_view name_of_op(const planner::CollectiveAlgorithm& a) {
  return name_of<Collective>(kCollectiveNames, a.collective);
}

/// The count column of nccl-tests: elements of a rank's part if the data is divided into one part per rank.
std::int64_t element_count(Collective collective, std::int64_t bytes, std::int64_t world) {
  const bool is_whole = collective == Collective::AllReduce || collective == Collective::Broadcast;
  return (is_whole ? bytes : bytes / world) / kElementBytes;
}

bool reduces(Collective c) { return c == Collective::AllReduce || c == Collective::ReduceScatter; }

BytesPerSecond bus_bandwidth(const planner::CollectiveAlgorithm& a, const Cluster& cluster, const CollectiveResult& r) {
  return r.algorithm_bandwidth() * planner::bus_bandwidth_factor(a.collective, cluster.world_size());
}

/// A time in the format of nccl-tests: about five digits.
std::string microseconds(Seconds t) {
  const double us = t.value() * 1e6;
  return us < 100 ? fmt::format("{:.2f}", us) : us < 1e5 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

double gigabytes(BytesPerSecond rate) { return rate.value() / 1e9; }

/// The name and the description of a method.
std::pair<std::string, std::string> method_text(sim::TrafficMethod method) {
  switch (method) {
    case sim::TrafficMethod::Decoupled:
      return {"decoupled", "each flow is limited by one link, and equal ones share it"};
    case sim::TrafficMethod::Classes: return {"classes", "flows that provably behave equally were simulated once"};
    case sim::TrafficMethod::Flows: return {"flows", "every flow was simulated"};
  }
  return {};
}

/// Whether communication on this cluster has costs in addition to the bytes on the links.
bool has_start_up(const Cluster& c) {
  return c.collective_startup > Seconds(0) || c.message_overhead > Seconds(0) || !c.collectives.empty() ||
         std::any_of(c.topology.links.begin(), c.topology.links.end(),
                     [](const Link& l) { return l.latency > Seconds(0); });
}

constexpr std::string_view kLinksAlone =
    "\nThe links alone: every flow starts at 0, without start-up times, latency or measured rates.\n";

std::pair<std::string, std::string> method_text(const sim::ColumnResult& result) {
  if (result.is_by_pairs) return method_text(result.method);
  return {"columns", "flows to one rank that provably behave equally were simulated once"};
}

/// The number of non-empty flows.
std::int64_t flow_count(const ColumnRun& run) {
  const auto columns = std::count_if(run.bytes_to.begin(), run.bytes_to.end(), [](double b) { return b > 0; });
  return columns * (static_cast<std::int64_t>(run.bytes_to.size()) - 1);
}

Bytes total_bytes(const ColumnRun& run) {
  double sum = 0;
  for (const double b : run.bytes_to) sum += b;
  return Bytes(sum * static_cast<double>(run.bytes_to.size() - 1));
}

Json column_head(const ColumnReport& r) {
  return {{"schema_version", kSchemaVersion},
          {"cluster", r.cluster.name},
          {"op", "all_to_all"},
          {"algorithm", "linear"},
          {"world_size", r.cluster.world_size()},
          {"traffic", r.traffic}};
}

Json column_values(const ColumnRun& run) {
  return {{"flows", flow_count(run)},
          {"total_bytes", total_bytes(run).value()},
          {"finish_s", run.result.finish_s},
          {"sum_flow_finish_s", run.result.sum_flow_finish_s},
          {"method", method_text(run.result).first},
          {"simulated_classes", run.result.classes}};
}

double total_bytes(const sim::TrafficMatrix& matrix) {
  double sum = 0;
  for (const sim::TrafficFlow& f : matrix.flows) sum += f.bytes;
  return sum;
}

}  // namespace

CollectiveResult time_collective(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                 std::int64_t bytes) {
  const std::int64_t world = cluster.world_size();
  const Program program = planner::collective_program(algorithm, world, bytes, cluster.ranks_per_node());
  const Timeline timeline = sim::simulate(program, cluster, {.keep_spans = false});
  return {planner::whole_message(algorithm.collective, world, bytes), timeline.makespan.seconds()};
}

std::string collective_page(const planner::CollectiveAlgorithm& a, const Cluster& cluster,
                            const std::vector<CollectiveResult>& results) {
  std::string page = fmt::format("# {} ({}: {}) over {} ranks of {}, predicted\n#\n", name_of_op(a), a.name, a.summary,
                                 cluster.world_size(), cluster.name);
  const std::string op = reduces(a.collective) ? fmt::format("{:>8}", "redop") : "";
  const std::string sum = reduces(a.collective) ? fmt::format("{:>8}", "sum") : "";
  const auto out = std::back_inserter(page);
  fmt::format_to(out, "#{:>11}{:>14}{:>8}{}{:>11}{:>9}{:>9}\n", "size", "count", "type", op, "time", "algbw", "busbw");
  fmt::format_to(out, "#{:>11}{:>14}{:>8}{:>{}}{:>11}{:>9}{:>9}\n", "(B)", "(elements)", "", "", op.size(), "(us)",
                 "(GB/s)", "(GB/s)");
  double sum_of_bandwidths = 0;
  for (const CollectiveResult& r : results) {
    const double bus = gigabytes(bus_bandwidth(a, cluster, r));
    sum_of_bandwidths += bus;
    fmt::format_to(out, "{:>12}{:>14}{:>8}{}{:>11}{:>9.2f}{:>9.2f}\n", r.bytes,
                   element_count(a.collective, r.bytes, cluster.world_size()), "float", sum, microseconds(r.time),
                   gigabytes(r.algorithm_bandwidth()), bus);
  }
  fmt::format_to(out, "# Avg bus bandwidth    : {:.4f}\n", sum_of_bandwidths / static_cast<double>(results.size()));
  return page;
}

std::string collective_json(const planner::CollectiveAlgorithm& a, const Cluster& cluster,
                            const std::vector<CollectiveResult>& results, double simulation_wall_s, double wall_s) {
  Json j{{"schema_version", kSchemaVersion},
         {"cluster", cluster.name},
         {"op", name_of_op(a)},
         {"algorithm", a.name},
         {"world_size", cluster.world_size()}};
  j["results"] = Json::array();
  for (const CollectiveResult& r : results) {
    j["results"].push_back({{"bytes", r.bytes},
                            {"time_s", r.time.value()},
                            {"algorithm_bandwidth_bytes_per_s", r.algorithm_bandwidth().value()},
                            {"bus_bandwidth_bytes_per_s", bus_bandwidth(a, cluster, r).value()}});
  }
  j["timing"] = {{"simulation_wall_s", simulation_wall_s}, {"wall_s", wall_s}};
  return j.dump(2) + '\n';
}

std::string traffic_page(const TrafficReport& r) {
  const auto [name, meaning] = method_text(r.result.method);
  std::string page = fmt::format("{}: all_to_all over {} ranks of {}, {} flows, {}\n\n", r.file, r.cluster.world_size(),
                                 r.cluster.name, r.matrix.flows.size(), human(Bytes(total_bytes(r.matrix))));
  const auto out = std::back_inserter(page);
  fmt::format_to(out, "last flow ends at        {}\n", human(Seconds(r.result.finish_s)));
  fmt::format_to(out, "sum of all flows' ends   {}\n", human(Seconds(r.result.sum_flow_finish_s)));
  if (r.largest_difference) {
    fmt::format_to(out, "from the file's times    {:.2g} relative at most\n", *r.largest_difference);
  }
  fmt::format_to(out, "method                   {}: {}; {} simulated\n", name, meaning, r.result.classes);
  fmt::format_to(out, "simulated in             {}\n", human(Seconds(r.simulation_wall_s)));
  if (has_start_up(r.cluster)) page += kLinksAlone;
  return page;
}

std::string traffic_json(const TrafficReport& r) {
  Json j{{"schema_version", kSchemaVersion},
         {"cluster", r.cluster.name},
         {"op", "all_to_all"},
         {"algorithm", "linear"},
         {"world_size", r.cluster.world_size()},
         {"traffic", r.file},
         {"flows", r.matrix.flows.size()},
         {"total_bytes", total_bytes(r.matrix)},
         {"finish_s", r.result.finish_s},
         {"sum_flow_finish_s", r.result.sum_flow_finish_s}};
  if (r.largest_difference) j["largest_relative_difference"] = *r.largest_difference;
  j["method"] = method_text(r.result.method).first;
  j["simulated_classes"] = r.result.classes;
  j["includes_start_up"] = !has_start_up(r.cluster);
  j["timing"] = {{"simulation_wall_s", r.simulation_wall_s}, {"wall_s", r.wall_s}};
  return j.dump(2) + '\n';
}

std::string column_page(const ColumnReport& r) {
  const ColumnRun& run = r.runs.front();
  const auto [name, meaning] = method_text(run.result);
  std::string page = fmt::format("{}: all_to_all by column over {} ranks of {}, {} flows, {}\n\n", r.traffic,
                                 r.cluster.world_size(), r.cluster.name, flow_count(run), human(total_bytes(run)));
  const auto out = std::back_inserter(page);
  fmt::format_to(out, "last flow ends at        {}\n", human(Seconds(run.result.finish_s)));
  fmt::format_to(out, "sum of all flows' ends   {}\n", human(Seconds(run.result.sum_flow_finish_s)));
  fmt::format_to(out, "method                   {}: {}; {} simulated\n", name, meaning, run.result.classes);
  fmt::format_to(out, "simulated in             {}\n", human(Seconds(r.simulation_wall_s)));
  if (has_start_up(r.cluster)) page += kLinksAlone;
  return page;
}

std::string column_json(const ColumnReport& r) {
  Json j = column_head(r);
  j.update(column_values(r.runs.front()));
  j["includes_start_up"] = !has_start_up(r.cluster);
  j["timing"] = {{"simulation_wall_s", r.simulation_wall_s}, {"wall_s", r.wall_s}};
  return j.dump(2) + '\n';
}

std::string routing_page(const ColumnReport& r) {
  std::string page = fmt::format("# all_to_all ({}, the same for every source) over {} ranks of {}, predicted\n#\n",
                                 r.traffic, r.cluster.world_size(), r.cluster.name);
  const auto out = std::back_inserter(page);
  fmt::format_to(out, "#{:>13}{:>16}{:>16}{:>18}  {}\n", "size (B)", "to hottest (B)", "last end (us)",
                 "sum of ends (s)", "method");
  for (const ColumnRun& run : r.runs) {
    fmt::format_to(out, "{:>14}{:>16.0f}{:>16}{:>18.6g}  {}\n", run.bytes,
                   *std::max_element(run.bytes_to.begin(), run.bytes_to.end()),
                   microseconds(Seconds(run.result.finish_s)), run.result.sum_flow_finish_s,
                   method_text(run.result).first);
  }
  fmt::format_to(out, "# simulated in {}\n", human(Seconds(r.simulation_wall_s)));
  if (has_start_up(r.cluster)) page += kLinksAlone;
  return page;
}

std::string routing_json(const ColumnReport& r) {
  Json j = column_head(r);
  j["results"] = Json::array();
  for (const ColumnRun& run : r.runs) {
    Json one{{"bytes", run.bytes}};
    one.update(column_values(run));
    j["results"].push_back(std::move(one));
  }
  j["includes_start_up"] = !has_start_up(r.cluster);
  j["timing"] = {{"simulation_wall_s", r.simulation_wall_s}, {"wall_s", r.wall_s}};
  return j.dump(2) + '\n';
}

std::string flows_csv(const sim::TrafficMatrix& matrix, const sim::TrafficResult& result) {
  std::string text = "src,dst,bytes,finish_s\n";
  for (std::size_t f = 0; f < matrix.flows.size(); ++f) {
    const sim::TrafficFlow& flow = matrix.flows[f];
    fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", flow.src.value(), flow.dst.value(), exact(flow.bytes),
                   exact(result.flow_finish_s[f]));
  }
  return text;
}

double largest_relative_difference(const std::vector<double>& got, const std::vector<double>& expected) {
  double largest = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(got[i] - expected[i]);
    largest = std::max(largest, difference > 0 && expected[i] == 0 ? 1.0 : difference / std::max(expected[i], 1e-300));
  }
  return largest;
}

}  // namespace moeplan::cli
