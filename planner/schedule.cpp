#include "planner/schedule.hpp"

#include <array>

namespace moeplan {

std::span<const std::unique_ptr<Schedule>> schedules() {
  static const std::array<std::unique_ptr<Schedule>, 4> kSchedules{
      make_baseline_schedule(),
      make_parm_s1_schedule(),
      make_parm_s2_schedule(/*simultaneous=*/true),
      make_parm_s2_schedule(/*simultaneous=*/false),
  };
  return kSchedules;
}

const Schedule* find_schedule(std::string_view name) {
  for (const auto& schedule : schedules()) {
    if (schedule->name() == name) return schedule.get();
  }
  return nullptr;
}

}  // namespace moeplan
