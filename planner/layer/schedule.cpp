#include "planner/layer/schedule.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
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
        make_tapered_s1_schedule(),   make_megatron_etp_schedule(),
    };
    return std::vector(std::move_iterator(built_in.begin()), std::move_iterator(built_in.end()));
  }();
  return entries;
}

constexpr std::string_view kTutel = "tutel_r";

/// The r of Tutel's adaptive parallelism by this name; none if it is not of this form.
std::optional<std::int64_t> r_in_name(std::string_view name) {
  if (!name.starts_with(kTutel)) return std::nullopt;
  name.remove_prefix(kTutel.size());
  std::int64_t r = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), r);
  const bool is_number = error == std::errc() && end == name.data() + name.size();
  if (!is_number || r < 0 || r > kMostTutelR || std::to_string(r) != name) return std::nullopt;
  return r;
}

const Schedule* in_table(std::string_view name) {
  for (const auto& schedule : schedules()) {
    if (schedule->name() == name) return schedule.get();
  }
  return nullptr;
}

}  // namespace

std::span<const std::unique_ptr<Schedule>> schedules() { return schedule_table(); }

const Schedule& tutel_schedule(std::int64_t r) {
  assert(r >= 0 && r <= kMostTutelR && "r is checked where it is read");
  if (const Schedule* listed = in_table(std::string(kTutel) + std::to_string(r))) return *listed;
  static std::mutex mutex;
  static std::map<std::int64_t, std::unique_ptr<Schedule>> others;  // made when first asked for
  const std::scoped_lock lock(mutex);
  std::unique_ptr<Schedule>& entry = others[r];
  if (!entry) entry = make_tutel_schedule(r);
  return *entry;
}

std::vector<const Schedule*> schedules_for(std::int64_t esp) {
  std::vector<const Schedule*> all;
  for (const auto& schedule : schedules()) all.push_back(schedule.get());
  for (std::int64_t r = 1; r <= std::min(esp, kMostTutelR); ++r) {
    if (esp % r != 0) continue;
    const Schedule& schedule = tutel_schedule(r);
    if (std::find(all.begin(), all.end(), &schedule) == all.end()) all.push_back(&schedule);
  }
  return all;
}

bool add_schedule(std::unique_ptr<Schedule> entry) {
  if (find_schedule(entry->name()) != nullptr) return false;
  schedule_table().push_back(std::move(entry));
  return true;
}

const Schedule* find_schedule(std::string_view name) {
  if (const Schedule* listed = in_table(name)) return listed;
  const std::optional<std::int64_t> r = r_in_name(name);
  return r ? &tutel_schedule(*r) : nullptr;
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
