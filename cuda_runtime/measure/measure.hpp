// The execution of the benchmarks on one rank, on any back end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/measure/benchmarks.hpp"

namespace moeplan::runtime {

/// The result of one benchmark.
struct Measured {
  double median = 0;  // seconds
  double low = 0;     // 95 % confidence interval of the median, in seconds;
  double high = 0;    // equal to the median if there are too few executions
  std::int64_t runs = 0;
  std::string stopped_by;  // a name of kStopReasonNames
};

/// Executes the benchmarks. Collective: all ranks call it with the same arguments. Returns the results by benchmark on
/// rank 0, and an empty vector on the others. Every benchmark gets an equal part of the budget. Raises ExecutionError.
[[nodiscard]] std::vector<Measured> measure(const std::vector<Benchmark>& benchmarks, Seconds budget, Peers& peers,
                                            const std::function<std::unique_ptr<Backend>()>& make_backend);

}  // namespace moeplan::runtime
