// Random numbers for tests of task ordering.
#pragma once

#include <rapidcheck.h>

#include <array>
#include <cstdint>

#include "planner/layer/chunk_order.hpp"

namespace moeplan::tests {

using namespace planner;

/// A random number in [first, last]; the first cases already cover the whole range.
inline std::int64_t in_range(std::int64_t first, std::int64_t last) {
  return *rc::gen::resize(rc::kNominalSize, rc::gen::inRange(first, last + 1));
}

/// The numbers as task durations in picoseconds.
inline std::array<SimTime, kChunkTasks> picoseconds(const std::array<std::int64_t, kChunkTasks>& numbers) {
  std::array<SimTime, kChunkTasks> out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = SimTime(numbers[i]);
  return out;
}

}  // namespace moeplan::tests
