// Slurm scripts, with the configuration files of frameworks inside.
#pragma once

#include <string>

#include "planner/launch/launch.hpp"

namespace moeplan::planner {

/// A Slurm script that starts the job, configuration files included. Comments list what was not translated.
[[nodiscard]] std::string launch_script(const Launch& launch, const Framework& framework);

}  // namespace moeplan::planner
