// Export of plans to frameworks.
//
//   const Framework framework = load_framework("megatron@0.15");
//   const Launch launch = launch_of({plan, inputs, cluster, framework});
//   write_file_atomically("run.sh", launch_script(launch, framework));
#pragma once

#include <string>
#include <vector>

#include "planner/launch/launch.hpp"

namespace moeplan::planner {

/// The names of the frameworks that plans are exported to, sorted.
[[nodiscard]] std::vector<std::string> launch_targets();

/// The plan in the framework's words. Settings that this version does not know are left out and listed as not
/// translated. Raises InputError if the framework does not do what the plan is for (training, serving).
[[nodiscard]] Launch launch_of(const LaunchInput& input);

/// Why the framework would refuse the setting ("is not an argument of ...", "\"x\" is no int"); "" if it takes it.
[[nodiscard]] std::string setting_error(const Framework& framework, const LaunchSetting& setting);

}  // namespace moeplan::planner
