#include "planner/ordering/reorder.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <cassert>
#include <optional>

#include "model/base/to_index.hpp"
#include "model/program/equal_ranks.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::planner {

namespace {

using Operations = std::bitset<kMostOrderTasks>;

bool is_wait(const Operation& operation) { return std::holds_alternative<Wait>(operation.work); }

/// Whether no order of a block's operations changes when the operation begins or ends.
bool is_apart(const Operation& operation) {
  return is_background(operation.stream) || operation.stream == Stream::Host;
}

/// Whether the order of the two operations matters. A wait may concern any data.
bool share_data(const Operation& a, const Operation& b) {
  if (is_wait(a) || is_wait(b)) return true;
  const auto meet = [](const std::vector<Slice>& x, const std::vector<Slice>& y) {
    return std::any_of(x.begin(), x.end(), [&](const Slice& s) {
      return std::any_of(y.begin(), y.end(), [&](const Slice& t) { return may_overlap(s, t); });
    });
  };
  return meet(a.writes, b.writes) || meet(a.writes, b.reads) || meet(a.reads, b.writes);
}

bool waits_for(const Operation& operation, Stream stream) {
  const Wait* wait = std::get_if<Wait>(&operation.work);
  return wait != nullptr && wait->stream == stream;
}

/// For each operation, the operations that have ended when it starts, by `after` and by stream order.
std::vector<Operations> ended_before(const Block& block) {
  std::vector<Operations> out(block.operations.size());
  std::array<std::optional<std::size_t>, kStreamNames.size()> last;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto follow = [&](std::size_t before) { out[i] |= out[before].set(before); };
    for (const std::int32_t a : block.operations[i].after) follow(to_index(a));
    auto& before = last[static_cast<std::size_t>(block.operations[i].stream)];
    if (before) follow(*before);
    before = i;
  }
  for (std::size_t i = 0; i < out.size(); ++i) out[i].reset(i);
  return out;
}

}  // namespace

std::optional<Infeasibility> order_infeasibility(const Block& block) {
  if (block.operations.size() > kMostOrderTasks)
    return Infeasibility(Constraint::Limit, kMostOrderTasks, block.operations.size(), "too many operations");
  std::array<bool, kStreamNames.size()> is_used{};
  for (const Operation& operation : block.operations) {
    if (std::holds_alternative<Receive>(operation.work)) return "receives";
    const Wait* wait = std::get_if<Wait>(&operation.work);
    if (wait != nullptr && is_used[static_cast<std::size_t>(wait->stream)]) return "waits for its own operations";
    is_used[static_cast<std::size_t>(operation.stream)] = true;
  }
  return std::nullopt;
}

bool may_overlap(const Slice& a, const Slice& b) {
  if (a.buffer != b.buffer) return false;
  const Rows &x = a.rows, &y = b.rows;
  if (x.kind != Rows::Kind::Routed || y.kind != Rows::Kind::Routed) return true;
  if (x.routing != y.routing || x.experts != y.experts || x.path.size() != y.path.size()) return true;
  const bool is_elsewhere = x.experts == Rows::Experts::Behind || x.experts == Rows::Experts::Paired ||
                            (x.experts == Rows::Experts::Held && x.holders == y.holders);
  bool is_apart = is_elsewhere && x.behind != y.behind;
  for (std::size_t i = 0; i < x.path.size(); ++i) {
    const RowStep &s = x.path[i], &t = y.path[i];
    if (s == t) continue;
    if (s.kind != t.kind || s.group != t.group || s.count != t.count) return true;
    const bool is_cut = s.kind == RowStep::Kind::Chunk || s.kind == RowStep::Kind::Union;
    if (is_cut && (s.index + s.width <= t.index || t.index + t.width <= s.index)) is_apart = true;
  }
  return !is_apart;
}

OrderProblem order_problem(const Block& block, std::span<const SimTime> durations) {
  assert(!order_infeasibility(block) && durations.size() == block.operations.size() && "a block that can be ordered");
  const std::vector<Operations> before = ended_before(block);
  OrderProblem problem;
  for (std::size_t i = 0; i < block.operations.size(); ++i) {
    const Operation& operation = block.operations[i];
    const bool is_behind = is_apart(operation);
    OrderTask task{is_behind ? SimTime{} : durations[i], static_cast<std::int32_t>(operation.stream), operation.after};
    for (std::size_t b = 0; b < i; ++b) {
      const Operation& earlier = block.operations[b];
      const bool shares = before[i][b] && share_data(earlier, operation);
      const bool is_queued = is_behind && (earlier.stream == operation.stream || waits_for(earlier, operation.stream));
      if (shares || is_queued) task.after.push_back(static_cast<std::int32_t>(b));
    }
    std::sort(task.after.begin(), task.after.end());
    task.after.erase(std::unique(task.after.begin(), task.after.end()), task.after.end());
    problem.push_back(std::move(task));
  }
  return problem;
}

