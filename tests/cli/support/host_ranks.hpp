// Plans for CPU ranks on this host, and a check whether such ranks can be started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moeplan::tests {

/// Whether the worker for CPU ranks was built, which needs MPI.
inline bool has_host_ranks() {
  return std::filesystem::exists(std::filesystem::path(MOEPLAN_EXECUTABLE).parent_path() / "moeplan-host-worker");
}

/// The arguments that plan one MoE layer on `ranks` CPU ranks, all expert-parallel, and write the plan to p.yaml.
inline std::vector<std::string> host_plan(const std::string& ranks) {
  return {"plan", "--cluster", "host", "--model", "host_moe", "--workload", "host", "--world", ranks,   "--pp",
          "1",    "--tp",      "1",    "--ep",    ranks,      "--esp",      "1",    "-o",      "p.yaml"};
}

}  // namespace moeplan::tests
