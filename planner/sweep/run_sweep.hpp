// Running the cases of a sweep on several threads, each result into the database within a second.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>

#include "planner/sweep/case_runner.hpp"
#include "planner/sweep/sweep_store.hpp"

namespace moeplan::sweep {

struct SweepRun {
  std::int64_t kept = 0;    // cases that were in the database already
  std::int64_t wanted = 0;  // cases of this shard
  std::int64_t ran = 0;     // now
  std::int64_t shared = 0;  // of these, those whose result is that of an equal case
  bool interrupted = false;
  double wall_s = 0;
};

/// Runs what of the shard is not in the store, in order of number. What is written does not depend on `jobs`, except
/// for the order in which rows come in. `progress` is told (done, wanted, kept) from the calling thread. When `stop`
/// becomes true, what is finished is committed and no other case is begun. Raises InputError where the database cannot
/// be written; what was committed before stays.
[[nodiscard]] SweepRun run_sweep(const SweepSpec& sweep, CaseRunner& runner, SweepStore& store, const Shard& shard,
                                 int jobs, const std::atomic<bool>& stop,
                                 const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& progress);

}  // namespace moeplan::sweep
