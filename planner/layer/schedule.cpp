#include "planner/layer/schedule.hpp"

#include <array>
#include <cassert>
#include <iterator>
#include <utility>

namespace moeplan::planner {

namespace {

std::vector<std::unique_ptr<Schedule>>& schedule_table() {
  static std::vector<std::unique_ptr<Schedule>> entries = [] {
    std::array built_in{
        make_baseline_schedule(),     make_parm_s1_schedule(),         make_parm_s2_schedule(),
        make_parm_s2_code_schedule(), make_parm_s2_in_turn_schedule(), make_pipelined_schedule(),
        make_opt_sche_schedule(),     make_smart_schedule(),           make_tutel_schedule(0),
        make_tutel_schedule(1),       make_tutel_schedule(2),          make_tutel_schedule(4),
        make_tutel_schedule(8),       make_deferred_s1_schedule(),     make_deferred_s2_schedule(),
        make_tapered_s1_schedule(),
    };
    return std::vector(std::move_iterator(built_in.begin()), std::move_iterator(built_in.end()));
  }();
  return entries;
}

}  // namespace

std::span<const std::unique_ptr<Schedule>> schedules() { return schedule_table(); }

bool add_schedule(std::unique_ptr<Schedule> entry) {
  if (find_schedule(entry->name()) != nullptr) return false;
  schedule_table().push_back(std::move(entry));
  return true;
}

const Schedule* find_schedule(std::string_view name) {
  for (const auto& schedule : schedules()) {
    if (schedule->name() == name) return schedule.get();
  }
  return nullptr;
}

template <>
BuiltIn<Schedule>::BuiltIn(std::string_view name) : entry_(find_schedule(name)) {
  assert(entry_ && "names are checked where they are read");
}

template <>
std::string BuiltIn<Schedule>::name() const {
  return std::string(entry_->name());
}

}  // namespace moeplan::planner
