// Branch and bound in rounds of fixed size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <vector>

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

}  // namespace moeplan::planner
