#include "bench/traffic_cases.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <stdexcept>

#include "sim/traffic/traffic_file.hpp"

namespace moeplan::bench {

using namespace sim;

namespace {

constexpr int kTokens = 4096;
constexpr double kTokenBytes = 16384;

double unit(std::mt19937_64& bits) { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

}  // namespace

TrafficMatrix generated_traffic(const std::string& kind, int ranks) {
  if (kind != "uniform" && kind != "zipf" && kind != "zipfs" && kind != "zipfj") {
    throw std::invalid_argument("no such traffic: " + kind + "; one of uniform, zipf, zipfs, zipfj, file");
  }
  std::mt19937_64 bits(20261121);
  const auto n = static_cast<std::size_t>(ranks);
  std::vector<double> popularity(n, 1.0);
  if (kind != "uniform") {
    for (std::size_t k = 0; k < n; ++k) popularity[k] = 1.0 / static_cast<double>(k + 1);
    for (std::size_t k = n; k > 1; --k) std::swap(popularity[k - 1], popularity[bits() % k]);
  }
  const double sum = std::accumulate(popularity.begin(), popularity.end(), 0.0);
  std::vector<double> cumulative(n);
  std::partial_sum(popularity.begin(), popularity.end(), cumulative.begin());
  TrafficMatrix matrix{ranks, {}};
  std::vector<double> bytes(n);
  for (int s = 0; s < ranks; ++s) {
    for (std::size_t d = 0; d < n; ++d) bytes[d] = std::floor(kTokens * kTokenBytes * popularity[d] / sum);
    if (kind == "zipfs" || kind == "zipfj") {
      std::fill(bytes.begin(), bytes.end(), 0.0);
      for (int t = 0; t < kTokens; ++t) {
        const auto d = std::lower_bound(cumulative.begin(), cumulative.end(), unit(bits) * sum) - cumulative.begin();
        bytes[std::min(static_cast<std::size_t>(d), n - 1)] += kTokenBytes;
      }
    }
    for (std::size_t d = 0; d < n; ++d) {
      if (RankId(d) == RankId(s) || bytes[d] == 0) continue;
      const double jitter = kind == "zipfj" ? 1 + 0.1 * unit(bits) : 1.0;
      matrix.flows.push_back({RankId(s), RankId(d), std::floor(bytes[d] * jitter)});
    }
  }
  matrix.flows.shrink_to_fit();
  return matrix;
}

TrafficCase traffic_case(const std::string& kind, const std::string& what) {
  if (kind != "file") return {kind + "-" + what, generated_traffic(kind, std::stoi(what))};
  std::string name = what.substr(what.rfind('/') + 1);
  return {name.substr(0, name.find('.')), read_traffic(what).matrix};
}

}  // namespace moeplan::bench
