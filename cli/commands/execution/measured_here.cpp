#include "cli/commands/execution/measured_here.hpp"

#include <fmt/format.h>

#include <chrono>

#include "cuda_runtime/measure/operator_rows.hpp"
#include "cuda_runtime/measure/torch_rows.hpp"
#include "cuda_runtime/validate/execute.hpp"
#include "cuda_runtime/validate/launch.hpp"
#include "profiler/fits/source_text.hpp"

namespace moeplan::cli {

namespace {

runtime::MeasuredMachine machine_of(const validate::Answer& answer, bool has_gpus) {
  constexpr double kMemoryOfCore = 1e9;  // bytes; assumed: sufficient for an executed layer
  const validate::Processor& p = answer.processor;
  return {.has_gpus = has_gpus,
          .processor = profiler::plain(p.name),
          .processors = p.count,
          .memory = has_gpus ? p.memory : kMemoryOfCore,
          .multiprocessors = p.multiprocessors,
          .ranks = std::ssize(answer.hosts),
          .nodes = validate::machines_of(answer.hosts),
          .clocks = "clocks: " + answer.clocks.text(),
          .multiplies_fp8 = p.multiplies_fp8};
}

/// Rows of attention and kernels, measured through PyTorch; none if the user interrupted it.
std::optional<std::string> other_operators(const runtime::TorchRequest& request, bool quiet) {
  if (!(request.budget > Seconds(0))) {
    fmt::print(stderr,
               "note: attention and kernels were not measured: products took the budget; give a longer one "
               "(--budget)\n");
    return "";
  }
  if (!quiet) fmt::print(stderr, "attention and kernels: {}, up to {:.0f} s\n", request.python, request.budget.value());
  const validate::ScratchDirectory scratch;
  const runtime::TorchRows measured = torch_rows(request, scratch.path());
  if (measured.is_interrupted) {
    fmt::print(stderr, "interrupted: the measurement of attention and kernels was ended\n");
    return std::nullopt;
  }
  for (const std::string& note : measured.notes) fmt::print(stderr, "note: {}\n", note);
  return measured.rows;
}

}  // namespace

std::string MeasuredHere::profile() const {
  const std::string head = fmt::format(
      "# Written by moeplan profile: this machine as ranks of the {} back end use it. A cluster of its own, or to be\n"
      "# included by one ({}).\n",
      machine.has_gpus ? "nccl" : "host", machine.has_gpus ? "docs/cuda.md" : "docs/validate.md");
  return head + to_yaml(machine_profile(fit, machine));
}

std::optional<MeasuredHere> measure_here(const BackEnd& on, std::optional<std::int64_t> given, Seconds budget,
                                         Seconds time_out, ExitCode& code) {
  const bool has_gpus = on.name == "nccl";
  const runtime::BenchmarkScale scale = has_gpus ? runtime::BenchmarkScale::Gpus : runtime::BenchmarkScale::Cores;
  constexpr std::int64_t kHostRanks = 4, kAllGpus = 0;
  const std::int64_t ranks = given.value_or(has_gpus ? kAllGpus : kHostRanks);
  const validate::ExecuteJob job{
      .limits = {.time_out = time_out}, .cases = {}, .measure = validate::MeasureJob{ranks, budget, scale}};
  const validate::JobRun run = execute(on, job, ranks);
  if (const auto early = ended_early(run)) {
    code = *early;
    return std::nullopt;
  }
  MeasuredHere out{{}, machine_of(run.answer, has_gpus), run.answer.measured};
  out.fit = fit_machine(benchmarks(scale, out.machine.measured_ranks()), out.measured, out.machine);
  return out;
}

std::optional<std::string> operator_table_here(const BackEnd& on, const std::string& gpu,
                                               const PricingLibraries& libraries, Seconds budget, Seconds time_out,
                                               ExitCode& code) {
  const auto begin = std::chrono::steady_clock::now();
  const validate::ExecuteJob job{
      .limits = {.time_out = time_out},
      .cases = {},
      .measure = validate::MeasureJob{1, budget, runtime::BenchmarkScale::Gpus, /*operators=*/true}};
  const validate::JobRun run = execute(on, job, 1);
  if (const auto early = ended_early(run)) {
    code = *early;
    return std::nullopt;
  }
  const validate::Answer& answer = run.answer;
  const std::string products =
      operator_rows(runtime::operator_benchmarks(answer.processor.multiplies_fp8), answer.measured, gpu,
                    fmt::format("cuBLASLt on {}, clocks: {}, by {}", profiler::plain(answer.processor.name),
                                answer.clocks.text(), libraries.gemm));
  const Seconds used(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  const auto others = other_operators({.python = runtime::python_interpreter(),
                                       .gpu = gpu,
                                       .attention = libraries.attention,
                                       .attention_backward = libraries.attention_backward,
                                       .budget = budget - used,
                                       .grace = time_out},
                                      on.quiet);
  if (!others) {
    code = ExitCode::Interrupted;
    return std::nullopt;
  }
  return products + *others;
}

}  // namespace moeplan::cli
