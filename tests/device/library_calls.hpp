// Counts of calls of the CUDA libraries that are implemented on the CPU for tests (cudart_on_cpu, cublas_on_cpu).
#pragma once

#include <map>
#include <string>

namespace moeplan::tests {

/// The number of calls by function name.
[[nodiscard]] inline std::map<std::string, int>& library_calls() {
  static std::map<std::string, int> calls;
  return calls;
}

}  // namespace moeplan::tests
