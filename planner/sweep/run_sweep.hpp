// Execution of a sweep's cases on several threads; each result is committed to the database within a second.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "planner/sweep/case_runner.hpp"
#include "planner/sweep/sweep_store.hpp"

namespace moeplan::sweep {

/// A summary of one execution of a sweep.
struct SweepRun {
  std::int64_t kept = 0;    // cases that were already in the database
  std::int64_t wanted = 0;  // cases of this shard
  std::int64_t ran = 0;     // cases finished by this call
  std::int64_t shared = 0;  // cases among these that reused the result of an equal case
  bool interrupted = false;
  double wall_s = 0;
};

/// Runs those cases of the shard that are not in the store, in order of number. The written rows do not depend on
/// `jobs`, except for the order in which they arrive. `progress` receives (done, wanted) on the calling thread.
/// When `stop` becomes true, finished cases are committed and no further case starts. Raises InputError if the database
/// cannot be written; rows committed before remain.
[[nodiscard]] SweepRun run_sweep(const SweepSpec& sweep, CaseRunner& runner, SweepStore& store, const Shard& shard,
                                 int jobs, const std::atomic<bool>& stop,
                                 const std::function<void(std::int64_t, std::int64_t)>& progress);

}  // namespace moeplan::sweep
