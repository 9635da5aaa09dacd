// A CPU implementation of the cuBLAS and cuBLASLt calls that matrix products use, for tests (cudart_on_cpu.hpp).
#pragma once

#include <map>
#include <string>

namespace moeplan::tests {

/// The number of calls by function name.
[[nodiscard]] std::map<std::string, int>& cublas_calls();

}  // namespace moeplan::tests
