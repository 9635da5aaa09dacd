#include "cuda_runtime/validate/run_on_gpus.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "cuda_runtime/launch/rank_store.hpp"
#include "cuda_runtime/validate/launch.hpp"
#include "model/base/diagnostics.hpp"

namespace moeplan::validate {

std::optional<std::filesystem::path> find_cuda_worker() {
  std::filesystem::path worker = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "moeplan-cuda-worker";
  return std::filesystem::exists(worker) ? std::optional(std::move(worker)) : std::nullopt;
}

JobRun run_on_gpus(const ExecuteJob& job, std::int64_t ranks_per_gpu, bool quiet, const OnCase& on_case) {
  const std::optional<std::filesystem::path> worker = find_cuda_worker();
  if (!worker)
    throw InputError(Diagnostic{{"--backend"}, "", "nccl is not built: CUDA or NCCL was missing (docs/cuda.md)"});
  const ScratchDirectory scratch;
  const std::filesystem::path job_file = scratch.path() / "job.yaml", answer = scratch.path() / "answer.json";
  write_job(job_file, job);
  const std::vector<std::string> command{worker->string(), job_file.string(), answer.string(),
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
