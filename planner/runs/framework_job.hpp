// Jobs of DeepSpeed, TorchTitan, SGLang and vLLM as plans: the reverse of planner/launch for what these frameworks'
// settings say. What they do not say is given: cluster, model, workload.
#pragma once

#include <string>
#include <vector>

#include "planner/frameworks/framework.hpp"
#include "planner/runs/imported_plan.hpp"
#include "planner/runs/job_settings.hpp"

namespace moeplan::runs {

/// The names of the frameworks whose jobs are read, sorted.
[[nodiscard]] std::vector<std::string> job_frameworks();

/// The plan of a job, simulated. Settings that are absent have the framework's defaults, which `defaults` lists. Raises
/// InputError, located at the setting, for what cannot be expressed and for degrees that do not suit the GPUs, the
/// model or the batch.
[[nodiscard]] ImportedPlan imported_job(const JobSettings& settings, const planner::Framework& framework,
                                        const JobContext& context);

}  // namespace moeplan::runs
