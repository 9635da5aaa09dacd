#include "tests/support/routing/make_routing_trace.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

#include "model/base/random.hpp"

namespace moeplan::tests {

namespace {

/// Random streams of the scenario's seed, so that the draws of one layer or purpose do not affect another.
std::uint64_t seed_of(const TraceScenario& s, std::int64_t layer, std::uint64_t purpose, std::uint64_t index) {
  Random of_layer(s.routing.seed, static_cast<std::uint64_t>(layer) + 1);
  Random of_purpose(of_layer.bits(), purpose);
  return Random(of_purpose.bits(), index).bits();
}

enum Purpose : std::uint64_t { kPopularity, kDraw, kBurst, kWalk };

class LayerMotion {
 public:
  LayerMotion(const TraceScenario& s, std::int64_t layer, std::vector<double> popularity)
      : s_(s), layer_(layer), popularity_(std::move(popularity)) {}

  /// Must be called for 0, 1, 2 ... in order.
  [[nodiscard]] std::vector<double> at(std::int64_t iteration) {
    const auto experts = static_cast<std::int64_t>(popularity_.size());
    std::vector<double> now = popularity_;
    switch (s_.motion) {
      case RoutingMotion::Steady: break;
      case RoutingMotion::Rotating: {
        const std::int64_t shift = iteration / s_.period % experts * (s_.step % experts) % experts;
        std::rotate(now.begin(), now.begin() + (experts - shift) % experts, now.end());
        break;
      }
      case RoutingMotion::Burst: {
        if (iteration % s_.period < s_.period - s_.burst_length) break;
        Random random(seed_of(s_, layer_, kBurst, static_cast<std::uint64_t>(iteration / s_.period)));
        now[random.below(now.size())] *= s_.burst_factor;
        break;
      }
      case RoutingMotion::Walk: {
        if (iteration == 0) break;
        Random random(seed_of(s_, layer_, kWalk, static_cast<std::uint64_t>(iteration)));
        for (double& p : popularity_) p *= std::exp(s_.walk_sigma * random.normal());
        const double sum = std::accumulate(popularity_.begin(), popularity_.end(), 0.0);
        for (double& p : popularity_) p /= sum;
        now = popularity_;
        break;
      }
    }
    return now;
  }

 private:
  const TraceScenario& s_;
  std::int64_t layer_;
  std::vector<double> popularity_;
};

}  // namespace

RoutingTrace make_routing_trace(const TraceScenario& s, std::int64_t sources, std::int64_t experts, std::int64_t tokens,
                                std::int64_t top_k, std::int64_t experts_per_rank) {
  assert(s.iterations > 0 && s.layers > 0 && s.period > 0 && s.burst_length <= s.period && tokens <= UINT32_MAX &&
         "a trace is of something");
  const auto per_layer = static_cast<std::size_t>(sources * experts);
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(s.iterations * s.layers) * per_layer);
  for (std::int64_t layer = 0; layer < s.layers; ++layer) {
    RoutingScenario routing = s.routing;
    routing.seed = seed_of(s, layer, kPopularity, 0);
    LayerMotion motion(s, layer, routing_popularities(routing, experts, top_k, experts_per_rank));
    for (std::int64_t i = 0; i < s.iterations; ++i) {
      if (routing.sampled) routing.seed = seed_of(s, layer, kDraw, static_cast<std::uint64_t>(i));
      const RoutingCounts now = routing_by_popularity(routing, motion.at(i), sources, tokens, top_k);
      std::size_t at = static_cast<std::size_t>(i * s.layers + layer) * per_layer;
      for (std::int32_t source = 0; source < sources; ++source) {
        for (std::int32_t e = 0; e < experts; ++e) {
          counts[at++] = static_cast<std::uint32_t>(now.at(RankId(source), ExpertId(e)));
        }
      }
    }
  }
  std::vector<std::int64_t> iterations(static_cast<std::size_t>(s.iterations));
  std::iota(iterations.begin(), iterations.end(), std::int64_t{0});
  return {std::move(iterations), s.layers, sources, experts, std::move(counts)};
}

}  // namespace moeplan::tests
