// From layers to measured ones: jobs, ranks, answers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cuda_runtime/validate/job.hpp"
#include "cuda_runtime/validate/launch.hpp"

namespace moeplan::validate {

struct RankSetup {
  ExecuteLimits limits;
  std::int64_t ranks_per_core = 4;  // that this machine may be asked to start
  bool quiet = false;
};

/// How ranks ran a job.
enum class JobEnd { Done, Failed, Interrupted, NotMine };
struct JobRun {
  JobEnd end;  // NotMine: under mpirun or srun, on other ranks than 0, which have nothing to report
  Answer answer;
  std::string command;  // that started the ranks; "" where they were started already
  std::string problem;
};

/// What ranks are given, and when they are late: all that values, timed runs and start-up may take, with room.
void write_job(const std::filesystem::path& file, const ExecuteJob& job);
[[nodiscard]] Seconds time_limit(const ExecuteJob& job);
/// `run` with what became of its ranks, and rank 0's answer.
[[nodiscard]] JobRun finished(const Launched& launched, const std::filesystem::path& answer, JobRun run);

/// Raises InputError where this machine has too few ranks, or mpirun's or srun's job another number: how many are
/// needed, and which --scale would help.
void check_ranks(const planner::LayerCase& layer, const RankSetup& setup);

/// Raises InputError where the layer cannot be executed on this machine, for its memory or within time_limit(): what it
/// takes, what there is, and which --scale would help. Nothing is asked of mpirun's or srun's ranks.
void check_size(const planner::LayerCase& layer, const RankSetup& setup);

/// Executes a job of so many ranks. On one machine it starts them, and says the command on standard error; under
/// mpirun or srun they are those of its job.
[[nodiscard]] JobRun run_on_host(const ExecuteJob& job, std::int64_t ranks, bool quiet);
[[nodiscard]] inline JobRun run_on_host(const planner::LayerCase& layer, const RankSetup& setup) {
  return run_on_host({.limits = setup.limits, .cases = {layer}}, layer.ranks(), setup.quiet);
}

}  // namespace moeplan::validate
