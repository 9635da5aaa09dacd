// Counts of calls of the CUDA libraries that are implemented on the CPU for tests (cudart_on_cpu, cublas_on_cpu).
#pragma once

#include <map>
#include <string>

namespace moeplan::tests {

/// The number of calls by function name, and of those that ask for fast accumulation.
[[nodiscard]] inline std::map<std::string, int>& library_calls() {
  static std::map<std::string, int> calls;
  return calls;
}

/// NCCL: how often each call is in progress before it is over, and the cause of the failure of all of them, if any.
struct NcclBehaviour {
  int looks = 0;
  std::string failure = {};
};
[[nodiscard]] inline NcclBehaviour& nccl_behaviour() {
  static NcclBehaviour behaviour;
  return behaviour;
}

/// The GPU's compute capability; 9.0 multiplies several products in one launch.
[[nodiscard]] inline int& compute_capability() {
  static int major = 8;
  return major;
}

}  // namespace moeplan::tests
