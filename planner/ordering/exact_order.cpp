#include "planner/ordering/exact_order.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <functional>
#include <optional>
#include <unordered_map>
#include <utility>

#include "planner/ordering/interchangeable.hpp"
#include "planner/ordering/order_bound.hpp"

namespace moeplan::planner {

namespace {

using Time = std::int64_t;  // picoseconds
using TaskSet = std::array<std::uint64_t, kMostOrderTasks / 64>;

bool holds(const TaskSet& set, std::size_t i) { return (set[i / 64] >> (i % 64) & 1) != 0; }
void insert(TaskSet& set, std::size_t i) { set[i / 64] |= std::uint64_t{1} << (i % 64); }

struct TaskSetHash {
  std::size_t operator()(const TaskSet& set) const {
    std::uint64_t h = 0;
    for (const std::uint64_t word : set) h = (h ^ word) * 0x9e3779b97f4a7c15ULL ^ (h >> 29);
    return static_cast<std::size_t>(h ^ (h >> 32));
  }
};

/// A partial schedule. Tasks are appended in the order in which they run on their streams.
struct State {
  TaskSet done{};
  std::vector<Time> ready;     // by stream: the latest end so far
  std::vector<Time> released;  // by task: the latest end of its completed predecessors
  // By task: for an open task the earliest start that precedences and streams allow; for a completed one its start.
  std::vector<Time> head;
  Time end = 0;    // the latest end
  Time bound = 0;  // no completion of this schedule ends sooner
};

class BranchAndBound {
 public:
  BranchAndBound(const OrderProblem& problem, std::int64_t budget)
      : g_(order_graph(problem, non_overtaking(problem))), budget_(budget) {
    result_.order.resize(problem.size());
    for (std::size_t i = 0; i < problem.size(); ++i) result_.order[i] = static_cast<std::int32_t>(i);
    best_ = order_makespan(problem, result_.order).picoseconds();
  }

  OrderResult run() {
    State root;
    root.ready.assign(g_.streams, 0);
    root.released.assign(g_.size(), 0);
    root.head.assign(g_.size(), 0);
    refresh(root);
    open_bound_ = best_;
    visit(root);
    result_.makespan = SimTime(best_);
    result_.lower_bound = SimTime(std::min(best_, open_bound_));
    result_.proved = open_bound_ >= best_;
    return result_;
  }

 private:
  void visit(const State& s) {
    if (result_.nodes >= budget_) {
      open_bound_ = std::min(open_bound_, s.bound);
      return;
    }
    ++result_.nodes;
    std::vector<State> next;
    for (const std::size_t task : branches(s)) {
      next.push_back(appended(s, task));
      if (next.back().bound >= best_) next.pop_back();
    }
    if (next.empty() && is_complete(s)) return record(s);
    std::stable_sort(next.begin(), next.end(), [](const State& a, const State& b) { return a.bound < b.bound; });
    for (const State& n : next) {
      if (n.bound < best_ && !dominated(n)) visit(n);
    }
  }

  [[nodiscard]] bool is_complete(const State& s) const {
    for (std::size_t i = 0; i < g_.size(); ++i) {
      if (!holds(s.done, i)) return false;
    }
    return true;
  }

  void record(const State& s) {
    if (s.end >= best_) return;
    best_ = s.end;
    std::vector<std::size_t> by_start(g_.size());
    for (std::size_t i = 0; i < by_start.size(); ++i) by_start[i] = i;
    // The graph is numbered in topological order; of tasks that start together on one stream, all but the last take no
    // time, and the last one ends later.
    std::stable_sort(by_start.begin(), by_start.end(), [&](std::size_t a, std::size_t b) {
      return std::pair(s.head[a], s.head[a] + g_.duration[a]) < std::pair(s.head[b], s.head[b] + g_.duration[b]);
    });
    for (std::size_t i = 0; i < by_start.size(); ++i) result_.order[i] = g_.task[by_start[i]];
  }

  /// The branching of Giffler and Thompson: the tasks that may come next on the stream where some open task can end
  /// first.
  [[nodiscard]] std::vector<std::size_t> branches(const State& s) const {
    std::vector<std::size_t> can;
    std::optional<std::size_t> first;
    for (std::size_t i = 0; i < g_.size(); ++i) {
      if (holds(s.done, i)) continue;
      const bool is_free =
          std::all_of(g_.before[i].begin(), g_.before[i].end(), [&](std::size_t b) { return holds(s.done, b); });
      if (!is_free) continue;
      can.push_back(i);
      if (!first || s.head[i] + g_.duration[i] < s.head[*first] + g_.duration[*first]) first = i;
    }
    if (!first) return can;
    const Time end = s.head[*first] + g_.duration[*first];
    // `first` itself starts before its end unless its duration is zero.
    std::erase_if(
        can, [&](std::size_t i) { return g_.stream[i] != g_.stream[*first] || (s.head[i] >= end && i != *first); });
    return can;
  }

