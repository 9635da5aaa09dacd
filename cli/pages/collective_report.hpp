// What `moeplan collective` computes and prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "planner/lowering/collective_programs.hpp"
#include "sim/traffic/destination_uniform_traffic.hpp"
#include "sim/traffic/traffic.hpp"

namespace moeplan::cli {

/// One size of a collective, simulated.
struct CollectiveResult {
  std::int64_t bytes;  // nccl-tests' size: planner::whole_message()
  Seconds time;
  [[nodiscard]] BytesPerSecond algorithm_bandwidth() const { return Bytes(static_cast<double>(bytes)) / time; }
};

/// Lowers and simulates the collective on a machine that is otherwise idle.
[[nodiscard]] CollectiveResult time_collective(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                               std::int64_t bytes);

/// The table that nccl-tests prints, predicted.
[[nodiscard]] std::string collective_page(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                          const std::vector<CollectiveResult>& results);
[[nodiscard]] std::string collective_json(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                          const std::vector<CollectiveResult>& results, double simulation_wall_s,
                                          double wall_s);

/// A traffic file, simulated.
struct TrafficReport {
  std::string file;
  const Cluster& cluster;
  const sim::TrafficMatrix& matrix;
  const sim::TrafficResult& result;
  std::optional<double> largest_difference;  // relative, over all flows: to the finish times that the file holds
  double simulation_wall_s;                  // routes and engine
  double wall_s;                             // with reading and building the cluster
};
[[nodiscard]] std::string traffic_page(const TrafficReport& report);
[[nodiscard]] std::string traffic_json(const TrafficReport& report);
/// Traffic by column of one size, simulated.
struct ColumnRun {
  std::int64_t bytes;            // the send buffer of a rank, with its own part
  std::vector<double> bytes_to;  // by destination
  sim::ColumnResult result;
};
struct ColumnReport {
  std::string traffic;  // a file's name, or what was generated
  const Cluster& cluster;
  std::vector<ColumnRun> runs;
  double simulation_wall_s;
  double wall_s;
};
/// Of a file: one run.
[[nodiscard]] std::string column_page(const ColumnReport& report);
[[nodiscard]] std::string column_json(const ColumnReport& report);
/// Of generated traffic: a run for each size.
[[nodiscard]] std::string routing_page(const ColumnReport& report);
[[nodiscard]] std::string routing_json(const ColumnReport& report);

/// src,dst,bytes,finish_s of every flow, in exact numbers.
[[nodiscard]] std::string flows_csv(const sim::TrafficMatrix& matrix, const sim::TrafficResult& result);

/// The largest |got - expected| / expected; a flow expected at 0 counts in full where it is not.
[[nodiscard]] double largest_relative_difference(const std::vector<double>& got, const std::vector<double>& expected);

}  // namespace moeplan::cli
