#include "planner/placement/balanced_parts.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "model/base/whole_numbers.hpp"

namespace moeplan::planner {

namespace {

/// Dinic's maximum flow from loads (`left` is the residual capacity of their source edge) to machines (`room` is that
/// of their sink edge).
class Flow {
 public:
  Flow(std::span<const std::int64_t> fixed, std::span<const DivisibleLoad> loads)
      : fixed_(fixed), loads_(loads), room_(fixed.size()), at_(fixed.size()) {
    for (std::size_t i = 0; i < loads.size(); ++i) {
      left_.push_back(loads[i].amount);
      parts_.emplace_back(loads[i].machines.size(), 0);
      for (std::size_t k = 0; k < loads[i].machines.size(); ++k) {
        at_[static_cast<std::size_t>(loads[i].machines[k])].push_back({i, k});
      }
    }
  }

  BalancedParts solve() {
    const std::int64_t all = std::accumulate(fixed_.begin(), fixed_.end(), std::int64_t{0}) +
                             std::accumulate(left_.begin(), left_.end(), std::int64_t{0});
    std::int64_t t = std::max(*std::max_element(fixed_.begin(), fixed_.end()),
                              ceil_div(all, static_cast<std::int64_t>(fixed_.size())));
    for (std::size_t m = 0; m < fixed_.size(); ++m) room_[m] = t - fixed_[m];
    while (true) {
      while (find_levels()) {
        next_load_.assign(loads_.size(), 0);
        next_machine_.assign(fixed_.size(), 0);
        for (std::size_t i = 0; i < loads_.size(); ++i) {
          while (left_[i] > 0) {
            const std::int64_t pushed = push_load(i, left_[i]);
            if (pushed == 0) break;
            left_[i] -= pushed;
          }
        }
      }
      if (std::all_of(left_.begin(), left_.end(), [](std::int64_t l) { return l == 0; })) return {t, parts_};
      const std::int64_t raised = needed_by_cut();
      assert(raised > t && "a cut that is too narrow asks for more");
      for (std::int64_t& room : room_) room += raised - t;
      t = raised;
    }
  }

 private:
  struct Edge {
    std::size_t load, k;
  };
  static constexpr std::int32_t kUnreached = -1;

  /// Computes the levels of the residual graph; whether a machine with room is reachable.
  bool find_levels() {
    load_level_.assign(loads_.size(), kUnreached);
    machine_level_.assign(fixed_.size(), kUnreached);
    std::vector<std::size_t> loads, machines;
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (left_[i] == 0) continue;
      load_level_[i] = 0;
      loads.push_back(i);
    }
    bool found = false;
    for (std::int32_t level = 1; !loads.empty() && !found; level += 2) {
      machines.clear();
      for (const std::size_t i : loads) {
        for (const std::int32_t m : loads_[i].machines) {
          auto& reached = machine_level_[static_cast<std::size_t>(m)];
          if (reached != kUnreached) continue;
          reached = level;
          machines.push_back(static_cast<std::size_t>(m));
          found = found || room_[static_cast<std::size_t>(m)] > 0;
        }
      }
      loads.clear();
      for (const std::size_t m : machines) {
        for (const Edge& edge : at_[m]) {
          if (parts_[edge.load][edge.k] == 0 || load_level_[edge.load] != kUnreached) continue;
          load_level_[edge.load] = level + 1;
          loads.push_back(edge.load);
        }
      }
    }
    return found;
  }

  std::int64_t push_load(std::size_t i, std::int64_t amount) {
    for (std::size_t& k = next_load_[i]; k < loads_[i].machines.size(); ++k) {
      const auto m = static_cast<std::size_t>(loads_[i].machines[k]);
      if (machine_level_[m] != load_level_[i] + 1) continue;
      if (const std::int64_t pushed = push_machine(m, amount); pushed > 0) {
        parts_[i][k] += pushed;
        return pushed;
      }
    }
    return 0;
  }

  std::int64_t push_machine(std::size_t m, std::int64_t amount) {
    if (room_[m] > 0) {
      const std::int64_t pushed = std::min(amount, room_[m]);
      room_[m] -= pushed;
      return pushed;
    }
    for (std::size_t& j = next_machine_[m]; j < at_[m].size(); ++j) {
      const Edge edge = at_[m][j];
      std::int64_t& part = parts_[edge.load][edge.k];
      if (part == 0 || load_level_[edge.load] != machine_level_[m] + 1) continue;
      if (const std::int64_t pushed = push_load(edge.load, std::min(amount, part)); pushed > 0) {
        part -= pushed;
        return pushed;
      }
    }
    return 0;
  }

  /// The bound that the minimum cut gives. After the last find_levels() all machines reachable from unserved loads are
  /// full.
  std::int64_t needed_by_cut() const {
    std::int64_t sum = 0, machines = 0;
    for (std::size_t m = 0; m < fixed_.size(); ++m) {
      if (machine_level_[m] == kUnreached) continue;
      sum += fixed_[m];
      ++machines;
    }
    for (std::size_t i = 0; i < loads_.size(); ++i) {
      if (load_level_[i] != kUnreached) sum += loads_[i].amount;
    }
    return ceil_div(sum, machines);
  }

  std::span<const std::int64_t> fixed_;
  std::span<const DivisibleLoad> loads_;
  std::vector<std::int64_t> left_, room_;
  std::vector<std::vector<std::int64_t>> parts_;
  std::vector<std::vector<Edge>> at_;  // by machine
  std::vector<std::int32_t> load_level_, machine_level_;
  std::vector<std::size_t> next_load_, next_machine_;
};

}  // namespace

BalancedParts balanced_parts(std::span<const std::int64_t> fixed, std::span<const DivisibleLoad> loads) {
  assert(!fixed.empty() && "loads go somewhere");
  return Flow(fixed, loads).solve();
}

}  // namespace moeplan::planner
