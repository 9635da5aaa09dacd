// Benchmark of the simulation of one all-to-all, with traffic like the reference matrices of the tests.
//
//   bench_network                      the standard table
//   bench_network KIND RANKS ...       uniform | zipf | zipfs | zipfj, generated
//   bench_network file PATH ...        a traffic file
//
// Generated traffic: traffic_cases.hpp.
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "bench/traffic_cases.hpp"
#include "sim/traffic/traffic.hpp"
#include "tests/support/reference_cluster.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::sim;

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

const char* name(TrafficMethod method) {
  if (method == TrafficMethod::Decoupled) return "decoupled";
  return method == TrafficMethod::Classes ? "classes" : "flows";
}

/// Memory is the growth of the peak of the process: correct for the first row, and for later rows as long as they need
/// more memory than all rows before.
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
  const bench::TrafficCase c = bench::traffic_case(kind, what);
  measure(c.name, c.matrix);
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
