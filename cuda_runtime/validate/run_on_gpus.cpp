#include "cuda_runtime/validate/run_on_gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "cuda_runtime/launch/rank_store.hpp"
#include "cuda_runtime/validate/launch.hpp"

namespace moeplan::validate {

JobRun run_on_gpus(const ExecuteJob& job, std::int64_t ranks_per_gpu, bool quiet, const OnCase& on_case) {
  const std::filesystem::path worker = installed_worker(kCudaWorker);
  const ScratchDirectory scratch;
  const std::filesystem::path job_file = scratch.path() / "job.yaml", answer = scratch.path() / "answer.json";
  write_job(job_file, job);
  const std::vector<std::string> command{worker.string(), job_file.string(), answer.string(),
                                         std::to_string(ranks_per_gpu)};
  JobRun out{JobEnd::Done, {}, {}, {}};
  if (const auto place = runtime::rank_place()) {
    if (place->rank != 0) out.end = JobEnd::NotMine;
  } else {
    out.command = fmt::format("{}", fmt::join(command, " "));
    if (!quiet) fmt::print(stderr, "{}\n", out.command);
  }
  return launched(command, {}, answer, job, quiet, on_case, std::move(out));
}

}  // namespace moeplan::validate
