// Layers have the reference's values on one GPU that all ranks share.
//
//     cuda_values_tests                                              a part of what follows, in at most 8 minutes
//     cuda_values_tests all                                          every strategy, 1 to 8 ranks, plain and captured
//     cuda_values_tests RANKS EVERY [captured|plain|wide [ONLY]]     every n-th; wide: hidden size 4096
//     cuda_values_tests nccl RANKS EVERY [captured|plain [ONLY]]     over NCCL, a process each; by turns on one GPU
//
// Exit code 1 where values are wrong, 77 where there is no GPU.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cuda_runtime/cuda/cuda_device.hpp"
#include "cuda_runtime/cuda/environment.hpp"
#include "cuda_runtime/launch/start_ranks.hpp"
#include "tests/device/loopback_values.hpp"
#include "tests/device/nccl_values.hpp"

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::runtime;

namespace {

std::int64_t wrong(const tests::LoopbackWays& ways, bool captures) {
  return tests::wrong_loopback_values(
      ways, {.captures = captures}, [](std::uint64_t) { return make_cuda_device(0, RankId(0)); },
      [](const Device&) { return ""; });
}

std::int64_t wrong(std::int64_t ranks, std::int64_t every, const std::string& how, const std::string& only,
                   std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max()) {
  constexpr std::int64_t kHidden = 4096, kFfn = 1024, kTokens = 256;
  const bool captures = how == "captured";
  tests::LoopbackWays ways{.ranks = ranks, .every = every, .only = only, .times = captures ? 3 : 1, .until = until};
  if (how == "wide") ways.layers = tests::wide_layers(ranks, kHidden, kFfn, kTokens);
  return wrong(ways, captures);
}

/// Each kind of layer and of exchange on each number of ranks.
std::int64_t wrong_in_brief() {
  constexpr std::chrono::minutes kInAll(8);
  constexpr std::chrono::seconds kLast(20);  // assumed: no layer takes longer
  const auto until = std::chrono::steady_clock::now() + kInAll - kLast;
  std::int64_t bad = 0;
  for (const auto& [ranks, every] : {std::pair{1, 9}, {2, 23}, {4, 43}, {8, 67}}) {
    for (const char* how : {"wide", "plain", "captured"}) bad += wrong(ranks, every, how, "", until);
  }
  return bad;
}

/// As one of the ranks that run_ranks() has started.
std::int64_t wrong_over_nccl(const RankPlace& place, const tests::NcclWays& ways, bool captures) {
  constexpr Seconds kTimeOut(60);
  const std::int64_t gpus = std::ssize(visible_gpus().gpus);
  if (place.ranks > gpus) {  // else NCCL refuses ranks that share a GPU; for values alone
    ::setenv("NCCL_HOSTID", std::to_string(place.rank).c_str(), 1);
    ::setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  }
  const auto store = make_rank_store(place, kTimeOut);
  try {
    const auto device =
        make_cuda_device(static_cast<int>(place.local_rank % gpus), RankId(static_cast<std::size_t>(place.rank)));
    const auto transport = make_nccl_transport(*device, *store, place, kTimeOut);
    std::int64_t runs = 0;
    const std::string wrong =
        tests::wrong_nccl_values(place, ways, {.time_out = kTimeOut, .captures = captures}, *device, *transport, runs);
    fmt::print("{}rank {} of {} over NCCL {}: {} ways to run a layer\n", wrong, place.rank, place.ranks, nccl_version(),
               runs);
    const auto peers = make_store_peers(*store, place, kTimeOut, "end");
    (void)peers->gather("");
    (void)peers->broadcast("");
    return wrong.empty() && runs > 0 ? 0 : 1;
  } catch (const std::exception& e) {
    store->give_up(e.what());
    fmt::print("{}\n", e.what());
    return 1;
  }
}

/// `arguments`: RANKS EVERY [captured|plain [ONLY]].
int run_over_nccl(const std::vector<std::string>& arguments) {
  if (const auto place = rank_place()) {
    const bool captures = arguments.size() > 2 && arguments[2] == "captured";
    const tests::NcclWays ways{.every = std::max(1, std::atoi(arguments[1].c_str())),
                               .only = arguments.size() > 3 ? arguments[3] : "",
                               .times = captures ? 3 : 1};
    return wrong_over_nccl(*place, ways, captures) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  std::vector<std::string> command{std::filesystem::read_symlink("/proc/self/exe").string(), "nccl"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return run_ranks(command, std::max(1, std::atoi(arguments[0].c_str())));
}

}  // namespace

int main(int argc, char** argv) {
  prepare_cuda_environment();
  const VisibleGpus visible = visible_gpus();
  if (visible.gpus.empty()) {
    fmt::print("no GPU: {}\n", visible.problem);
    return 77;
  }
  if (argc > 3 && std::string(argv[1]) == "nccl") return run_over_nccl({argv + 2, argv + argc});
  fmt::print("{}\n", visible.gpus.front().name);
  std::int64_t bad = 0;
  if (argc > 2) {
    bad = wrong(std::atoi(argv[1]), std::max(1, std::atoi(argv[2])), argc > 3 ? argv[3] : "plain",
                argc > 4 ? argv[4] : "");
  } else if (argc > 1) {
    for (const std::int64_t ranks : {1, 2, 4, 8}) bad += wrong(ranks, 1, "plain", "") + wrong(ranks, 4, "captured", "");
  } else {
    bad = wrong_in_brief();
  }
  return bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
