// Every way to run an MoE layer gives the reference's values on one GPU that all ranks share: cuda_values_tests [RANKS
// EVERY [captured|plain [ONLY]]]; without arguments 1, 2, 4 and 8 ranks, with and without graphs. Exit code 1 where one
// is wrong, 77 where there is no GPU.
#include <cstdlib>

#include "cuda_runtime/cuda/cuda_device.hpp"
#include "tests/device/loopback_values.hpp"

using namespace moeplan;

namespace {

std::int64_t wrong(std::int64_t ranks, std::int64_t every, bool captures, const std::string& only) {
  const tests::LoopbackWays ways{.ranks = ranks, .every = every, .only = only, .times = captures ? 3 : 1};
  return tests::wrong_loopback_values(
      ways, {.captures = captures}, [](std::uint64_t) { return make_cuda_device(0, RankId(0)); },
      [](const Device&) { return ""; });
}

}  // namespace

int main(int argc, char** argv) {
  const VisibleGpus visible = visible_gpus();
  if (visible.gpus.empty()) {
    fmt::print("no GPU: {}\n", visible.problem);
    return 77;
  }
  fmt::print("{}\n", visible.gpus.front().name);
  std::int64_t bad = 0;
  if (argc > 2) {
    bad = wrong(std::atoi(argv[1]), std::max(1, std::atoi(argv[2])), argc > 3 && std::string(argv[3]) == "captured",
                argc > 4 ? argv[4] : "");
  } else {
    for (const std::int64_t ranks : {1, 2, 4, 8}) bad += wrong(ranks, 1, false, "") + wrong(ranks, 4, true, "");
  }
  return bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
