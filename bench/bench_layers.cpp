// Benchmark of the search for the best layer strategy over ScheMoE's table 4: 675 MoE layers on 32 GPUs of
// parm_testbed_b, each over the full product of schedules, all-to-alls, chunks and codecs, with and without codecs.
//
//   bench_layers           all layers: seconds, and the layers in which a combination beats every published system
//   bench_layers EVERY     only every EVERY-th layer
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "bench/clocks.hpp"
#include "cli/pages/plans/prepared_plan.hpp"
#include "model/base/in_parallel.hpp"
#include "planner/search/layer_search.hpp"
#include "tests/support/published_systems.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::cli;

struct Layer {
  std::int64_t B, L, H, M;
  double f;
};

/// The layers of [ScheMoE] table 4.
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

/// The speedup of the best strategy of the full product over the best strategy that a filter admits, over all layers.
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

/// Layers with equal dimensions, number of tokens and capacity factor are equivalent.
using LayerKey = std::tuple<std::int64_t, std::int64_t, std::int64_t, double>;
LayerKey key_of(const Layer& layer) { return {layer.B * layer.L, layer.H, layer.M, layer.f}; }

struct Found {
  PricedStrategy mix, plain;                    // the fastest of the full product, and of its part without codecs
  std::vector<PricedStrategy> systems, simple;  // the fastest of each published system, and of its part without codecs
};

Moe moe_of(const Layer& layer) {
  return {.num_experts = kRanks,
          .top_k = 2,
          .expert = {.hidden_size = layer.H, .gated = false, .bias = false},
          .shared = {},
          .shared_gate = false,
          .router_bias = false};
}

/// Searches for the fastest strategies of layers on the testbed.
class LayerSearches {
 public:
  LayerSearches()
      : inputs_(read_inputs(load_inputs("parm_testbed_b", "mixtral_8x7b", "parm_grid",
                                        {"workload.codecs={zfp: {bits: 8}, fp16: {}, int8: {}}"}))),
        cluster_(build_cluster(inputs_.cluster, kRanks)) {
    candidate_.degrees = {.dp = kRanks, .ep = kRanks};
  }

  /// All strategies of a layer.
  std::vector<LayerStrategy> strategies(const Layer& layer) const {
    return layer_strategies(layer.M, workload(layer), candidate_, cluster_.ranks_per_node());
  }

  /// The fastest strategies among those that a filter admits.
  template <class Offers>
  FastestStrategies fastest(const Layer& layer, const Offers& offers) const {
    const Moe moe = moe_of(layer);
    const Workload own = workload(layer);
    std::vector<LayerStrategy> runs = strategies(layer);
    std::erase_if(runs, [&](const LayerStrategy& r) { return !offers(r); });
    const LayerProblem problem{moe, layer.M, layer.B * layer.L, own, candidate_, cluster_};
    return fastest_strategies(runs, problem, 1, 1);
  }

 private:
  Workload workload(const Layer& layer) const {
    Workload workload = inputs_.workload;
    workload.capacity_factor = layer.f;
    return workload;
  }

  Inputs inputs_;
  Cluster cluster_;
  Candidate candidate_;
};

/// The fastest strategy of each published system, and of its part without codecs.
void add_systems(const LayerSearches& searches, const Layer& layer, Found& found) {
  const auto no_codec = [](const LayerStrategy& r) { return r.codec == CodecPair{}; };
  found.plain = searches.fastest(layer, no_codec).fastest.front();
  for (const PublishedSystem& s : published_systems()) {
    const auto offers = [&](const LayerStrategy& r) { return s.offers(r); };
    const auto offers_simple = [&](const LayerStrategy& r) { return s.offers(r) && no_codec(r); };
    found.systems.push_back(searches.fastest(layer, offers).fastest.front());
    found.simple.push_back(searches.fastest(layer, offers_simple).fastest.front());
  }
}

void compare(std::map<std::string, Gain>& gains, const PricedStrategy& mix,
             const std::vector<PricedStrategy>& systems) {
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const double ratio = systems[s].time.seconds() / mix.time.seconds();
    gains[std::string(published_systems()[s].name)].add(ratio);
    least = std::min(least, ratio);
  }
  gains["all five"].add(least);
}

void print_chosen(const std::map<std::string, std::int64_t>& chosen) {
  fmt::print("Chosen:\n");
  std::vector<std::pair<std::int64_t, std::string>> often;
  for (const auto& [run, count] : chosen) often.emplace_back(count, run);
  std::sort(often.rbegin(), often.rend());
  for (const auto& [count, run] : often) fmt::print("  {:>4}  {}\n", count, run);
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t every = argc > 1 ? std::max(1L, std::atol(argv[1])) : 1;
  const int threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  std::vector<Layer> layers;
  std::map<LayerKey, std::size_t> distinct;  // index in `founds`
  std::vector<Layer> representatives;
  const std::vector<Layer> all = table_4();
  for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(every)) {
    layers.push_back(all[i]);
    if (distinct.try_emplace(key_of(all[i]), distinct.size()).second) representatives.push_back(all[i]);
  }

  const LayerSearches searches;
  std::vector<Found> founds(representatives.size());
  std::vector<FastestStrategies> counts(representatives.size());
  const bench::Times times = bench::times_of([&] {
    in_parallel(founds.size(), threads, [&](std::size_t i) {
      counts[i] = searches.fastest(representatives[i], [](const LayerStrategy&) { return true; });
      founds[i].mix = counts[i].fastest.front();
    });
  });
  in_parallel(founds.size(), threads, [&](std::size_t i) { add_systems(searches, representatives[i], founds[i]); });

  std::map<std::string, Gain> with_codecs, without;
  std::map<std::string, std::int64_t> chosen;
  for (const Layer& layer : layers) {
    const Found& found = founds[distinct.at(key_of(layer))];
    compare(with_codecs, found.mix, found.systems);
    compare(without, found.plain, found.simple);
    const LayerStrategy& r = found.mix.run;
    ++chosen[fmt::format("{} / {} / {} chunks / {}", r.schedule.name(), r.all_to_all.name(), r.pipeline_degree,
                         codec_pair_name(r.codec))];
  }
  std::int64_t estimated = 0, simulated = 0;
  for (const FastestStrategies& c : counts) {
    estimated += c.estimated;
    simulated += c.simulated;
  }
  std::size_t ways = 0;
  for (const Layer& layer : representatives) ways = std::max(ways, searches.strategies(layer).size());
  const std::int64_t n = std::ssize(layers);
  fmt::print(
      "{} layers, {} of them different, up to {} ways to run one, searched in {:.1f} s ({:.1f} s CPU): {} runs "
      "bounded, {} simulated\n\n",
      n, founds.size(), ways, times.wall_s, times.cpu_s, estimated, simulated);
  print("Against the best of the product:", with_codecs, n);
  print("The same without codecs:", without, n);
  print_chosen(chosen);
  return 0;
}
