#include "python/own_schedule.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/diagnostics.hpp"

namespace moeplan::python {

namespace {

constexpr std::array<const char*, planner::kChunkTasks> kTaskNames{
    "encode", "dispatch", "decode", "expert", "encode_combine", "combine", "decode_combine"};

/// The order as steps. Raises InputError.
std::vector<planner::ChunkStep> checked(const std::string& schedule, std::int64_t chunks,
                                        const std::vector<OwnSchedule::NamedStep>& order) {
  const std::string key = fmt::format("order({})", chunks);
  const auto fail = [&](const std::string& what) { throw_input_error({"schedule " + schedule}, key, what); };
  std::vector<planner::ChunkStep> steps;
  std::vector<std::size_t> done(static_cast<std::size_t>(chunks), 0);  // tasks, by chunk
  for (const auto& [chunk, name] : order) {
    const auto task =
        static_cast<std::size_t>(std::find(kTaskNames.begin(), kTaskNames.end(), name) - kTaskNames.begin());
    if (task == kTaskNames.size())
      fail(fmt::format("{} is no task{}", in_quotes(name), suggestion(name, task_names())));
    if (chunk < 0 || chunk >= chunks) fail(fmt::format("there is no chunk {}; expected 0 to {}", chunk, chunks - 1));
    std::size_t& next = done[static_cast<std::size_t>(chunk)];
    if (next == kTaskNames.size())
      fail(fmt::format("{} of chunk {} comes after its last task", in_quotes(name), chunk));
    if (task != next)
      fail(fmt::format("{} of chunk {} comes where its {} is due", in_quotes(name), chunk, kTaskNames[next]));
    ++next;
    steps.push_back({chunk, static_cast<planner::ChunkTask>(task)});
  }
  for (std::size_t c = 0; c < done.size(); ++c) {
    if (done[c] < kTaskNames.size()) fail(fmt::format("chunk {} lacks its {}", c, kTaskNames[done[c]]));
  }
  return steps;
}

}  // namespace

std::vector<std::string> task_names() { return {kTaskNames.begin(), kTaskNames.end()}; }

OwnSchedule::OwnSchedule(std::string name, std::string summary, const Order& order)
    : name_(std::move(name)), summary_(std::move(summary)) {
  if (planner::find_schedule(name_))
    throw_input_error({"schedule " + name_}, "", "is the name of a built-in schedule; expected another one");
  for (std::int64_t chunks = 1; chunks <= planner::kMostChunks; ++chunks)
    orders_.push_back(checked(name_, chunks, order(chunks)));
}

planner::ExpertRound OwnSchedule::round(std::int64_t chunks) const {
  planner::ExpertRound out;
  out.order = orders_[static_cast<std::size_t>(chunks - 1)];
  return out;
}

}  // namespace moeplan::python
