#include "tests/support/rank_fronts.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "model/base/whole_numbers.hpp"
#include "planner/placement/exact_placement.hpp"

namespace moeplan::planner {

namespace {

using Mask = std::uint64_t;

class FrontSearch {
 public:
  FrontSearch(std::span<const ExpertWeights> experts, std::int64_t ranks, std::int64_t slots, const PriceFloor& floor,
              Seconds limit, SearchBudget& budget)
      : ranks_(ranks), slots_(slots), floor_(floor), limit_(limit), budget_(budget), order_(experts.size()) {
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](std::size_t a, std::size_t b) { return experts[a].load > experts[b].load; });
    for (const std::size_t e : order_) w_.push_back(experts[e]);
    bins_.assign(w_.size(), 0);
  }

  RankFront run() {
    Left all{w_.size() == 64 ? ~Mask{0} : (Mask{1} << w_.size()) - 1, 0, 0, std::ssize(w_)};
    for (const ExpertWeights& w : w_) all.load += w.load, all.far += w.far;
    divide(all, ranks_, 0, 0);
    out_.is_complete = !budget_.is_spent();
    std::sort(out_.points.begin(), out_.points.end(), [](const auto& a, const auto& b) { return a.load > b.load; });
    return std::move(out_);
  }

 private:
  /// Experts that have no rank yet.
  struct Left {
    Mask mask;
    std::int64_t load, far, count;

    [[nodiscard]] Left without(std::size_t i, const ExpertWeights& w) const {
      return {mask & ~(Mask{1} << i), load - w.load, far - w.far, count - 1};
    }
  };
  struct Bin {
    std::int64_t load, far, held;
  };

  [[nodiscard]] bool is_hopeless(std::int64_t load, std::int64_t far) const {
    if (floor_(load, far) >= limit_) return true;
    return std::any_of(out_.points.begin(), out_.points.end(),
                       [&](const RankFront::Point& p) { return p.load <= load && p.far <= far; });
  }

  /// `load` and `far` are the largest of the ranks that are full.
  void divide(const Left& left, std::int64_t ranks, std::int64_t load, std::int64_t far) {
    if (left.mask == 0) return note(load, far);
    if (left.count > ranks * slots_) return;
    if (is_hopeless(std::max(load, ceil_div(left.load, ranks)), std::max(far, ceil_div(left.far, ranks)))) return;
    const auto first = static_cast<std::size_t>(__builtin_ctzll(left.mask));
    bins_[first] = ranks_ - ranks;
    fill(left.without(first, w_[first]), {w_[first].load, w_[first].far, 1}, first + 1, ranks, load, far);
  }

  /// Adds experts from `next` on to the rank in every way, then goes on with the others.
  void fill(const Left& left, const Bin& bin, std::size_t next, std::int64_t ranks, std::int64_t load,
            std::int64_t far) {
    if (budget_.is_spent()) return;
    ++budget_.used;
    if (is_hopeless(std::max(load, bin.load), std::max(far, bin.far))) return;
    if (bin.held < slots_) {
      for (std::size_t i = next; i < w_.size(); ++i) {
        if (!(left.mask >> i & 1)) continue;
        bins_[i] = ranks_ - ranks;
        fill(left.without(i, w_[i]), {bin.load + w_[i].load, bin.far + w_[i].far, bin.held + 1}, i + 1, ranks, load,
             far);
      }
    }
    if (ranks > 1 || left.mask == 0) divide(left, ranks - 1, std::max(load, bin.load), std::max(far, bin.far));
  }

  void note(std::int64_t load, std::int64_t far) {
    if (is_hopeless(load, far)) return;
    std::erase_if(out_.points, [&](const RankFront::Point& p) { return load <= p.load && far <= p.far; });
    RankFront::Point point{load, far, std::vector<std::int64_t>(w_.size())};
    for (std::size_t i = 0; i < w_.size(); ++i) point.ranks[order_[i]] = bins_[i];
    out_.points.push_back(std::move(point));
  }

  std::int64_t ranks_, slots_;
  const PriceFloor& floor_;
  Seconds limit_;
  SearchBudget& budget_;
  std::vector<std::size_t> order_;  // experts, heaviest first
  std::vector<ExpertWeights> w_;
  std::vector<std::int64_t> bins_;
  RankFront out_;
};

}  // namespace

RankFront rank_front(std::span<const ExpertWeights> experts, std::int64_t ranks, std::int64_t slots,
                     const PriceFloor& floor, Seconds limit, SearchBudget& budget) {
  assert(std::ssize(experts) <= std::min(kMostExactExperts, slots * ranks) && "the experts fit into slots, and a word");
  return FrontSearch(experts, ranks, slots, floor, limit, budget).run();
}

}  // namespace moeplan::planner
