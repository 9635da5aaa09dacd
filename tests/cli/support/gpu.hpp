// Checks whether the GPU back end was built and whether a GPU is present.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

namespace moeplan::tests {

/// The path of the GPU back end's worker, whether or not it was built.
inline std::filesystem::path gpu_worker() {
  return std::filesystem::path(MOEPLAN_EXECUTABLE).parent_path() / "moeplan-cuda-worker";
}

/// Whether the GPU back end was built.
inline bool has_gpu_ranks() { return std::filesystem::exists(gpu_worker()); }

/// Whether the GPU back end finds a GPU.
inline bool has_gpu() { return std::system((gpu_worker().string() + " --gpus >/dev/null 2>&1").c_str()) == 0; }

}  // namespace moeplan::tests
