// Destination-uniform traffic generated from a routing scenario: the option `--routing zipf:1.0`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/workload/routing.hpp"

namespace moeplan::cli {

/// Parses `SHAPE`, `SHAPE:NUMBER` (NUMBER is the shape's main parameter: zipf_exponent, lognormal_sigma, hot_factor,
/// zero_load's hot_fraction) or a map as in a workload's `routing:`, e.g. `{shape: zipf, zipf_exponent: 1.0, seed: 3}`.
/// Raises InputError with every error found, and for routings that differ between sources (ragged, sampled).
[[nodiscard]] RoutingScenario parse_column_routing(const std::string& text);

/// The bytes that each rank sends to each destination, `size` in total: one expert per rank, one byte per selection
/// (make_routing). The scenario must be the same for all sources; for `balanced`, `size` must be divisible by the
/// number of ranks.
[[nodiscard]] std::vector<double> column_bytes(const RoutingScenario& scenario, std::int64_t ranks, std::int64_t size);

}  // namespace moeplan::cli
