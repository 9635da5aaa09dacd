#include <algorithm>
#include <cassert>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "model/base/whole_numbers.hpp"
#include "planner/placement/exact_placement.hpp"
#include "planner/placement/shadow.hpp"

namespace moeplan::planner {

namespace {

using Mask = std::uint64_t;

class BinSearch {
 public:
  BinSearch(std::span<const std::int64_t> loads, std::int64_t ranks, std::int64_t slots, std::int64_t budget)
      : ranks_(ranks), slots_(slots), budget_(budget), order_(heaviest_first(loads)) {
    for (const std::size_t e : order_) w_.push_back(loads[e]);
    total_ = std::accumulate(w_.begin(), w_.end(), std::int64_t{0});
    bins_.assign(w_.size(), 0);
  }

  ExactLoad run() {
    start_with_longest_first();
    const std::int64_t bound = lower_bound();
    bool complete = true;
    while (largest_ > bound) {
      limit_ = largest_ - 1;
      const Mask all = w_.size() == 64 ? ~Mask{0} : (Mask{1} << w_.size()) - 1;
      const bool found = fits(all, total_, static_cast<std::int64_t>(w_.size()), ranks_);
      if (!found) {
        complete = nodes_ < budget_;
        break;
      }
      adopt();
    }
    ExactLoad result{std::vector<std::int64_t>(w_.size()), largest_, complete ? largest_ : bound, complete, nodes_};
    for (std::size_t i = 0; i < w_.size(); ++i) result.homes[order_[i]] = best_[i];
    return result;
  }

 private:
  void start_with_longest_first() {
    std::vector<std::int64_t> load(static_cast<std::size_t>(ranks_), 0), held(load.size(), 0);
    for (const std::int64_t w : w_) {
      std::size_t best = load.size();
      for (std::size_t r = 0; r < load.size(); ++r) {
        if (held[r] < slots_ && (best == load.size() || load[r] < load[best])) best = r;
      }
      load[best] += w;
      ++held[best];
      best_.push_back(static_cast<std::int64_t>(best));
    }
    largest_ = *std::max_element(load.begin(), load.end());
  }

  [[nodiscard]] std::int64_t lower_bound() const {
    const auto n = static_cast<std::int64_t>(w_.size());
    std::int64_t bound = ceil_div(total_, ranks_);
    // Some k + 1 of the k R + 1 heaviest experts share a rank. A rank also holds at least the experts that do not fit
    // into the slots of the others.
    for (std::int64_t k = 0; k * ranks_ < n; ++k) {
      std::int64_t together = 0;
      for (std::int64_t i = k * ranks_ - k; i <= k * ranks_; ++i) together += w_[static_cast<std::size_t>(i)];
      bound = std::max(bound, together);
    }
    const std::int64_t fewest = std::max<std::int64_t>(1, n - (ranks_ - 1) * slots_);
    return std::max(bound, std::accumulate(w_.end() - (fewest - 1), w_.end(), w_.front()));
  }

  /// Whether the experts of `left` fit on `ranks` ranks within limit_; if so, bins_ holds the assignment.
  bool fits(Mask left, std::int64_t sum, std::int64_t count, std::int64_t ranks) {
    if (left == 0) return true;
    if (sum > ranks * limit_ || count > ranks * slots_ || nodes_ >= budget_) return false;
    const auto known = failed_.find(left);
    if (known != failed_.end() && known->second >= ranks) return false;
    const auto first = static_cast<std::size_t>(__builtin_ctzll(left));
    Bin bin{left & ~(Mask{1} << first), sum - w_[first], count - 1, ranks, w_[first], 1};
    bins_[first] = ranks - 1;
    if (fill(bin, first + 1)) return true;
    if (nodes_ < budget_) failed_[left] = ranks;
    return false;
  }

  struct Bin {
    Mask left;
    std::int64_t sum, count;  // of the remaining experts
    std::int64_t ranks;       // including this one
    std::int64_t load;
    std::int64_t held;
  };

  /// Adds experts from `next` on in every combination that can help, heavy ones first, then fills the other ranks.
  bool fill(const Bin& bin, std::size_t next) {
    if (++nodes_ >= budget_) return false;
    const std::int64_t others = bin.ranks - 1;
    std::int64_t room = slots_ - bin.held, lightest_reach = bin.load;
    for (std::size_t i = next; i < w_.size() && room > 0; ++i) {
      if (!(bin.left >> i & 1)) continue;
      lightest_reach += w_[i];
      --room;
    }
    // lightest_reach is an upper bound on this bin's final load, ignoring its limit.
    if (bin.sum - (lightest_reach - bin.load) > others * limit_) return false;
    if (bin.held < slots_) {
      std::optional<std::int64_t> refused;  // if an expert did not help, equal ones do not either
      for (std::size_t i = next; i < w_.size(); ++i) {
        if (!(bin.left >> i & 1) || bin.load + w_[i] > limit_ || refused == w_[i]) continue;
        Bin fuller{bin.left & ~(Mask{1} << i), bin.sum - w_[i], bin.count - 1, bin.ranks,
                   bin.load + w_[i],           bin.held + 1};
        bins_[i] = bin.ranks - 1;
        if (fill(fuller, i + 1)) return true;
        if (nodes_ >= budget_) return false;
        refused = w_[i];
      }
    }
    return fits(bin.left, bin.sum, bin.count, others);
  }

  void adopt() {
    std::vector<std::int64_t> load(static_cast<std::size_t>(ranks_), 0);
    for (std::size_t i = 0; i < w_.size(); ++i) load[static_cast<std::size_t>(bins_[i])] += w_[i];
    best_ = bins_;
    largest_ = *std::max_element(load.begin(), load.end());
  }

  std::int64_t ranks_, slots_, budget_;
  std::vector<std::size_t> order_;  // experts by descending load
  std::vector<std::int64_t> w_;     // their loads
  std::int64_t total_ = 0, limit_ = 0, largest_ = 0, nodes_ = 0;
  std::vector<std::int64_t> bins_, best_;
  std::unordered_map<Mask, std::int64_t> failed_;  // largest number of ranks on which a set is known not to fit
};

}  // namespace

ExactLoad exact_load(std::span<const std::int64_t> loads, std::int64_t ranks, std::int64_t slots, std::int64_t budget) {
  assert(!loads.empty() && static_cast<std::int64_t>(loads.size()) <= std::min(kMostExactExperts, slots * ranks) &&
         "the experts fit into slots, and into a word");
  return BinSearch(loads, ranks, slots, budget).run();
}

}  // namespace moeplan::planner
