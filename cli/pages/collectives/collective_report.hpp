// The results and reports of `moeplan collective`.
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

/// The simulated time of a collective for one message size.
struct CollectiveResult {
  std::int64_t bytes;  // size as in nccl-tests: planner::whole_message()
  Seconds time;
  [[nodiscard]] BytesPerSecond algorithm_bandwidth() const { return Bytes(static_cast<double>(bytes)) / time; }
};

/// Lowers the collective and simulates it on an otherwise idle cluster.
[[nodiscard]] CollectiveResult time_collective(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                               std::int64_t bytes);

/// The predicted results as a table in the format of nccl-tests.
[[nodiscard]] std::string collective_page(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                          const std::vector<CollectiveResult>& results);
[[nodiscard]] std::string collective_json(const planner::CollectiveAlgorithm& algorithm, const Cluster& cluster,
                                          const std::vector<CollectiveResult>& results, double simulation_wall_s,
                                          double wall_s);

/// The simulation of a traffic file.
struct TrafficReport {
  std::string file;
  const Cluster& cluster;
  const sim::TrafficMatrix& matrix;
  const sim::TrafficResult& result;
  std::optional<double> largest_difference;  // relative, over all flows, against the finish times in the file
  double simulation_wall_s;                  // routes and engine
  double wall_s;                             // including reading the file and building the cluster
};
[[nodiscard]] std::string traffic_page(const TrafficReport& report);
[[nodiscard]] std::string traffic_json(const TrafficReport& report);
/// The simulation of destination-uniform traffic of one size.
struct ColumnRun {
  std::int64_t bytes;            // send buffer of a rank, including its own part
  std::vector<double> bytes_to;  // by destination
  sim::ColumnResult result;
};
struct ColumnReport {
  std::string traffic;  // the file's name, or a description of the generated traffic
  const Cluster& cluster;
  std::vector<ColumnRun> runs;
  double simulation_wall_s;
  double wall_s;
};
/// Reports of a file: a single entry in `runs`.
[[nodiscard]] std::string column_page(const ColumnReport& report);
[[nodiscard]] std::string column_json(const ColumnReport& report);
/// Reports of generated traffic: one entry in `runs` per size.
[[nodiscard]] std::string routing_page(const ColumnReport& report);
[[nodiscard]] std::string routing_json(const ColumnReport& report);

/// CSV with src,dst,bytes,finish_s of every flow, with exact numbers.
[[nodiscard]] std::string flows_csv(const sim::TrafficMatrix& matrix, const sim::TrafficResult& result);

/// The largest |got - expected| / expected. A flow whose expected value is 0 contributes 1 if its value differs.
[[nodiscard]] double largest_relative_difference(const std::vector<double>& got, const std::vector<double>& expected);

}  // namespace moeplan::cli
