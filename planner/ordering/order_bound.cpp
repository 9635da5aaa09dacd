#include "planner/ordering/order_bound.hpp"

#include <algorithm>
#include <cassert>
#include <functional>
#include <map>
#include <optional>
#include <queue>

namespace moeplan::planner {

std::int64_t one_machine_bound(std::vector<OneMachineJob>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [](const OneMachineJob& a, const OneMachineJob& b) { return a.head < b.head; });
  std::priority_queue<std::pair<std::int64_t, std::int64_t>> come;  // tail, remaining duration
  std::int64_t now = 0, bound = 0;
  for (std::size_t next = 0; next < jobs.size() || !come.empty();) {
    if (come.empty()) now = std::max(now, jobs[next].head);
    for (; next < jobs.size() && jobs[next].head <= now; ++next) come.emplace(jobs[next].tail, jobs[next].duration);
    const auto [tail, left] = come.top();
    come.pop();
    if (next < jobs.size() && now + left > jobs[next].head) {
      come.emplace(tail, left - (jobs[next].head - now));
      now = jobs[next].head;
    } else {
      now += left;
      bound = std::max(bound, now + tail);
    }
  }
  return bound;
}

namespace {

/// Computes tails from the last task to the first: for each stream the one-machine bound over all successors, with the
/// longest path to each as its head.
void find_tails(OrderGraph& g) {
  g.tail.assign(g.size(), 0);
  std::vector<OneMachineJob> jobs;
  for (std::size_t i = g.size(); i-- > 0;) {
    for (const std::size_t a : g.after[i]) g.tail[i] = std::max(g.tail[i], g.duration[a] + g.tail[a]);
    std::vector<std::optional<std::int64_t>> head(g.size());  // measured from the end of i, for the successors of i
    for (const std::size_t a : g.after[i]) head[a] = 0;
    for (std::size_t j = i + 1; j < g.size(); ++j) {
      if (!head[j]) continue;
      const std::int64_t end = *head[j] + g.duration[j];
      for (const std::size_t a : g.after[j]) head[a] = std::max(head[a].value_or(end), end);
    }
    for (const std::vector<std::size_t>& tasks : g.on_stream) {
      jobs.clear();
      for (const std::size_t j : tasks) {
        if (head[j]) jobs.push_back({*head[j], g.duration[j], g.tail[j]});
      }
      g.tail[i] = std::max(g.tail[i], one_machine_bound(jobs));
    }
  }
}

}  // namespace

OrderGraph order_graph(const OrderProblem& problem, const std::vector<std::pair<std::int32_t, std::int32_t>>& more) {
  std::vector<std::vector<std::int32_t>> after(problem.size());
  std::vector<std::int32_t> open(problem.size(), 0);
  const auto add = [&](std::int32_t a, std::int32_t b) {
    after[static_cast<std::size_t>(a)].push_back(b);
    ++open[static_cast<std::size_t>(b)];
  };
  for (std::size_t i = 0; i < problem.size(); ++i) {
    for (const std::int32_t a : problem[i].after) add(a, static_cast<std::int32_t>(i));
  }
  for (const auto& [a, b] : more) add(a, b);

  OrderGraph g;
  std::vector<std::size_t> number(problem.size());
  std::map<std::int32_t, std::size_t> streams;
  std::priority_queue<std::int32_t, std::vector<std::int32_t>, std::greater<>> free;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    if (open[i] == 0) free.push(static_cast<std::int32_t>(i));
  }
  while (!free.empty()) {
    const auto i = static_cast<std::size_t>(free.top());
    free.pop();
    number[i] = g.task.size();
    g.task.push_back(static_cast<std::int32_t>(i));
    g.duration.push_back(problem[i].duration.picoseconds());
    g.stream.push_back(streams.try_emplace(problem[i].stream, streams.size()).first->second);
    for (const std::int32_t a : after[i]) {
      if (--open[static_cast<std::size_t>(a)] == 0) free.push(a);
    }
  }
  assert(g.task.size() == problem.size() && "precedences have no cycle");
  g.streams = streams.size();
  g.before.resize(g.size());
  g.after.resize(g.size());
  g.on_stream.resize(g.streams);
  for (std::size_t n = 0; n < g.size(); ++n) {
    g.on_stream[g.stream[n]].push_back(n);
    for (const std::int32_t a : after[static_cast<std::size_t>(g.task[n])]) {
      const std::size_t later = number[static_cast<std::size_t>(a)];
      g.after[n].push_back(later);
      g.before[later].push_back(n);
    }
  }
  find_tails(g);
  return g;
}

}  // namespace moeplan::planner
