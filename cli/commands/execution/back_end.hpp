// The back end on which a command executes jobs.
#pragma once

#include <optional>
#include <string>

#include "cli/commands/commands.hpp"
#include "cli/pages/validate_report.hpp"
#include "cuda_runtime/validate/run_cases.hpp"

namespace moeplan::cli {

struct BackEnd {
  std::string name;                // host: CPU ranks over MPI; nccl: GPUs
  std::int64_t ranks_per_gpu = 4;  // the most that may share a core or a GPU
  bool quiet = false;
  std::optional<BytesPerSecond> link_of_parts = {};  // of the parts of one GPU, if ranks run on these
};

/// The bandwidth given to --gpu-parts; none if it is "". Raises InputError, also for another back end than nccl.
[[nodiscard]] std::optional<BytesPerSecond> link_of_parts(const std::string& option, const std::string& back_end);

/// `ranks`: of the job; on GPUs 0 for one per GPU.
[[nodiscard]] validate::JobRun execute(const BackEnd& on, const validate::ExecuteJob& job, std::int64_t ranks,
                                       const validate::OnCase& on_case = {});

[[nodiscard]] Hardware hardware_of(const BackEnd& on, const validate::Answer& answer);

/// The exit code if the ranks gave no answer, with the problem printed; none if they did.
[[nodiscard]] std::optional<ExitCode> ended_early(const validate::JobRun& run);

}  // namespace moeplan::cli
