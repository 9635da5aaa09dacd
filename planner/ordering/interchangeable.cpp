#include "planner/ordering/interchangeable.hpp"

#include <algorithm>
#include <bitset>
#include <map>
#include <tuple>

#include "model/base/to_index.hpp"

namespace moeplan::planner {

namespace {

using Neighbours = std::vector<std::vector<std::int32_t>>;
using Edges = std::vector<std::pair<std::int32_t, std::int32_t>>;
using Tasks = std::bitset<kMostOrderTasks>;

/// Precedences without those that others imply, so that equal parts look equal.
struct Graph {
  Neighbours before, after;

  Graph(std::size_t tasks, const Edges& edges) : before(tasks), after(tasks) {
    std::vector<Tasks> direct(tasks);
    for (const auto& [a, b] : edges) direct[to_index(b)].set(to_index(a));
    std::vector<Tasks> all(tasks);  // everything before
    for (const std::size_t b : topological(direct)) {
      Tasks implied;
      for (std::size_t a = 0; a < tasks; ++a) {
        if (direct[b][a]) implied |= all[a];
      }
      all[b] = implied | direct[b];
      const Tasks needed = direct[b] & ~implied;
      for (std::size_t a = 0; a < tasks; ++a) {
        if (!needed[a]) continue;
        before[b].push_back(static_cast<std::int32_t>(a));
        after[a].push_back(static_cast<std::int32_t>(b));
      }
    }
  }

 private:
  static std::vector<std::size_t> topological(const std::vector<Tasks>& direct) {
    std::vector<std::size_t> out;
    Tasks done;
    while (out.size() < direct.size()) {
      for (std::size_t b = 0; b < direct.size(); ++b) {
        if (done[b] || (direct[b] & ~done).any()) continue;
        done.set(b);
        out.push_back(b);
      }
    }
    return out;
  }
};

/// Colour refinement: tasks of one colour have the same stream, the same duration, and equal numbers of neighbours of
/// each colour, refined until nothing changes.
std::vector<std::int32_t> colours(const OrderProblem& problem, const Graph& graph) {
  using Signature =
      std::tuple<std::int32_t, std::int64_t, std::int32_t, std::vector<std::int32_t>, std::vector<std::int32_t>>;
  std::vector<std::int32_t> colour(problem.size(), 0);
  for (std::size_t known = 0;;) {
    std::vector<Signature> signatures;
    std::map<Signature, std::int32_t> numbers;
    for (std::size_t i = 0; i < problem.size(); ++i) {
      const auto coloured = [&](const std::vector<std::int32_t>& tasks) {
        std::vector<std::int32_t> out;
        for (const std::int32_t t : tasks) out.push_back(colour[to_index(t)]);
        std::sort(out.begin(), out.end());
        return out;
      };
      signatures.emplace_back(problem[i].stream, problem[i].duration.picoseconds(), colour[i],
                              coloured(graph.before[i]), coloured(graph.after[i]));
      numbers.emplace(signatures.back(), 0);
    }
    std::int32_t next = 0;
    for (auto& [signature, number] : numbers) number = next++;
    for (std::size_t i = 0; i < problem.size(); ++i) colour[i] = numbers.at(signatures[i]);
    if (numbers.size() == known) return colour;
    known = numbers.size();
  }
}

/// Precedences between tasks with the same neighbours: each is a chunk by itself.
Edges twins(const std::vector<std::int32_t>& colour, const Graph& graph) {
  std::map<std::tuple<std::int32_t, std::vector<std::int32_t>, std::vector<std::int32_t>>, std::int32_t> last;
  Edges out;
  for (std::size_t i = 0; i < colour.size(); ++i) {
    const auto task = static_cast<std::int32_t>(i);
    const auto [it, is_new] = last.try_emplace({colour[i], graph.before[i], graph.after[i]}, task);
    if (is_new) continue;
    out.emplace_back(it->second, task);
    it->second = task;
  }
  return out;
}

/// Connected components of the tasks without a unique colour, as (colour, task) in order of colour.
std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> chunks(const std::vector<std::int32_t>& colour,
                                                                       const Graph& graph) {
  std::map<std::int32_t, int> uses;
  for (const std::int32_t c : colour) ++uses[c];
  std::vector<bool> seen(colour.size(), false);
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> out;
  for (std::size_t first = 0; first < colour.size(); ++first) {
    if (seen[first] || uses[colour[first]] == 1) continue;
    std::vector<std::int32_t> open{static_cast<std::int32_t>(first)};
    seen[first] = true;
    auto& chunk = out.emplace_back();
    while (!open.empty()) {
      const std::int32_t task = open.back();
      open.pop_back();
      chunk.emplace_back(colour[to_index(task)], task);
      for (const auto* side : {&graph.before[to_index(task)], &graph.after[to_index(task)]}) {
        for (const std::int32_t other : *side) {
          if (seen[to_index(other)] || uses[colour[to_index(other)]] == 1) continue;
          seen[to_index(other)] = true;
          open.push_back(other);
        }
      }
    }
    std::sort(chunk.begin(), chunk.end());
  }
  return out;
}

/// A neighbour of a shared colour is in the same chunk, which has one task of each colour: chunks with the same colours
/// are therefore copies, colour by colour.
Edges between_chunks(const std::vector<std::int32_t>& colour, const Graph& graph) {
  std::map<std::vector<std::int32_t>, std::vector<std::pair<std::int32_t, std::int32_t>>> last;
  Edges out;
  for (const auto& chunk : chunks(colour, graph)) {
    std::vector<std::int32_t> kinds;
    for (const auto& [kind, task] : chunk) kinds.push_back(kind);
    if (std::adjacent_find(kinds.begin(), kinds.end()) != kinds.end()) continue;
    const auto [it, is_new] = last.try_emplace(kinds, chunk);
    if (is_new) continue;
    for (std::size_t k = 0; k < chunk.size(); ++k) out.emplace_back(it->second[k].second, chunk[k].second);
    it->second = chunk;
  }
  return out;
}

}  // namespace

Edges non_overtaking(const OrderProblem& problem) {
  Edges edges, added;
  for (std::size_t i = 0; i < problem.size(); ++i) {
    for (const std::int32_t a : problem[i].after) edges.emplace_back(a, static_cast<std::int32_t>(i));
  }
  // The added precedences give a problem with fewer symmetries, which may have others.
  while (true) {
    const Graph graph(problem.size(), edges);
    const std::vector<std::int32_t> colour = colours(problem, graph);
    Edges found = twins(colour, graph);
    if (found.empty()) found = between_chunks(colour, graph);
    if (found.empty()) return added;
    edges.insert(edges.end(), found.begin(), found.end());
    added.insert(added.end(), found.begin(), found.end());
  }
}

}  // namespace moeplan::planner
