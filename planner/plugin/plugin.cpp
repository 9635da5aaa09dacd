#include "planner/plugin/plugin.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "planner/all_to_alls/exchange_parts.hpp"
#include "planner/plugin/moeplan_plugin.h"
#include "planner/schedules/baseline_layout.hpp"

namespace moeplan::planner {

namespace {

/// The parts among so many ranks; none if the algorithm cannot run there or does not reach every rank once.
std::optional<std::vector<moeplan_part>> parts_of(const moeplan_all_to_all& entry, std::int64_t ranks,
                                                  std::int64_t per_node) {
  std::vector<moeplan_part> parts(static_cast<std::size_t>(ranks));
  const std::int64_t number = entry.parts(ranks, per_node, parts.data());
  if (number < 1 || number > ranks) return std::nullopt;
  parts.resize(static_cast<std::size_t>(number));
  std::vector<char> reached(static_cast<std::size_t>(ranks), 0);
  for (const moeplan_part& part : parts) {
    if (part.first < 0 || part.count < 1 || part.first > ranks - part.count) return std::nullopt;
    for (std::int64_t i = 0; i < part.count; ++i) {
      if (std::exchange(reached[static_cast<std::size_t>(part.first + i)], 1) != 0) return std::nullopt;
    }
  }
  if (std::find(reached.begin(), reached.end(), 0) != reached.end()) return std::nullopt;
  return parts;
}

class PluginAllToAll final : public AllToAll {
 public:
  explicit PluginAllToAll(const moeplan_all_to_all& entry) : entry_(entry) {}
  std::string_view name() const override { return entry_.name; }
  std::string_view summary() const override { return entry_.summary; }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (parts_of(entry_, group.family.size, group.per_node)) return std::nullopt;
    return Infeasibility(fmt::format("{} does not reach every rank once", entry_.name));
  }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    const std::int64_t size = block.program().group(exchange.group).size;
    const std::int64_t per_node = members_per_node(block.program(), block.program().group(exchange.group));
    std::vector<moeplan_part> parts = parts_of(entry_, size, per_node).value();
    if (exchange.is_combine) std::reverse(parts.begin(), parts.end());
    const std::vector<std::int32_t> ready = block.last();
    std::vector<std::int32_t> moved;
    for (std::size_t i = 0; i < parts.size(); ++i) {  // parts of one stream run in this order
      const moeplan_part& part = parts[i];
      const bool continues = i > 0 && (exchange.is_combine ? parts[i - 1].continues : part.continues) != 0;
      block.continue_after(ready);
      move_rows(exchange, part.inside_node != 0 ? Stream::Intra : Stream::Inter,
                {.first = part.first, .count = part.count, .of = size, .continues = continues}, block);
      moved.insert(moved.end(), block.last().begin(), block.last().end());
    }
    block.continue_after(moved);
  }

 private:
  const moeplan_all_to_all& entry_;
};

static_assert(static_cast<std::size_t>(moeplan_task{MOEPLAN_DECODE_COMBINE}) + 1 == kChunkTasks, "the same tasks");

/// The order for so many chunks; none if a task is missing, occurs twice or precedes the one before it.
std::optional<std::vector<ChunkStep>> order_of(const moeplan_schedule& entry, std::int64_t chunks) {
  const auto number = static_cast<std::size_t>(chunks) * kChunkTasks;
  std::vector<moeplan_step> steps(number, {-1, -1});
  entry.order(chunks, steps.data());
  std::vector<std::int32_t> next(static_cast<std::size_t>(chunks), 0);  // by chunk: its next task
  std::vector<ChunkStep> order;
  for (const moeplan_step& step : steps) {
    if (step.chunk < 0 || step.chunk >= chunks || step.task != next[static_cast<std::size_t>(step.chunk)]++)
      return std::nullopt;
    order.push_back({step.chunk, static_cast<ChunkTask>(step.task)});
  }
  return order;
}

class PluginSchedule final : public BaselineLayout {
 public:
  explicit PluginSchedule(const moeplan_schedule& entry) : entry_(entry) {}
  std::string_view name() const override { return entry_.name; }
  std::string_view summary() const override { return entry_.summary; }
  std::optional<Infeasibility> infeasibility(const Degrees&, const Candidate& candidate) const override {
    if (order_of(entry_, candidate.pipeline_degree)) return std::nullopt;
    return Infeasibility(fmt::format("{} leaves out or misplaces a task of a chunk", entry_.name));
  }

 private:
  ExpertRound round(std::int64_t chunks) const override {
    ExpertRound out;
    out.order = order_of(entry_, chunks).value();
    return out;
  }

  const moeplan_schedule& entry_;
};

[[noreturn]] void refuse(const std::string& path, const std::string& why) {
  throw_input_error({path, 0}, "--plugin", why);
}

}  // namespace

void load_plugin(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays until the end: the tables refer to it
  if (library == nullptr) refuse(path, dlerror());
  const auto entry = reinterpret_cast<decltype(&moeplan_plugin_entry)>(dlsym(library, "moeplan_plugin_entry"));
  if (entry == nullptr) refuse(path, "has no moeplan_plugin_entry(), which planner/plugin/moeplan_plugin.h declares");
  const moeplan_plugin& plugin = *entry();
  if (plugin.version != MOEPLAN_PLUGIN_VERSION)
    refuse(path, fmt::format("was built with version {} of moeplan_plugin.h; this is version {}", plugin.version,
                             MOEPLAN_PLUGIN_VERSION));
  for (std::int32_t i = 0; i < plugin.num_all_to_alls; ++i) {
    if (!add_all_to_all(std::make_unique<PluginAllToAll>(plugin.all_to_alls[i])))
      refuse(path, fmt::format("an all-to-all \"{}\" is there already", plugin.all_to_alls[i].name));
  }
  for (std::int32_t i = 0; i < plugin.num_schedules; ++i) {
    if (!add_schedule(std::make_unique<PluginSchedule>(plugin.schedules[i])))
      refuse(path, fmt::format("a schedule \"{}\" is there already", plugin.schedules[i].name));
  }
}

}  // namespace moeplan::planner
