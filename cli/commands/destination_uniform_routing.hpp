// Same-popularity traffic by name: `--routing zipf:1.0`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/workload/routing.hpp"

namespace moeplan::cli {

/// `SHAPE`, `SHAPE:NUMBER` (the number that the shape is about: zipf_exponent, lognormal_sigma, hot_factor, zero_load's
/// hot_fraction) or a map as in a workload's `routing:`, e.g. `{shape: zipf, zipf_exponent: 1.0, seed: 3}`. Raises
/// InputError with everything that is wrong, and for routings that differ between sources (ragged, sampled).
[[nodiscard]] RoutingScenario parse_column_routing(const std::string& text);

/// What a rank sends to each rank, of `size` bytes: one expert a rank, every byte a selection of its own
/// (make_routing). The scenario is the same for all sources; `size` divides by the ranks where it is `balanced`.
[[nodiscard]] std::vector<double> column_bytes(const RoutingScenario& scenario, std::int64_t ranks, std::int64_t size);

}  // namespace moeplan::cli
