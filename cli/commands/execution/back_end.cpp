#include "cli/commands/execution/back_end.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cuda_runtime/validate/run_on_gpus.hpp"

namespace moeplan::cli {

validate::JobRun execute(const BackEnd& on, const validate::ExecuteJob& job, std::int64_t ranks,
                         const validate::OnCase& on_case) {
  if (on.name == "host") return validate::run_on_host(job, ranks, on.quiet, on_case);
  return validate::run_on_gpus(job, on.ranks_per_gpu, on.quiet, on_case);
}

Hardware hardware_of(const BackEnd& on, const validate::Answer& answer) {
  return {on.name, answer.processor.name, answer.processor.count, answer.hosts,
          on.name == "nccl" ? answer.clocks.text() : ""};
}

std::optional<ExitCode> ended_early(const validate::JobRun& run) {
  switch (run.end) {
    case validate::JobEnd::Done: return std::nullopt;
    case validate::JobEnd::NotMine: return ExitCode::Done;
    case validate::JobEnd::Failed: fmt::print(stderr, "{}\n", run.problem); return ExitCode::FailedCheck;
    case validate::JobEnd::Interrupted: fmt::print(stderr, "{}\n", run.problem); return ExitCode::Interrupted;
  }
  return std::nullopt;
}

}  // namespace moeplan::cli
