// Plans drawn at random over everything that a plan may decide, on machines so small that all of them can be simulated.
#pragma once

#include <string_view>

#include "planner/candidate/candidate.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests {

struct RandomPlan {
  Small small;          // its documents are those that model and workload were varied from
  Candidate candidate;  // feasible: lower_iteration() takes it
};

/// A plan with this schedule. Draws are the same on every platform, up to the last bit of the C library's functions in
/// routing shapes (model/base/random.hpp).
[[nodiscard]] RandomPlan random_plan(Random& random, std::string_view schedule);

}  // namespace moeplan::tests
