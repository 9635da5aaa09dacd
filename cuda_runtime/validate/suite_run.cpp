#include "cuda_runtime/validate/suite_run.hpp"

#include <utility>

namespace moeplan::validate {

JobRun run_all(std::vector<planner::LayerCase> cases, bool can_start_again, const Launcher& launch,
               const OnResult& on_result) {
  JobRun run{JobEnd::Done, {}, {}, {}};
  bool is_second_failure = false;
  while (!cases.empty()) {
    std::size_t done = 0;
    std::string command = std::move(run.command);
    run = launch(cases, [&](const Answer& answer) { on_result(cases.at(done++), answer); });
    if (!command.empty()) run.command = std::move(command);  // later commands differ only in irrelevant details
    if (run.end != JobEnd::Failed) return run;
    if (done == cases.size()) return run;  // after the last case
    const bool is_hopeless = done == 0 && is_second_failure;
    if (is_hopeless || !can_start_again) return run;
    Answer failed{};
    failed.cases.resize(1);
    failed.cases.front().failed = run.problem;
    on_result(cases.at(done), failed);
    is_second_failure = done == 0;
    cases.erase(cases.begin(), cases.begin() + static_cast<std::ptrdiff_t>(done + 1));
  }
  return {JobEnd::Done, {}, run.command, {}};
}

}  // namespace moeplan::validate