  [[nodiscard]] State appended(const State& s, std::size_t task) {
    State n = s;
    const Time end = s.head[task] + g_.duration[task];
    insert(n.done, task);
    n.ready[g_.stream[task]] = end;
    n.end = std::max(n.end, end);
    for (const std::size_t a : g_.after[task]) n.released[a] = std::max(n.released[a], end);
    refresh(n);
    return n;
  }

  /// Updates the heads of open tasks and the bound.
  void refresh(State& s) {
    s.bound = std::max(s.bound, s.end);
    for (std::size_t i = 0; i < g_.size(); ++i) {
      if (holds(s.done, i)) continue;
      Time head = std::max(s.released[i], s.ready[g_.stream[i]]);
      for (const std::size_t b : g_.before[i]) {
        if (!holds(s.done, b)) head = std::max(head, s.head[b] + g_.duration[b]);
      }
      s.head[i] = head;
      s.bound = std::max(s.bound, head + g_.duration[i] + g_.tail[i]);
    }
    for (std::size_t m = 0; m < g_.streams && s.bound < best_; ++m) {
      jobs_.clear();
      for (const std::size_t i : g_.on_stream[m]) {
        if (!holds(s.done, i)) jobs_.push_back({s.head[i], g_.duration[i], g_.tail[i]});
      }
      s.bound = std::max(s.bound, one_machine_bound(jobs_));
    }
  }

  /// Whether an earlier state completed the same tasks such that no open task starts later; otherwise records this
  /// state.
  ///
  /// Open tasks depend on the past only in three respects: a stream is not free before the least head on it, a task
  /// with a completed predecessor cannot start before its head, and the end is not before the longest path. Heads can
  /// replace the times from which they derive, since every continuation respects them.
  bool dominated(const State& s) {
    profile_.assign(1, s.end);
    for (std::size_t m = 0; m < g_.streams; ++m) {
      std::optional<Time> least;
      for (const std::size_t i : g_.on_stream[m]) {
        if (!holds(s.done, i)) least = std::min(least.value_or(s.head[i]), s.head[i]);
      }
      if (least) profile_.push_back(*least);
    }
    for (std::size_t i = 0; i < g_.size(); ++i) {
      if (holds(s.done, i)) continue;
      profile_.front() = std::max(profile_.front(), s.head[i] + g_.duration[i] + g_.tail[i]);
      const bool is_touched =
          std::any_of(g_.before[i].begin(), g_.before[i].end(), [&](std::size_t b) { return holds(s.done, b); });
      if (is_touched) profile_.push_back(s.head[i]);
    }
    std::vector<Time>& seen = seen_[s.done];  // profiles, one after another
    const auto size = static_cast<std::ptrdiff_t>(profile_.size());
    const auto not_later = [&](auto a, auto b) { return std::equal(a, a + size, b, std::less_equal<>()); };
    for (auto p = seen.begin(); p != seen.end(); p += size) {
      if (not_later(p, profile_.begin())) return true;
    }
    for (auto p = seen.begin(); p != seen.end();) {
      p = not_later(profile_.begin(), p) ? seen.erase(p, p + size) : p + size;
    }
    seen.insert(seen.end(), profile_.begin(), profile_.end());
    return false;
  }

  OrderGraph g_;
  std::int64_t budget_;
  Time best_ = 0;
  Time open_bound_ = 0;  // bound of the states that the budget left unvisited
  std::unordered_map<TaskSet, std::vector<Time>, TaskSetHash> seen_;
  std::vector<Time> profile_;
  std::vector<OneMachineJob> jobs_;
  OrderResult result_;
};

}  // namespace

OrderResult exact_order(const OrderProblem& problem, std::int64_t budget) {
  assert(problem.size() <= kMostOrderTasks && "a caller asks for small problems only");
  SimTime all;  // if the sum is in range, so is every time in the search
  for (const OrderTask& task : problem) all += task.duration;
  return BranchAndBound(problem, budget).run();
}

}  // namespace moeplan::planner
