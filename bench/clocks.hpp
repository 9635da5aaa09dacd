// Wall and CPU clocks of the benchmarks.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>  // also POSIX's clock_gettime
#include <limits>

namespace moeplan::bench {

/// CPU seconds of this process over all threads: less noisy than wall time on a shared machine.
inline double cpu_s() {
  std::timespec t{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

/// Wall and CPU time in seconds.
struct Times {
  double wall_s;
  double cpu_s;
};

/// The times of one call.
template <class Call>
Times times_of(const Call& call) {
  const double cpu = cpu_s();
  const auto start = std::chrono::steady_clock::now();
  call();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  return {wall.count(), cpu_s() - cpu};
}

/// The minimum times over several calls: as many as fit into `budget_s` seconds of CPU time, at least one.
template <class Call>
Times least_times_of(const Call& call, double budget_s) {
  Times least{std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const double end = cpu_s() + budget_s;
  do {
    const Times t = times_of(call);
    least = {std::min(least.wall_s, t.wall_s), std::min(least.cpu_s, t.cpu_s)};
  } while (cpu_s() < end);
  return least;
}

}  // namespace moeplan::bench
