// The experts (or slots of placed experts) that a rank holds.
#pragma once

#include <cstdint>

#include "model/program/program.hpp"

namespace moeplan {

/// A contiguous range of experts.
struct ExpertRange {
  std::int64_t first = 0;
  std::int64_t last = 0;  // one past the last
  [[nodiscard]] std::int64_t size() const { return last - first; }
};

/// The experts (or slots) that `rank` holds (share_begin).
[[nodiscard]] ExpertRange local_experts(const Program& program, RoutingId routing, RankId rank);

}  // namespace moeplan
