// A plan in the making, from the settings of a job: what the readers of the frameworks (framework_job.hpp) share.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "planner/plan/inputs.hpp"
#include "planner/runs/job_settings.hpp"

namespace moeplan::runs {

struct JobDraft {
  SettingsReader settings;
  const JobSettings& raw;
  const planner::Framework& framework;
  const JobContext& context;
  planner::Inputs inputs;        // the workload becomes that of the job
  planner::Candidate candidate;  // its degrees, except edp
  std::vector<std::string> defaults = {}, approximations = {};
  /// As the framework calls its all-to-all; "" leaves it as it is.
  std::string all_to_all = {};
  /// Copies of experts beyond one of each, on all ranks together.
  std::int64_t redundant_experts = 0;

  /// GPUs that the job uses: what the file says, or the context.
  [[nodiscard]] std::optional<std::int64_t> world() const { return context.world ? context.world : raw.world; }
  /// A count, or the framework's default, which is noted.
  [[nodiscard]] std::int64_t count(const std::string& name, std::int64_t fallback);
  void assume(std::string what) { defaults.push_back(std::move(what)); }
};

/// The product of numbers of at least 1, or a number that is far too many of anything.
[[nodiscard]] std::int64_t capped_product(std::initializer_list<std::int64_t> factors);

void read_deepspeed_job(JobDraft& draft);
void read_torchtitan_job(JobDraft& draft);
void read_sglang_job(JobDraft& draft);
void read_vllm_job(JobDraft& draft);

}  // namespace moeplan::runs
