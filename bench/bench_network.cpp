// How long one all-to-all takes to simulate, on traffic like the reference matrices of the tests:
//
//   bench_network                      the standard table
//   bench_network KIND RANKS ...       uniform | zipf | zipfs | zipfj, generated
//   bench_network file PATH ...        a traffic file
//
// Generated traffic: every rank has 4,096 tokens of 16 KiB; popularity of destination k is as 1 / (k + 1) in a shuffled
// order. zipf sends the expected bytes, zipfs draws each token, zipfj makes each size of zipfs up to 10% larger.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <numeric>
#include <random>
#include <string>

#include "sim/traffic.hpp"
#include "sim/traffic_file.hpp"
#include "tests/sim/reference_machine.hpp"

namespace {

using namespace moeplan;

constexpr int kTokens = 4096;
constexpr double kTokenBytes = 16384;

double unit(std::mt19937_64& bits) { return static_cast<double>(bits() >> 11U) * 0x1p-53; }

TrafficMatrix generated(const std::string& kind, int ranks) {
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

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

const char* name(TrafficMethod method) {
  if (method == TrafficMethod::Decoupled) return "decoupled";
  return method == TrafficMethod::Classes ? "classes" : "flows";
}

/// Memory is the growth of the process's peak: right for the first row of a process, and while rows grow.
void measure(const std::string& label, const TrafficMatrix& matrix) {
  const TrafficNetwork network = reference_machine(matrix.ranks);
  const double before = peak_bytes();
  const auto start = std::chrono::steady_clock::now();
  const std::clock_t cpu_start = std::clock();
  const TrafficResult result = simulate_traffic(matrix, network, false);
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  const double cpu = static_cast<double>(std::clock() - cpu_start) / CLOCKS_PER_SEC;
  fmt::print(
      "{:14} {:>9} flows {:>9} {:>9} {:>9.4f} s ({:.4f} s CPU) {:>6.1f} B/flow  finish {:.12g} s  sum {:.12g} s\n",
      label, matrix.flows.size(), result.classes, name(result.method), wall.count(), cpu,
      (peak_bytes() - before) / static_cast<double>(std::max<std::size_t>(matrix.flows.size(), 1)), result.finish_s,
      result.sum_flow_finish_s);
  std::fflush(stdout);
}

void run(const std::string& kind, const std::string& what) {
  if (kind == "file") return measure(what.substr(what.rfind('/') + 1), read_traffic(what).matrix);
  measure(kind + "-" + what, generated(kind, std::stoi(what)));
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string> words(argv + 1, argv + argc);
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) run(words[i], words[i + 1]);
  if (!words.empty()) return 0;
  for (const auto& [kind, ranks] : {std::pair("uniform", "512"),
                                    {"zipf", "512"},
                                    {"zipfs", "256"},
                                    {"zipfs", "512"},
                                    {"zipfj", "256"},
                                    {"uniform", "2048"},
                                    {"zipf", "4096"},
                                    {"zipfs", "4096"}}) {
    run(kind, ranks);
  }
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 2;
}