bool has_one_order(const Block& block, const OrderProblem& problem) {
  std::optional<std::int32_t> last;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    if (is_apart(block.operations[i])) continue;
    const std::vector<std::int32_t>& after = problem[i].after;
    if (last && !std::binary_search(after.begin(), after.end(), *last)) return false;
    last = static_cast<std::int32_t>(i);
  }
  return true;
}

Block with_order(const Block& block, std::span<const std::int32_t> order) {
  const OrderProblem problem = order_problem(block, std::vector<SimTime>(block.operations.size()));
  std::vector<std::int32_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[to_index(order[i])] = static_cast<std::int32_t>(i);
  Block out{block.name, {}, block.backward_of, block.variant_of};
  for (const std::int32_t i : order) {
    out.operations.push_back(block.operations[to_index(i)]);
    for (std::int32_t& a : out.operations.back().after) a = place[to_index(a)];
  }
  // One at a time, because a dependency added here may imply later ones.
  for (std::size_t i = 0; i < order.size(); ++i) {
    const Operations before = ended_before(out)[i];
    std::vector<std::int32_t>& after = out.operations[i].after;
    for (const std::int32_t a : problem[to_index(order[i])].after) {
      // Behind a wait for its stream an operation stands in the list only.
      if (waits_for(block.operations[to_index(a)], out.operations[i].stream)) continue;
      if (!before[to_index(place[to_index(a)])]) after.push_back(place[to_index(a)]);
    }
    std::sort(after.begin(), after.end());
  }
  return out;
}

std::vector<SimTime> durations_alone(const Program& program, BlockId block, const Cluster& cluster) {
  Program alone;
  alone.world_size = program.world_size;
  alone.ranks_per_node = program.ranks_per_node;
  alone.has_persistent_products = program.has_persistent_products;
  alone.fills_waves = program.fills_waves;
  alone.groups = program.groups;
  alone.routings = program.routings;
  alone.buffers = program.buffers;
  alone.blocks.push_back({.name = "alone", .operations = {}, .backward_of = {}});
  alone.stages.assign(program.stages.size(), {});
  for (std::size_t s = 0; s < program.stages.size(); ++s) {
    if (block_counts(program, s)[block.index()] > 0) alone.stages[s].push_back({.block = BlockId(0)});
  }
  std::vector<SimTime> out;
  for (const Operation& operation : program.blocks[block.index()].operations) {
    if (is_apart(operation) || is_wait(operation)) {
      out.emplace_back();
      continue;
    }
    alone.blocks.front().operations.assign(1, operation);
    alone.blocks.front().operations.front().after.clear();
    out.push_back(sim::simulate(alone, cluster, {.keep_spans = false}).makespan);
  }
  return out;
}

bool Reordering::is_changed() const {
  return std::any_of(blocks.begin(), blocks.end(), [](const BlockOrder& b) { return b.best < b.listed; });
}

std::string_view Reordering::answered_by() const {
  const bool is_exact = (equal_ranks || blocks.empty()) && left.empty() &&
                        std::all_of(blocks.begin(), blocks.end(), [](const auto& b) { return b.proved; });
  return is_exact ? "exact" : "heuristic";
}

Reordering reordered(const Program& program, const Cluster& cluster, std::int64_t budget) {
  Reordering out{program, {}, {}, {}, program.world_size == 1 || equal_ranks_view(program, cluster) != nullptr};
  for (std::size_t b = 0; b < program.blocks.size(); ++b) {
    const Block& block = program.blocks[b];
    if (auto infeasibility = order_infeasibility(block)) {
      out.left.emplace_back(BlockId(b), *std::move(infeasibility));
      continue;
    }
    if (has_one_order(block, order_problem(block, std::vector<SimTime>(block.operations.size())))) {
      out.fixed.emplace_back(b);
      continue;
    }
    const OrderProblem problem = order_problem(block, durations_alone(program, BlockId(b), cluster));
    std::vector<std::int32_t> listed(problem.size());
    for (std::size_t i = 0; i < listed.size(); ++i) listed[i] = static_cast<std::int32_t>(i);
    OrderResult best = exact_order(problem, budget);
    const SimTime before = order_makespan(problem, listed);
    const bool is_better = best.makespan < before;
    if (is_better) out.program.blocks[b] = with_order(block, best.order);
    out.blocks.push_back({BlockId(b), before, best.makespan, best.lower_bound, best.proved, best.nodes,
                          std::move(is_better ? best.order : listed)});
  }
  return out;
}

}  // namespace moeplan::planner
