// The calls of cuBLAS and cuBLASLt that products make, done by a CPU on its own memory (cudart_on_cpu.hpp).
#pragma once

#include <map>
#include <string>

namespace moeplan::tests {

/// How often each was called.
[[nodiscard]] std::map<std::string, int>& cublas_calls();

}  // namespace moeplan::tests
