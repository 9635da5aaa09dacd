// Whether tests can expect a GPU.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace moeplan::tests {

inline std::filesystem::path gpu_worker() {
  return std::filesystem::path(MOEPLAN_EXECUTABLE).parent_path() / "moeplan-cuda-worker";
}

/// The GPU back end was built.
inline bool has_gpu_ranks() { return std::filesystem::exists(gpu_worker()); }

/// And it finds one.
inline bool has_gpu() { return std::system((gpu_worker().string() + " --gpus >/dev/null 2>&1").c_str()) == 0; }

}  // namespace moeplan::tests
