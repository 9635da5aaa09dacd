#include "planner/search/search_result.hpp"

#include <algorithm>

namespace moeplan::planner {

namespace {

bool is_faster(const Evaluated& a, const Evaluated& b) {
  if (a.makespan && b.makespan) return *a.makespan < *b.makespan;
  return a.makespan.has_value() && !b.makespan.has_value();
}

}  // namespace

void sort_by_makespan(std::vector<Evaluated>& ranked) { std::stable_sort(ranked.begin(), ranked.end(), is_faster); }

bool is_same_idea(const Candidate& a, const Candidate& b) {
  return a.degrees == b.degrees && a.schedule == b.schedule && a.recompute == b.recompute &&
         a.rank_order == b.rank_order;
}

void bring_ideas_forward(std::vector<Evaluated>& ranked, std::size_t count) {
  const auto end = ranked.begin() + static_cast<std::ptrdiff_t>(std::min(count, ranked.size()));
  for (auto front = ranked.begin(); front != end; ++front) {
    const auto is_new = [&](const Evaluated& e) {
      return std::none_of(ranked.begin(), front,
                          [&](const Evaluated& before) { return is_same_idea(before.candidate, e.candidate); });
    };
    const auto next = std::find_if(front, ranked.end(), is_new);
    if (next == ranked.end()) break;
    std::rotate(front, next, next + 1);
  }
  std::stable_sort(ranked.begin(), end, is_faster);
}

}  // namespace moeplan::planner
