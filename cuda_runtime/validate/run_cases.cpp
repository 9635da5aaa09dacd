#include "cuda_runtime/validate/run_cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <limits>
#include <thread>

#include "cuda_runtime/validate/execution_size.hpp"
#include "cuda_runtime/validate/launch.hpp"
#include "cuda_runtime/validate/status_board.hpp"

namespace moeplan::validate {

namespace {

constexpr const char* kWrittenBy = "# Written by moeplan for the ranks that it starts.\n";

std::int64_t cores() { return std::max<std::int64_t>(1, std::thread::hardware_concurrency()); }

/// The smallest scale at which the layer needs at most `room` ranks, or 0.
std::int64_t helpful_scale(const planner::LayerCase& layer, std::int64_t room) {
  if (!layer.candidate.expert_places.empty()) return 0;
  for (std::int64_t by = 2; by <= layer.candidate.degrees.ep; ++by) {
    if (layer.candidate.degrees.ep % by == 0 && scaled(layer, by).ranks() <= room) return by;
  }
  return 0;
}

}  // namespace

Seconds time_limit(const ExecuteJob& job) {
  const auto cases = static_cast<double>(job.cases.size());
  const Seconds measuring = job.measure ? job.measure->budget * 3 : Seconds(0);
  return Seconds(60) + measuring + (job.limits.budget * 2 + job.limits.time_out * 2) * cases;
}

void write_job(const std::filesystem::path& file, const ExecuteJob& job) {
  write_file_atomically(file, kWrittenBy + to_yaml(job_document(job)));
}

JobRun launched(const std::vector<std::string>& command, const std::filesystem::path& board,
                const std::filesystem::path& answer, const ExecuteJob& job, bool quiet, const OnCase& on_case,
                JobRun run) {
  CaseLogReader log(case_log_file(answer), on_case);
  const auto look = [&] {
    if (on_case) log.read();
  };
  RankProgress progress(quiet, look);
  const Launched launched = launch(command, board, time_limit(job), progress);
  look();
  if (launched.interrupted) return {JobEnd::Interrupted, {}, run.command, "interrupted: all ranks were ended"};
  if (!launched.done) return {JobEnd::Failed, {}, run.command, launched.problem};
  constexpr std::size_t kMostAnswer = std::size_t{1} << 30;
  if (run.end == JobEnd::Done) run.answer = read_answer(read_text_file(answer, kMostAnswer));
  return run;
}

void check_ranks(const planner::LayerCase& layer, const RankSetup& setup) {
  const auto given = started_rank();
  const std::int64_t room = given ? given->ranks : cores() * setup.ranks_per_core;
  if (given ? layer.ranks() == room : layer.ranks() <= room) return;
  const std::string there = given ? fmt::format("mpirun or srun has started {}", room)
                                  : fmt::format("this machine has {} cores for up to {} ranks each (--ranks-per-gpu)",
                                                cores(), setup.ranks_per_core);
  const std::int64_t scale = helpful_scale(layer, room);
  const std::string hint = scale == 0 ? std::string()
                                      : fmt::format("; --scale {} makes it a layer of {} ranks", scale,
                                                    planner::scaled(layer, scale).ranks());
  throw InputError(
      Diagnostic{{"validate"}, "", fmt::format("the layer needs {} ranks; {}{}", layer.ranks(), there, hint)});
}

void check_size(const planner::LayerCase& layer, const RankSetup& setup) {
  if (started_rank()) return;  // on an unknown number of nodes
  const std::optional<Bytes> memory = available_memory();
  constexpr double kValuesAndWarmUps = 3;
  const HostCapacity host{.memory = memory.value_or(Bytes(std::numeric_limits<double>::infinity())),
                          .cores = cores(),
                          .limit = time_limit({.limits = setup.limits, .cases = {layer}}),
                          .runs = kValuesAndWarmUps + static_cast<double>(setup.limits.iterations.value_or(1)),
                          .most_reference_flops = setup.limits.most_reference_flops};
  if (const auto why = why_too_large(layer, host)) throw InputError(Diagnostic{{"validate"}, "", *why});
}

JobRun run_on_host(const ExecuteJob& job, std::int64_t ranks, bool quiet, const OnCase& on_case) {
  const std::filesystem::path worker = installed_worker(kHostWorker);
  const ScratchDirectory scratch;
  const std::filesystem::path job_file = scratch.path() / "job.yaml", answer = scratch.path() / "answer.json";
  write_job(job_file, job);
  std::vector<std::string> command{worker.string(), job_file.string(), answer.string()};
  JobRun out{JobEnd::Done, {}, {}, {}};
  std::filesystem::path board;
  if (const auto given = started_rank()) {
    out.end = given->rank == 0 ? JobEnd::Done : JobEnd::NotMine;
  } else {
    board = scratch.path() / "board";
    make_board(board, ranks);
    command.push_back(board.string());
    command = mpirun_command(ranks, command, scratch.path());
    out.command = fmt::format("{}", fmt::join(command, " "));
    if (!quiet) fmt::print(stderr, "{}\n", out.command);
  }
  return launched(command, board, answer, job, quiet, on_case, std::move(out));
}

}  // namespace moeplan::validate
