// All-to-all traffic for the benchmarks, like the reference matrices of the tests: every rank has 4,096 tokens of
// 16 KiB; popularity of destination k is as 1 / (k + 1) in a shuffled order (uniform: all equal).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/traffic/traffic.hpp"

namespace moeplan::bench {

using namespace sim;

/// KIND: `zipf` sends the expected bytes, `zipfs` draws each token, `zipfj` makes each size of zipfs up to 10% larger.
[[nodiscard]] TrafficMatrix generated_traffic(const std::string& kind, int ranks);

struct TrafficCase {
  std::string name;
  TrafficMatrix matrix;
};

/// One case of a command line: a KIND and its number of ranks, or `file` and the path of a traffic file.
[[nodiscard]] TrafficCase traffic_case(const std::string& kind, const std::string& what);

}  // namespace moeplan::bench
