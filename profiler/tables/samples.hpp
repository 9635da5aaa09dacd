// Samples of measured times, as read from logs and tables.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"
#include "model/costs/measured_cost.hpp"
#include "model/machine/cluster.hpp"

namespace moeplan::profiler {

/// The measured time of one collective without concurrent work.
struct CollectiveSample {
  Collective collective;
  GroupShape shape;
  Bytes n;             // see AlphaBeta; > 0
  Seconds time;        // > 0
  bool in_place;       // without the copy of a rank's own part
  std::string dtype;   // as named by the source; "" if not named
  std::string device;  // as named by the source; "" if not named
  Location where;
};

/// The measured time of one GEMM with an m x n result and k terms per element, launch included.
struct GemmSample {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::string dtype;
  Seconds time;
  Location where;
};

/// The largest number of samples from one source.
inline constexpr std::size_t kMostSamples = 200'000;

/// The samples of one source, notes on what was skipped, one sentence per reason with its line, and the hosts that it
/// names.
struct CollectiveSamples {
  std::vector<CollectiveSample> samples;
  std::vector<Diagnostic> notes;
  std::set<std::string> hosts;
};

}  // namespace moeplan::profiler
