// Measured times as the readers of logs and tables give them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"
#include "model/costs/measured_cost.hpp"
#include "model/machine/cluster.hpp"

namespace moeplan::profiler {

/// One collective alone.
struct CollectiveSample {
  Collective collective;
  GroupShape shape;
  Bytes n;             // see AlphaBeta; more than 0
  Seconds time;        // more than 0
  bool in_place;       // without the copy of a rank's own part
  std::string dtype;   // as the source names it; "" where it does not
  std::string device;  // likewise
  Location where;
};

/// One product C[m,n] of k terms, launch included.
struct GemmSample {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  std::string dtype;
  Seconds time;
  Location where;
};

/// Of one source.
inline constexpr std::size_t kMostSamples = 200'000;

/// What a source held, and what of it was left out, one sentence a reason, with its line.
struct CollectiveSamples {
  std::vector<CollectiveSample> samples;
  std::vector<Diagnostic> notes;
};

}  // namespace moeplan::profiler
