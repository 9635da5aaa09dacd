// The search for the best way to run one MoE layer, over ScheMoE's table 4: 675 layers on 32 GPUs of parm_testbed_b,
// each with the full product of schedules, all-to-alls, chunks and codecs.
//
//   bench_layers           all of them: seconds, and where a mix beats every published system
//   bench_layers EVERY     every so many-th layer
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "bench/clocks.hpp"
#include "cli/prepared_plan.hpp"
#include "planner/layer_search.hpp"
#include "planner/published_systems.hpp"

namespace {

using namespace moeplan;

struct Layer {
  std::int64_t B, L, H, M;
  double f;
};

/// [ScheMoE] table 4.
std::vector<Layer> table_4() {
  std::vector<Layer> layers;
  for (const std::int64_t B : {2, 4, 8})
    for (const double f : {1.0, 1.1, 1.2})
      for (const std::int64_t L : {512, 1024, 2048})
        for (const std::int64_t H : {512, 1024, 2048, 4096, 8192})
          for (const std::int64_t M : {512, 1024, 2048, 4096, 8192}) layers.push_back({B, L, H, M, f});
  return layers;
}

constexpr std::int64_t kRanks = 32;

/// Of the layers: how much faster the best of the product is than the best of what a filter lets through.
struct Gain {
  std::int64_t wins = 0;
  double sum = 0, most = 0;
  void add(double ratio) {
    wins += ratio > 1 + 1e-9 ? 1 : 0;
    sum += ratio - 1;
    most = std::max(most, ratio - 1);
  }
};

void print(const char* title, const std::map<std::string, Gain>& gains, std::int64_t layers) {
  fmt::print("{}\n", title);
  for (const auto& [name, g] : gains) {
    fmt::print("  {:<14} slower in {:>4} of {} layers, by {:.1f}% on average and {:.1f}% at most\n", name, g.wins,
               layers, 100 * g.sum / static_cast<double>(layers), 100 * g.most);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t every = argc > 1 ? std::max(1L, std::atol(argv[1])) : 1;
  const PlanInputs documents = load_inputs("parm_testbed_b", "mixtral_8x7b", "parm_grid",
                                           {"workload.codecs={zfp: {bits: 8}, fp16: {}, int8: {}}"});
  const Inputs inputs = read_inputs(documents);
  const Cluster cluster = build_cluster(inputs.cluster, kRanks);
  Candidate candidate;
  candidate.degrees = {.dp = kRanks, .ep = kRanks};
  std::map<std::string, Gain> with_codecs, without;
  std::map<std::string, std::int64_t> chosen;
  std::int64_t layers = 0, simulated = 0;
  const bench::Times times = bench::times_of([&] {
    const std::vector<Layer> all = table_4();
    for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(every)) {
      const Layer& layer = all[i];
      Workload workload = inputs.workload;
      workload.capacity_factor = layer.f;
      const Moe moe{.num_experts = kRanks,
                    .top_k = 2,
                    .expert = {.hidden_size = layer.H, .gated = false, .bias = false},
                    .shared = {},
                    .shared_gate = false,
                    .router_bias = false};
      const std::vector<MoeRun> runs = layer_runs(layer.M, workload, candidate, cluster.ranks_per_node());
      const std::vector<PricedRun> priced =
          priced_runs(runs, moe, layer.M, layer.B * layer.L, workload, candidate, cluster, 2);
      ++layers;
      simulated += std::ssize(priced);
      const auto best = [&](auto&& offers) {
        return std::find_if(priced.begin(), priced.end(), [&](const PricedRun& p) { return offers(p.run); });
      };
      const auto plain = best([](const MoeRun& r) { return r.codec == "none"; });
      const auto compare = [&](std::map<std::string, Gain>& gains, const PricedRun& mix, bool codecs) {
        double least = 1e300;
        for (const PublishedSystem& s : published_systems()) {
          const auto its = best([&](const MoeRun& r) { return s.offers(r) && (codecs || r.codec == "none"); });
          const double ratio = its->time.seconds() / mix.time.seconds();
          gains[std::string(s.name)].add(ratio);
          least = std::min(least, ratio);
        }
        gains["all five"].add(least);
      };
      compare(with_codecs, priced.front(), true);
      compare(without, *plain, false);
      const MoeRun& r = priced.front().run;
      ++chosen[fmt::format("{} / {} / {} chunks / {}", r.schedule, r.all_to_all, r.pipeline_degree, r.codec)];
    }
  });
  fmt::print("{} layers, {} simulations in {:.1f} s ({:.1f} s CPU): {:.0f} a second\n\n", layers, simulated,
             times.wall_s, times.cpu_s, static_cast<double>(simulated) / times.wall_s);
  print("Against the best of the product:", with_codecs, layers);
  print("The same without codecs:", without, layers);
  fmt::print("Chosen:\n");
  std::vector<std::pair<std::int64_t, std::string>> often;
  for (const auto& [run, count] : chosen) often.emplace_back(count, run);
  std::sort(often.rbegin(), often.rend());
  for (const auto& [count, run] : often) fmt::print("  {:>4}  {}\n", count, run);
  return 0;
}
