#include "model/base/random.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::random_test {

namespace {

struct Moments {
  double mean;
  double variance;
};

template <class Draw>
Moments moments(int n, Draw draw) {
  double sum = 0, squares = 0;
  for (int i = 0; i < n; ++i) {
    const double x = draw();
    sum += x;
    squares += x * x;
  }
  return {sum / n, squares / n - sum / n * sum / n};
}

}  // namespace

TEST_CASE("Random bits are those of SplitMix64, on every platform") {
  // Vigna's splitmix64.c, written again: its first outputs for the state that a seed and stream begin with.
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  };
  for (const std::uint64_t seed : {0ULL, 1ULL, 20261121ULL}) {
    for (const std::uint64_t stream : {0ULL, 1ULL, 7ULL}) {
      Random random(seed, stream);
      std::uint64_t state = mix(mix(seed) + stream);
      for (int i = 0; i < 5; ++i) {
        state += 0x9e3779b97f4a7c15ULL;
        CHECK(random.bits() == mix(state));
      }
    }
  }
  // State 0 begins with this number in the published code's own test vector.
  CHECK(Random(0).bits() == 0xe220a8397b1dcdafULL);
}

TEST_CASE("Draws have the distribution that they are named after") {
  constexpr int kDraws = 20'000;
  // Each tolerance is five standard errors of the statistic.
  const auto close = [](double got, double expected, double variance) {
    return std::abs(got - expected) < 5 * std::sqrt(variance / kDraws);
  };
  SECTION("uniform: mean 1/2, variance 1/12") {
    Random random(3);
    const Moments m = moments(kDraws, [&] { return random.uniform(); });
    CHECK(close(m.mean, 0.5, 1.0 / 12));
    CHECK(close(m.variance, 1.0 / 12, 1.0 / 180));
  }
  SECTION("normal: mean 0, variance 1") {
    Random random(4);
    const Moments m = moments(kDraws, [&] { return random.normal(); });
    CHECK(close(m.mean, 0, 1));
    CHECK(close(m.variance, 1, 2));
  }
  SECTION("binomial: mean n p, variance n p (1 - p), small, skewed and beyond the exact range") {
    struct Case {
      std::int64_t n;
      double p;
    };
    for (const auto& [n, p] :
         {Case{5, 0.3}, Case{1000, 0.002}, Case{32768, 1.0 / 256}, Case{100, 0.9}, Case{100'000'000, 0.4}}) {
      Random random(5);
      const double nd = static_cast<double>(n), variance = nd * p * (1 - p);
      const Moments m = moments(kDraws, [&] { return static_cast<double>(random.binomial(n, p)); });
      INFO(n << " trials of " << p << ": mean " << m.mean << ", variance " << m.variance);
      CHECK(close(m.mean, nd * p, variance));
      CHECK(m.variance == Approx(variance).epsilon(0.06));
    }
  }
  SECTION("binomial: every outcome of three coins as often as it should be") {
    Random random(6);
    std::vector<int> seen(4);
    for (int i = 0; i < kDraws; ++i) ++seen[static_cast<std::size_t>(random.binomial(3, 0.5))];
    const std::vector<double> expected{1.0 / 8, 3.0 / 8, 3.0 / 8, 1.0 / 8};
    for (std::size_t i = 0; i < 4; ++i) CHECK(close(seen[i] / static_cast<double>(kDraws), expected[i], expected[i]));
  }
  rc::prop("binomial stays in its range, permutations are permutations, below(n) is below n", [](std::uint64_t seed) {
    Random random(seed);
    const auto n = *rc::gen::inRange<std::int64_t>(0, 1'000'000'000'000);
    const double p = random.uniform() * 1.2 - 0.1;
    const std::int64_t successes = random.binomial(n, p);
    RC_ASSERT(successes >= 0 && successes <= n);
    std::vector<std::size_t> order = random.permutation(*rc::gen::inRange<std::size_t>(0, 50));
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) RC_ASSERT(order[i] == i);
    const std::uint64_t bound = 1 + (seed >> (seed % 64));
    RC_ASSERT(random.below(bound == 0 ? 1 : bound) < (bound == 0 ? 1 : bound));
  });
}

}  // namespace moeplan::tests::random_test
