// The grid of layers of [Parm] table III.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/costs/parm.hpp"

namespace moeplan::tests {

/// The grid of Table III for P GPUs: N_MP, N_ESP {1, 2, 4}; B {2, 4, 8}; L {512, 1024, 2048}; M, H {1024, 2048, 4096};
/// f {1.2, 2.4}, in this order, the last varying fastest. Testbed A is P = 8, testbed B is P = 8, 16 and 32.
struct ParmGridOptions {
  std::int64_t k = 2;             // not in the paper's text
  std::optional<std::int64_t> E;  // not in the paper's text; none: N_EP
  std::int64_t b = 4;             // assumed: fp32, the default of PyTorch
};
[[nodiscard]] std::vector<ParmProblem> parm_grid(std::int64_t P, const ParmGridOptions& options = {});

}  // namespace moeplan::tests
