// What ranks could gain by working in orders of their own, which a Program, one text for all ranks, does not say. The
// exchanges of an MoE layer join all ranks, so their order is one; computation between them could differ.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>

#include "model/base/random.hpp"
#include "planner/ordering/exact_order.hpp"

namespace moeplan::tests::orders_by_rank_test {

using namespace moeplan::planner;

namespace {

/// A layer in chunks on ranks: all-to-all there, experts, all-to-all back; backward also weight gradients, which nobody
/// waits for. Times in ps.
struct Layer {
  std::vector<std::int64_t> there, back;                // by chunk
  std::vector<std::vector<std::int64_t>> experts;       // by chunk and rank
  std::vector<std::vector<std::int64_t>> weights = {};  // the same

  [[nodiscard]] std::size_t chunks() const { return there.size(); }
  [[nodiscard]] std::size_t ranks() const { return experts.front().size(); }
};

/// A rank's computations: that of chunk i, and its weight gradients, chunks() + i.
using Order = std::vector<std::size_t>;

/// Stream 0 is the network's, stream r + 1 rank r's. With an order, all ranks compute in it.
OrderProblem problem(const Layer& l, const Order* order) {
  OrderProblem p;
  const auto add = [&](std::int64_t time, std::size_t stream, std::vector<std::int32_t> after) {
    p.push_back({SimTime(time), static_cast<std::int32_t>(stream), std::move(after)});
    return static_cast<std::int32_t>(p.size()) - 1;
  };
  std::vector<std::int32_t> dispatched;
  for (const std::int64_t time : l.there) dispatched.push_back(add(time, 0, {}));
  Order listed(l.chunks() * (l.weights.empty() ? 1 : 2));
  std::iota(listed.begin(), listed.end(), std::size_t{0});
  std::vector<std::vector<std::int32_t>> computed(l.chunks());
  for (std::size_t r = 0; r < l.ranks(); ++r) {
    std::vector<std::int32_t> experts(l.chunks());
    std::int32_t before = -1;
    for (const std::size_t task : order ? *order : listed) {
      const std::size_t c = task % l.chunks();
      const bool is_weights = task >= l.chunks();
      std::vector<std::int32_t> after{is_weights ? experts[c] : dispatched[c]};
      if (order && before >= 0 && before != after.front()) after.push_back(before);
      before = add(is_weights ? l.weights[c][r] : l.experts[c][r], r + 1, after);
      if (!is_weights) computed[c].push_back(experts[c] = before);
    }
  }
  for (std::size_t c = 0; c < l.chunks(); ++c) add(l.back[c], 0, computed[c]);
  return p;
}

/// With one order for all ranks, the best of all of them.
SimTime in_one_order(const Layer& l) {
  Order order(l.chunks() * (l.weights.empty() ? 1 : 2));
  std::iota(order.begin(), order.end(), std::size_t{0});
  SimTime best(std::numeric_limits<std::int64_t>::max());
  do {
    bool is_possible = true;  // weight gradients come after what they need
    for (std::size_t c = 0; c < l.chunks() && !l.weights.empty(); ++c) {
      is_possible = is_possible &&
                    std::find(order.begin(), order.end(), c) < std::find(order.begin(), order.end(), c + l.chunks());
    }
    if (!is_possible) continue;
    const OrderResult found = exact_order(problem(l, &order));
    REQUIRE(found.proved);
    best = std::min(best, found.makespan);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

SimTime in_own_orders(const Layer& l) {
  const OrderResult found = exact_order(problem(l, nullptr));
  REQUIRE(found.proved);
  return found.makespan;
}

/// `alike`: every chunk takes a rank as long, and the network too.
Layer random_layer(Random& random, bool alike, bool backward) {
  const auto below = [&](std::uint64_t n) { return 1 + static_cast<std::int64_t>(random.below(n)); };
  const std::size_t chunks = backward ? 2 : 2 + random.below(2), ranks = 2 + random.below(2);
  Layer l;
  std::vector<std::int64_t> load;
  for (std::size_t r = 0; r < ranks; ++r) load.push_back(below(40));
  const std::int64_t there = below(30), back = below(30);
  for (std::size_t c = 0; c < chunks; ++c) {
    l.there.push_back(alike ? there : below(30));
    l.back.push_back(alike ? back : below(30));
    auto& experts = l.experts.emplace_back();
    for (std::size_t r = 0; r < ranks; ++r) experts.push_back(alike ? load[r] : below(40));
    if (backward) l.weights.push_back(experts);
  }
  return l;
}

}  // namespace

TEST_CASE("Orders that differ by rank gain nothing where every chunk is the same share of a rank's load") {
  // The exchanges' order being one for all, ranks that get every chunk at the same moments and take as long for each
  // have no reason to take them in another order; uneven loads between ranks do not change that.
  Random random(1);
  for (int i = 0; i < 600; ++i) {
    const Layer l = random_layer(random, /*alike=*/true, /*backward=*/i % 3 == 0);
    CAPTURE(i);
    CHECK(in_own_orders(l) == in_one_order(l));
  }
}

TEST_CASE("Where chunks fall unevenly on ranks, orders that differ by rank gain little", "[slow]") {
  Random random(2);
  double most = 0, sum = 0;
  int gains = 0;
  constexpr int kLayers = 1500;
  for (int i = 0; i < kLayers; ++i) {
    const Layer l = random_layer(random, /*alike=*/false, /*backward=*/i % 3 == 0);
    const SimTime own = in_own_orders(l), one = in_one_order(l);
    CHECK(own <= one);
    const double gain = static_cast<double>(one.picoseconds()) / static_cast<double>(own.picoseconds()) - 1;
    gains += gain > 0 ? 1 : 0;
    sum += gain;
    most = std::max(most, gain);
  }
  WARN(fmt::format("orders by rank gain in {} of {} layers, {:.2f}% on average and {:.1f}% at most", gains, kLayers,
                   100 * sum / kLayers, 100 * most));
  CHECK(sum / kLayers < 0.01);
}

}  // namespace moeplan::tests::orders_by_rank_test
