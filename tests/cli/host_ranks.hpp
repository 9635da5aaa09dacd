// Plans for CPU ranks of this machine, and whether these can be started.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moeplan::tests {

/// Built with MPI.
inline bool has_host_ranks() {
  return std::filesystem::exists(std::filesystem::path(MOEPLAN_EXECUTABLE).parent_path() / "moeplan-host-worker");
}

/// What plans one MoE layer on so many CPU ranks, all expert-parallel, into p.yaml.
inline std::vector<std::string> host_plan(const std::string& ranks) {
  return {"plan", "--cluster", "host", "--model", "host_moe", "--workload", "host", "--world", ranks,   "--pp",
          "1",    "--tp",      "1",    "--ep",    ranks,      "--esp",      "1",    "-o",      "p.yaml"};
}

}  // namespace moeplan::tests
