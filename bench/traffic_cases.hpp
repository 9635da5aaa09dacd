// All-to-all traffic for the benchmarks, generated like the reference matrices of the tests: every rank has 4,096
// tokens of 16 KiB; the popularity of destination k is proportional to 1 / (k + 1) in a shuffled order (uniform: all
// equal).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/traffic/traffic.hpp"

namespace moeplan::bench {

using namespace sim;

/// The traffic of one kind: `uniform`; `zipf`, the expected bytes; `zipfs`, with every token drawn at random; `zipfj`,
/// zipfs with each size increased by up to 10%.
[[nodiscard]] TrafficMatrix generated_traffic(const std::string& kind, int ranks);

/// A traffic matrix with a name for the table.
struct TrafficCase {
  std::string name;
  TrafficMatrix matrix;
};

/// A case given on the command line: a kind and its number of ranks, or `file` and the path of a traffic file.
[[nodiscard]] TrafficCase traffic_case(const std::string& kind, const std::string& what);

}  // namespace moeplan::bench
