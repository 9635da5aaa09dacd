// Running the benchmarks as one of the ranks, on any back end.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/measure/benchmarks.hpp"

namespace moeplan::runtime {

/// What was measured of one benchmark.
struct Measured {
  double median = 0;  // seconds
  double low = 0;     // of the median's 95% interval; the median where runs are too few
  double high = 0;
  std::int64_t runs = 0;
  std::string stopped_by;  // a name of kStopReasonNames
};

/// All ranks call it with the same arguments; on rank 0 by benchmark, on the others empty. Every benchmark gets an
/// equal part of the budget. `after_each` is called on every rank, right after it has run. Raises ExecutionError.
[[nodiscard]] std::vector<Measured> measure(const std::vector<Benchmark>& benchmarks, Seconds budget, Peers& peers,
                                            const std::function<std::unique_ptr<Backend>()>& make_backend,
                                            const std::function<void()>& after_each = {});

}  // namespace moeplan::runtime
