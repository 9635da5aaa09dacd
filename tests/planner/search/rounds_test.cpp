#include "planner/search/rounds.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>

#include "model/base/random.hpp"

namespace moeplan::tests::rounds_test {

using namespace moeplan::planner;

namespace {

/// Bounds, some of them equal, and rough ones that are no larger.
struct Bounds {
  std::vector<Seconds> rough, refined;
};

Bounds bounds(std::uint64_t seed) {
  Random random(seed);
  Bounds out;
  for (int i = 0; i < 200; ++i) {
    const double refined = std::floor(50 * random.uniform());
    out.refined.emplace_back(refined);
    out.rough.emplace_back(refined * random.uniform());
  }
  return out;
}

}  // namespace

TEST_CASE("Rounds by rough bounds evaluate what rounds by refined bounds do, in the same order") {
  const auto seed = static_cast<std::uint64_t>(GENERATE(range(0, 20)));
  const Bounds b = bounds(seed);
  // An item is beaten once four of those that were evaluated are not slower than its bound; it takes up to 30 longer.
  Random random(seed + 1000);
  std::vector<double> times;
  for (const Seconds bound : b.refined) times.push_back(bound.value() + 30 * random.uniform());
  std::vector<double> found;
  std::vector<std::size_t> order;
  const auto beats = [&](Seconds bound) {
    return std::count_if(found.begin(), found.end(), [&](double t) { return t <= bound.value(); }) >= 4;
  };
  const auto evaluate = [&](std::span<const std::size_t> items) {
    CHECK(items.size() <= kRound);
    for (const std::size_t i : items) {
      order.push_back(i);
      found.push_back(times[i]);
    }
  };
  in_rounds(
      by_bound(b.refined), kAllItems, [&](std::size_t i) { return beats(b.refined[i]); }, evaluate);
  const std::vector<std::size_t> expected = std::move(order);
  order.clear();
  found.clear();
  std::vector<Seconds> known = b.rough;
  const int levels = GENERATE(1, 2);
  std::vector<int> level(known.size(), 0);
  std::size_t refined = 0, left = known.size();
  in_rounds_by_bound(
      known, [&](std::size_t i) { return level[i] < levels; }, [&](std::size_t i) { return beats(known[i]); },
      [&](std::span<const std::size_t> items) {
        for (const std::size_t i : items) {
          CHECK(level[i] < levels);
          const bool is_last = ++level[i] == levels;
          refined += is_last ? 1 : 0;
          known[i] = is_last ? b.refined[i] : (b.rough[i] + b.refined[i]) * 0.5;
        }
      },
      evaluate, [&](std::size_t waiting) { left = waiting; });
  CHECK(order == expected);
  CHECK(refined >= order.size());
  CHECK(refined < known.size());
  CHECK(left == 0);
}

}  // namespace moeplan::tests::rounds_test
