// The difference of the links' traffic of two Timelines.
#pragma once

#include <algorithm>
#include <cmath>

#include "model/analysis/timeline.hpp"

namespace moeplan::tests {

/// Largest relative difference of what links carried.
inline double link_difference(const Timeline& a, const Timeline& b) {
  if (a.links.size() != b.links.size()) return 1;
  double worst = 0;
  for (std::size_t i = 0; i < a.links.size(); ++i) {
    if (a.links[i].link != b.links[i].link) return 1;
    worst = std::max(worst, std::abs(a.links[i].bytes / b.links[i].bytes - 1));
  }
  return worst;
}

}  // namespace moeplan::tests
