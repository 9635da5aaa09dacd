// The calls of cuBLAS, cuBLASLt and the CUDA runtime that products make, done at once by a CPU on its own memory.
#pragma once

#include <map>
#include <string>

namespace moeplan::tests {

/// How often each was called.
[[nodiscard]] std::map<std::string, int>& cublas_calls();

}  // namespace moeplan::tests
