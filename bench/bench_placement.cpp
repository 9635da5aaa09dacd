// Benchmark of expert placement strategies: CPU time per plan.
//
//   bench_placement [MILLISECONDS]    repeats each for MILLISECONDS (default 200) and prints the minimum time
//
// Loads: Zipf with exponent 1, sampled, with a different seed for each layer.
#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <vector>

#include "bench/clocks.hpp"
#include "planner/placement/exact_placement.hpp"
#include "planner/placement/strategies/eplb.hpp"
#include "planner/placement/strategies/pro_prophet.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::planner;

/// A layer of DeepSeek-V3's width on DGX H100 nodes: datasheet bandwidths and peak, assumed efficiency 0.6.
PlacementDevices h100(std::int64_t ranks, std::int64_t slots) {
  const double parameters = 3.0 * 7168 * 2048;
  return {.ranks = ranks,
          .ranks_per_node = 8,
          .slots = slots,
          .token_time = Seconds(2 * parameters / (989e12 * 0.6)),
          .token_bytes = Bytes(7168 * 2),
          .parameter_bytes = Bytes(2 * parameters),
          .gradient_bytes = Bytes(2 * parameters),
          .state_bytes = Bytes(14 * parameters),
          .rank_bandwidth = BytesPerSecond(450e9),
          .nic_bandwidth = BytesPerSecond(50e9),
          .node_bandwidth = BytesPerSecond(400e9)};
}

std::vector<RoutingCounts> layers(std::int64_t count, std::int64_t ranks, std::int64_t experts, std::int64_t top_k) {
  std::vector<RoutingCounts> result;
  for (std::int64_t layer = 0; layer < count; ++layer) {
    const RoutingScenario zipf{.shape = RoutingShape::Zipf,
                               .zipf_exponent = 1,
                               .sampled = true,
                               .seed = static_cast<std::uint64_t>(layer) + 1};
    result.push_back(make_routing(zipf, ranks, experts, 4096, top_k, experts / ranks));
  }
  return result;
}

void print(const std::string& what, double milliseconds, const std::string& wanted) {
  fmt::print("{:62} {:>10.3f} ms   {}\n", what, milliseconds, wanted);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const double budget_s = 1e-3 * (argc > 1 ? std::stod(argv[1]) : 200.0);
  const auto ms = [&](const auto& call) { return 1e3 * bench::least_times_of(call, budget_s).cpu_s; };

  {
    const RoutingCounts counts = layers(1, 64, 64, 2).front();
    const PlacementDevices devices = h100(64, 64);
    for (const char* name : {"pro_prophet", "pro_prophet_eq6"}) {
      const PlacementStrategy* strategy = find_placement_strategy(name);
      print(fmt::format("{}: 64 experts on 64 ranks, one layer", name), ms([&] {
              (void)strategy->place({counts, devices});
            }),
            "wanted < 1 ms");
    }
  }
  const std::vector<RoutingCounts> v3 = layers(61, 64, 256, 8);
  const PlacementDevices devices = h100(64, 5);
  print("EPLB: 256 experts, 61 layers on 64 ranks of 5 slots", ms([&] {
          for (const RoutingCounts& counts : v3) (void)eplb_rebalance(counts.expert_load(), 320, 1, 1, 64);
        }),
        "wanted < 20 ms");
  for (const auto& strategy : placement_strategies()) {
    if (!strategy->place({v3.front(), devices}).placement) continue;
    print(fmt::format("{}: 256 experts, 61 layers on 64 ranks of 5 slots", strategy->name()), ms([&] {
            for (const RoutingCounts& counts : v3) (void)strategy->place({counts, devices});
          }),
          strategy->name() == "auto" ? "wanted < 1000 ms" : "");
  }
  for (const std::int64_t experts : {16, 20, 24}) {
    std::int64_t nodes = 0, proved = 0;
    const double taken = ms([&] {
      nodes = proved = 0;
      for (const RoutingCounts& counts : layers(20, 8, experts, 2)) {
        const ExactLoad exact = exact_load(counts.expert_load(), 8, (experts + 7) / 8);
        nodes += exact.nodes;
        proved += exact.proved ? 1 : 0;
      }
    });
    print(fmt::format("exact least load: {} experts on 8 ranks, each of 20 instances", experts), taken / 20,
          fmt::format("{} proved, {} nodes each", proved, nodes / 20));
  }
}
