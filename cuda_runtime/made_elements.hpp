// Elements of a buffer that become made values (kernels/made_values.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda_runtime/kernels/made_values.hpp"

namespace moeplan::runtime {

/// The fields are those of kernels::MakeValues.
struct MadeElements {
  float mean = 0, scale = 1;
  std::int64_t columns = 0, first_column = 0;
  std::vector<kernels::MadeRun> runs = {};

  /// Appends a run, cut into pieces that a block of threads makes in a few rounds.
  void append(kernels::MadeRun run) {
    while (run.count > 0) {
      runs.push_back(run);
      runs.back().count = std::min(run.count, kernels::kLongestPiece);
      run = after(run, runs.back().count);
    }
  }

  /// The kernel that makes them: `count` of the runs, in the memory of `buffer`.
  [[nodiscard]] kernels::MakeValues call(const kernels::View& buffer, const kernels::MadeRun* some,
                                         std::int64_t count) const {
    return {buffer, some, count, mean, scale, columns, first_column};
  }

  /// The rest of a run after its first `count` elements.
  [[nodiscard]] static kernels::MadeRun after(const kernels::MadeRun& run, std::int64_t count) {
    return {run.to + count, run.count - count, run.first + static_cast<std::uint64_t>(count),
            run.one < count ? -1 : run.one - count};
  }
  /// The part of a run that is within elements `begin` to `end` - 1.
  [[nodiscard]] static kernels::MadeRun within(kernels::MadeRun run, std::int64_t begin, std::int64_t end) {
    if (run.to < begin) run = after(run, std::min(run.count, begin - run.to));
    run.count = std::clamp<std::int64_t>(end - run.to, 0, run.count);
    return run;
  }
};

}  // namespace moeplan::runtime
