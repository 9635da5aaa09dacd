#include "tests/support/parm/parm_grid.hpp"

namespace moeplan::tests {

// The row labels of table III are missing in the text at hand; the values are not. Feasibility as implemented: N_EP = P
// / N_ESP integral, at least k experts, N_MP | P, N_MP | B L, N_ESP | H. Every combination of the lists is feasible
// with the defaults: 9 * 162 = 1,458 for each P, 5,832 over the four clusters (testbed A, and testbed B with 8, 16 and
// 32 GPUs). The paper uses 1,296 = 4 * 324 "valid cases" and tabulates N_MP, N_ESP of 2 and 4 only: 4 * 162 = 648 per
// cluster, 2,592 in all, of which 1,296 is half. 324 = 4 * 81 would be one f per cluster, or memory has excluded half;
// the text does not say which, so all are generated.
std::vector<ParmProblem> parm_grid(std::int64_t P, const ParmGridOptions& options) {
  std::vector<ParmProblem> grid;
  for (const std::int64_t N_MP : {1, 2, 4}) {
    for (const std::int64_t N_ESP : {1, 2, 4}) {
      if (P % N_MP != 0 || P % N_ESP != 0) continue;
      const std::int64_t N_EP = P / N_ESP;
      const std::int64_t E = options.E.value_or(N_EP);
      if (E < options.k || E < N_EP) continue;
      for (const std::int64_t B : {2, 4, 8}) {
        for (const std::int64_t L : {512, 1024, 2048}) {
          for (const std::int64_t M : {1024, 2048, 4096}) {
            for (const std::int64_t H : {1024, 2048, 4096}) {
              if (B * L % N_MP != 0 || H % N_ESP != 0) continue;
              for (const double f : {1.2, 2.4}) {
                grid.push_back({P, N_MP, N_EP, N_ESP, B, L, M, H, E, options.k, f, options.b});
              }
            }
          }
        }
      }
    }
  }
  return grid;
}

}  // namespace moeplan::tests
