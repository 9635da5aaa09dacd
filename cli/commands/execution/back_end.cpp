#include "cli/commands/execution/back_end.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "cuda_runtime/validate/run_on_gpus.hpp"
#include "model/base/diagnostics.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

validate::JobRun execute(const BackEnd& on, const validate::ExecuteJob& job, std::int64_t ranks,
                         const validate::OnCase& on_case) {
  if (on.name == "host") return validate::run_on_host(job, ranks, on.quiet, on_case);
  validate::ExecuteJob on_parts = job;
  on_parts.link_of_parts = on.link_of_parts;
  return validate::run_on_gpus(on_parts, on.ranks_per_gpu, on.quiet, on_case);
}

std::optional<BytesPerSecond> link_of_parts(const std::string& option, const std::string& back_end) {
  if (option.empty()) return std::nullopt;
  const auto wrong = [](const std::string& message) { throw InputError(Diagnostic{{"--gpu-parts"}, "", message}); };
  if (back_end != "nccl") wrong("is of --backend nccl");
  const Parsed<BytesPerSecond> parsed = parse_bytes_per_second(option);
  if (const auto* e = std::get_if<TextError>(&parsed)) wrong(e->message);
  const BytesPerSecond link = std::get<BytesPerSecond>(parsed);
  if (!(link.value() > 0)) wrong("expected more than 0");
  return link;
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
