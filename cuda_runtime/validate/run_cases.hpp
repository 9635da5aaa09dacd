// The execution of jobs on the host back end: writes the job, starts the ranks and reads their answer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cuda_runtime/validate/case_log.hpp"
#include "cuda_runtime/validate/job.hpp"
#include "cuda_runtime/validate/launch.hpp"

namespace moeplan::validate {

struct RankSetup {
  ExecuteLimits limits;
  std::int64_t ranks_per_core = 4;  // limit of ranks per core of this host
  bool quiet = false;
};

/// The outcome of a job.
enum class JobEnd { Done, Failed, Interrupted, NotMine };
struct JobRun {
  JobEnd end;  // NotMine: a rank other than 0 under mpirun or srun, with nothing to report
  Answer answer;
  std::string command;  // that started the ranks; "" if they were already started
  std::string problem;
};

/// Starts ranks and waits for their end. The answer is read from `answer`, its cases meanwhile from the log next to it.
[[nodiscard]] JobRun launched(const std::vector<std::string>& command, const std::filesystem::path& board,
                              const std::filesystem::path& answer, const ExecuteJob& job, bool quiet,
                              const OnCase& on_case, JobRun run);

/// The job file of the ranks, and the time after which they are late: a generous bound on start-up, values and timed
/// executions.
void write_job(const std::filesystem::path& file, const ExecuteJob& job);
[[nodiscard]] Seconds time_limit(const ExecuteJob& job);
/// Raises InputError if this host allows too few ranks, or if the job of mpirun or srun has a different number: states
/// how many are needed, and which --scale would help.
void check_ranks(const planner::LayerCase& layer, const RankSetup& setup);

/// Raises InputError if the layer exceeds this host's memory or cannot complete within time_limit(): states what is
/// needed, what is available, and which --scale would help. Not checked for ranks started by mpirun or srun.
void check_size(const planner::LayerCase& layer, const RankSetup& setup);

/// Executes a job with this number of ranks. Starts them on this host and prints the command on standard error or,
/// under mpirun or srun, uses the ranks of its job. `on_case` is called for each case as soon as it is finished.
[[nodiscard]] JobRun run_on_host(const ExecuteJob& job, std::int64_t ranks, bool quiet, const OnCase& on_case = {});

}  // namespace moeplan::validate
