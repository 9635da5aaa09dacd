// Disjoint sets of numbers that are joined one by one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace moeplan {

class DisjointSets {
 public:
  /// Of the numbers 0 .. n - 1, each a set of its own.
  explicit DisjointSets(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }

  /// The least number of the set of `i`.
  [[nodiscard]] std::size_t least(std::size_t i) {
    while (parent_[i] != i) {
      parent_[i] = parent_[parent_[i]];
      i = parent_[i];
    }
    return i;
  }
  void join(std::size_t a, std::size_t b) {
    a = least(a);
    b = least(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

}  // namespace moeplan
