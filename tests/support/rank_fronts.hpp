// The Pareto front of divisions of one node's experts among its ranks under two objectives, both minimised: the largest
// load of a rank, and the largest traffic into a rank's NIC. Ranks are interchangeable here; a division is a partition,
// searched bin by bin as in exact_load().
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::planner {

/// A limit on the number of search nodes, shared by all parts of a search.
struct SearchBudget {
  std::int64_t most;
  std::int64_t used = 0;

  [[nodiscard]] bool is_spent() const { return used >= most; }
};

/// The tokens of one expert.
struct ExpertWeights {
  std::int64_t load;
  std::int64_t far;  // tokens from other nodes
};

/// A lower bound on the time of a layer in which some rank has a given load and a given traffic from other nodes. Each
/// term is linear above a minimum that holds for every placement.
struct PriceFloor {
  double computes, exchanges;  // number of computations and exchanges per layer
  Seconds token_time;          // computation time per token
  Seconds far_time;            // NIC time per token from another node
  Seconds compute{};           // minimum time of a computation, for every placement
  Seconds exchange{};          // minimum time of an exchange, for every placement

  [[nodiscard]] Seconds operator()(std::int64_t load, std::int64_t far) const {
    return computes * std::max(compute, static_cast<double>(load) * token_time) +
           exchanges * std::max(exchange, static_cast<double>(far) * far_time);
  }
};

/// A Pareto front of divisions.
struct RankFront {
  struct Point {
    std::int64_t load, far;           // the largest values over the ranks, in tokens
    std::vector<std::int64_t> ranks;  // by expert
  };
  std::vector<Point> points;
  bool is_complete = true;  // false: the budget was exhausted, points may be missing
};

/// The points of the front whose lower bound `floor` is below `limit`, in order of decreasing load. At most
/// kMostExactExperts experts, at most `slots` on each rank; the experts must fit.
[[nodiscard]] RankFront rank_front(std::span<const ExpertWeights> experts, std::int64_t ranks, std::int64_t slots,
                                   const PriceFloor& floor, Seconds limit, SearchBudget& budget);

}  // namespace moeplan::planner
