#include "planner/search/search_result.hpp"

#include <algorithm>

namespace moeplan::planner {

void sort_by_makespan(std::vector<Evaluated>& ranked) {
  std::stable_sort(ranked.begin(), ranked.end(), [](const Evaluated& a, const Evaluated& b) {
    if (a.makespan && b.makespan) return *a.makespan < *b.makespan;
    return a.makespan.has_value() && !b.makespan.has_value();
  });
}

void bring_ideas_forward(std::vector<Evaluated>& ranked, std::size_t count) {
  for (std::size_t shown = 0; shown < std::min(count, ranked.size()); ++shown) {
    const auto front = ranked.begin() + static_cast<std::ptrdiff_t>(shown);
    const auto is_new = [&](const Evaluated& e) {
      return std::none_of(ranked.begin(), front, [&](const Evaluated& before) {
        return before.candidate.degrees == e.candidate.degrees && before.candidate.schedule == e.candidate.schedule &&
               before.candidate.recompute == e.candidate.recompute &&
               before.candidate.rank_order == e.candidate.rank_order;
      });
    };
    const auto next = std::find_if(front, ranked.end(), is_new);
    if (next == ranked.end()) return;
    std::rotate(front, next, next + 1);
  }
}

}  // namespace moeplan::planner
