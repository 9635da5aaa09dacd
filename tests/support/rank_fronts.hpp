// Dividing the experts of one node among its ranks where two sums count: the largest load of a rank, and the largest
// traffic that its NIC takes in. Both are wanted small, so the answer is a front: the divisions of which none is worse
// in both. Ranks are equal here; a division is a partition, found bin by bin as in exact_load().
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan {

/// Nodes of a search, over all its parts.
struct SearchBudget {
  std::int64_t most;
  std::int64_t used = 0;

  [[nodiscard]] bool is_spent() const { return used >= most; }
};

struct ExpertWeights {
  std::int64_t load;
  std::int64_t far;  // tokens from other nodes
};

/// What a layer takes at least in which a rank has so much. Linear in the larger of what it has and of what holds
/// anyway.
struct PriceFloor {
  double computes, exchanges;  // how often a layer does either
  Seconds token_time;          // computing one
  Seconds far_time;            // one from another node through the NIC
  Seconds compute{};           // each takes at least so long, wherever the experts are
  Seconds exchange{};

  [[nodiscard]] Seconds operator()(std::int64_t load, std::int64_t far) const {
    return computes * std::max(compute, static_cast<double>(load) * token_time) +
           exchanges * std::max(exchange, static_cast<double>(far) * far_time);
  }
};

struct RankFront {
  struct Point {
    std::int64_t load, far;           // the largest of a rank
    std::vector<std::int64_t> ranks;  // by expert
  };
  std::vector<Point> points;
  bool is_complete = true;  // false: the budget ended, others may be missing
};

/// Those whose floor is below `limit`: by falling load. At most kMostExactExperts experts, `slots` of them on a rank;
/// they fit.
[[nodiscard]] RankFront rank_front(std::span<const ExpertWeights> experts, std::int64_t ranks, std::int64_t slots,
                                   const PriceFloor& floor, Seconds limit, SearchBudget& budget);

}  // namespace moeplan
