// Benchmark of the exact search for the order of an MoE layer's chunk tasks: states and CPU time.
//
//   bench_exact_order [INSTANCES]    one row per kind of layer and number of chunks, over INSTANCES random instances
//
// Kinds of layers: `assumed`, encode, exchange and decode take equal times in dispatch and combine ([ScheMoE]'s
// assumption); `free`, all seven times are independent; `unequal`, every task of every chunk has an independent time;
// `two links`, dispatch and combine use separate streams.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <string>
#include <vector>

#include "model/base/random.hpp"
#include "planner/layer/chunk_order.hpp"
#include "planner/ordering/exact_order.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::planner;

/// A random time of random magnitude, so that either stream can be the busiest.
SimTime any(Random& random) {
  return SimTime(1 + static_cast<std::int64_t>(random.below(std::uint64_t{1} << random.below(21))));
}

OrderProblem instance(const std::string& kind, std::int64_t chunks, Random& random) {
  std::array<SimTime, kChunkTasks> times;
  for (SimTime& t : times) t = any(random);
  if (kind == "assumed") {
    for (const std::size_t k : {0U, 1U, 2U}) times[4 + k] = times[k];
  }
  OrderProblem problem = opt_sche_problem(chunks, times);
  for (std::size_t i = 0; i < problem.size(); ++i) {
    if (kind == "unequal") problem[i].duration = any(random);
    if (kind == "two links" && i % kChunkTasks == static_cast<std::size_t>(ChunkTask::Combine)) problem[i].stream = 2;
  }
  return problem;
}

}  // namespace

int main(int argc, char** argv) {
  const int instances = argc > 1 ? std::stoi(argv[1]) : 100;
  fmt::print("{:10} {:>6} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8} {:>14}\n", "layer", "chunks", "proved", "states",
             "most", "ms CPU", "most ms", "better", "OptSche / best");
  for (const std::string kind : {"assumed", "free", "two links", "unequal"}) {
    for (std::int64_t chunks = 1; chunks <= 6; ++chunks) {
      Random random(20261121, static_cast<std::uint64_t>(chunks));
      std::int64_t proved = 0, states = 0, most_states = 0, better = 0;
      double ms = 0, most_ms = 0, ratio = 0;
      for (int i = 0; i < instances; ++i) {
        const OrderProblem problem = instance(kind, chunks, random);
        const std::clock_t start = std::clock();
        const OrderResult result = exact_order(problem);
        const double taken = 1e3 * static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
        const SimTime listed = order_makespan(problem, opt_sche_order(chunks));
        proved += result.proved ? 1 : 0;
        states += result.nodes;
        most_states = std::max(most_states, result.nodes);
        ms += taken;
        most_ms = std::max(most_ms, taken);
        better += result.makespan < listed ? 1 : 0;
        ratio = std::max(ratio, listed.seconds() / result.makespan.seconds());
      }
      fmt::print("{:10} {:>6} {:>5.1f}% {:>10.0f} {:>10} {:>10.3f} {:>10.3f} {:>7.0f}% {:>14.3f}\n", kind, chunks,
                 100.0 * static_cast<double>(proved) / instances, static_cast<double>(states) / instances, most_states,
                 ms / instances, most_ms, 100.0 * static_cast<double>(better) / instances, ratio);
      std::fflush(stdout);
    }
  }
}
