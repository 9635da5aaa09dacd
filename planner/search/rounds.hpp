// Branch and bound in rounds of fixed size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::planner {

inline constexpr std::size_t kRound = 8;       // items evaluated between two prunings
inline constexpr std::size_t kSmallRound = 2;  // of items that take seconds each
inline constexpr std::size_t kAllItems = std::numeric_limits<std::size_t>::max();

/// Evaluates the items `waiting` in their order, at most `most` of them. Before each round the items for which
/// `is_beaten(item)` are dropped for good; `evaluate(items)` then evaluates up to `round` items, in parallel if it
/// likes, and keeps what it finds. `left`, if given, receives the number of items that wait after each round. Pruning
/// depends on rounds, not on threads, so the result does not depend on the number of threads.
template <class IsBeaten, class Evaluate>
void in_rounds(std::vector<std::size_t> waiting, std::size_t most, IsBeaten is_beaten, Evaluate evaluate,
               const std::function<void(std::size_t)>& left = {}, std::size_t round = kRound) {
  std::erase_if(waiting, is_beaten);
  while (!waiting.empty() && most > 0) {
    const std::size_t n = std::min({round, waiting.size(), most});
    evaluate(std::span<const std::size_t>(waiting).first(n));
    most -= n;
    waiting.erase(waiting.begin(), waiting.begin() + static_cast<std::ptrdiff_t>(n));
    std::erase_if(waiting, is_beaten);
    if (left) left(waiting.size());
  }
}

/// Indices by bound, the least first.
inline std::vector<std::size_t> by_bound(const std::vector<Seconds>& bounds) {
  std::vector<std::size_t> order(bounds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bounds[a] < bounds[b]; });
  return order;
}

/// Evaluates items in the order of their bounds, which are rough until it may be an item's turn: then `refine(items)`
/// raises those of some items for which `is_rough(item)`, in parallel if it likes, until none of the next ones is
/// rough. Otherwise as in_rounds(), and with its result for bounds that are refined beforehand, provided that an item
/// once beaten stays so: it is only asked when its turn comes.
template <class IsRough, class IsBeaten, class Refine, class Evaluate>
void in_rounds_by_bound(const std::vector<Seconds>& bounds, IsRough is_rough, IsBeaten is_beaten, Refine refine,
                        Evaluate evaluate, const std::function<void(std::size_t)>& left) {
  constexpr std::size_t kRefined = 4 * kRound;  // at most, at once
  const auto is_behind = [&](std::size_t a, std::size_t b) {
    return bounds[a] != bounds[b] ? bounds[a] > bounds[b] : a > b;
  };
  std::vector<std::size_t> items(bounds.size());
  std::iota(items.begin(), items.end(), std::size_t{0});
  std::priority_queue waiting(is_behind, std::move(items));
  while (true) {
    std::vector<std::size_t> front;
    while (front.size() < kRefined && !waiting.empty()) {
      if (!is_beaten(waiting.top())) front.push_back(waiting.top());
      waiting.pop();
    }
    if (front.empty()) return left(0);
    const auto turn = front.begin() + static_cast<std::ptrdiff_t>(std::min(kRound, front.size()));
    if (std::any_of(front.begin(), turn, is_rough)) {
      std::vector<std::size_t> rough;
      std::copy_if(front.begin(), front.end(), std::back_inserter(rough), is_rough);
      refine(std::span<const std::size_t>(rough));
    } else {
      evaluate(std::span<const std::size_t>(front.begin(), turn));
      front.erase(front.begin(), turn);
    }
    for (const std::size_t i : front) waiting.push(i);
    left(waiting.size());
  }
}

}  // namespace moeplan::planner
