#include <algorithm>
#include <cassert>
#include <optional>

#include "planner/placement/exact_placement.hpp"
#include "planner/placement/strategies/shadow.hpp"

namespace moeplan {

namespace {

class PriceSearch {
 public:
  PriceSearch(const RoutingCounts& counts, const PlacementDevices& devices, std::int64_t budget)
      : devices_(devices),
        equal_sources_(counts.same_for_all_sources()),
        budget_(budget),
        columns_(counts),
        traffic_(columns_, devices),
        order_(heaviest_first(columns_.loads())),
        free_(static_cast<std::size_t>(devices.ranks), devices.slots),
        homes_(order_.size(), 0) {
    for (const std::int64_t load : columns_.loads())
      mean_ += static_cast<double>(load) / static_cast<double>(devices.ranks);
    // What must leave: of each expert's tokens, those of all nodes (in one node: ranks) but the one with the most.
    const bool one_node = devices.nodes() == 1;
    must_travel_.assign(order_.size() + 1, 0);
    for (std::size_t i = order_.size(); i-- > 0;) {
      std::vector<std::int64_t> kept(static_cast<std::size_t>(one_node ? devices.ranks : devices.nodes()), 0);
      const auto column = columns_.column(order_[i]);
      for (std::size_t s = 0; s < column.size(); ++s) {
        kept[one_node ? s : static_cast<std::size_t>(devices.node_of(static_cast<std::int64_t>(s)))] += column[s];
      }
      must_travel_[i] = must_travel_[i + 1] + columns_.load(order_[i]) - *std::max_element(kept.begin(), kept.end());
    }
    const auto ranks = static_cast<double>(devices.ranks), nodes = static_cast<double>(devices.nodes());
    seconds_a_token_ =
        devices.token_bytes.value() * (one_node ? 1 / (ranks * devices.rank_bandwidth.value())
                                                : std::max(1 / (ranks * devices.nic_bandwidth.value()),
                                                           1 / (nodes * devices.node_bandwidth.value())));
  }

  ExactPrice run(const std::vector<std::int64_t>& start) {
    best_.homes = start;
    for (std::size_t e = 0; e < start.size(); ++e) traffic_.add(e, alone(start[e]), Nearest::Rank);
    best_.price = traffic_.time().total;
    for (std::size_t e = 0; e < start.size(); ++e) traffic_.remove(e, alone(start[e]), Nearest::Rank);
    place(0, 0);
    best_.nodes = nodes_;
    best_.proved = nodes_ < budget_;
    return best_;
  }

 private:
  static ExpertPlace alone(std::int64_t rank) {
    const RankId id(static_cast<std::int32_t>(rank));
    return {id, {{id, 1, 1}}};
  }

  /// No placement that goes on from here is cheaper. `travelled` tokens left their node (in one node: rank) so far.
  [[nodiscard]] Seconds bound(std::size_t next, std::int64_t travelled) const {
    const LayerTime now = traffic_.time();
    const Seconds compute = std::max(now.compute, devices_.token_time * mean_);
    const Seconds exchange =
        std::max(now.exchange, Seconds(seconds_a_token_ * static_cast<double>(travelled + must_travel_[next])));
    return devices_.trains ? 4 * exchange + 3 * compute : 2 * exchange + compute;
  }

  [[nodiscard]] std::int64_t travels(std::size_t expert, std::int64_t rank) const {
    const auto column = columns_.column(expert);
    if (devices_.nodes() == 1) return columns_.load(expert) - column[static_cast<std::size_t>(rank)];
    const std::int64_t node = devices_.node_of(rank);
    std::int64_t away = columns_.load(expert);
    for (std::int64_t r = node * devices_.ranks_per_node;
         r < std::min(devices_.ranks, (node + 1) * devices_.ranks_per_node); ++r) {
      away -= column[static_cast<std::size_t>(r)];
    }
    return away;
  }

  /// Whether an earlier rank stands for this one: both empty, in one node or in nodes that are empty and as large.
  [[nodiscard]] bool is_copy(std::int64_t rank) const {
    if (!equal_sources_ || free_[static_cast<std::size_t>(rank)] < devices_.slots) return false;
    const std::int64_t m = devices_.ranks_per_node, first = devices_.node_of(rank) * m;
    for (std::int64_t r = first; r < rank; ++r) {
      if (free_[static_cast<std::size_t>(r)] == devices_.slots) return true;
    }
    return first > 0 && first + m <= devices_.ranks && is_empty(first, m) && is_empty(first - m, m);
  }
  [[nodiscard]] bool is_empty(std::int64_t first, std::int64_t count) const {
    return std::all_of(free_.begin() + first, free_.begin() + first + count,
                       [&](std::int64_t f) { return f == devices_.slots; });
  }

  void place(std::size_t next, std::int64_t travelled) {
    if (++nodes_ >= budget_) return;
    if (next == order_.size()) {
      if (const Seconds price = traffic_.time().total; price < best_.price) {
        best_.price = price;
        for (std::size_t i = 0; i < order_.size(); ++i) best_.homes[order_[i]] = homes_[i];
      }
      return;
    }
    struct Branch {
      Seconds bound;
      std::int64_t rank;
    };
    std::vector<Branch> branches;
    const std::size_t e = order_[next];
    for (std::int64_t r = 0; r < devices_.ranks; ++r) {
      if (free_[static_cast<std::size_t>(r)] == 0 || is_copy(r)) continue;
      traffic_.add(e, alone(r), Nearest::Rank);
      branches.push_back({bound(next + 1, travelled + travels(e, r)), r});
      traffic_.remove(e, alone(r), Nearest::Rank);
    }
    std::stable_sort(branches.begin(), branches.end(),
                     [](const Branch& a, const Branch& b) { return a.bound < b.bound; });
    for (const Branch& branch : branches) {
      if (branch.bound >= best_.price || nodes_ >= budget_) break;
      traffic_.add(e, alone(branch.rank), Nearest::Rank);
      --free_[static_cast<std::size_t>(branch.rank)];
      homes_[next] = branch.rank;
      place(next + 1, travelled + travels(e, branch.rank));
      ++free_[static_cast<std::size_t>(branch.rank)];
      traffic_.remove(e, alone(branch.rank), Nearest::Rank);
    }
  }

  PlacementDevices devices_;
  bool equal_sources_;
  std::int64_t budget_;
  ExpertColumns columns_;
  LayerTraffic traffic_;
  std::vector<std::size_t> order_;
  std::vector<std::int64_t> free_, homes_;
  std::vector<std::int64_t> must_travel_;  // at least, of the experts from here on
  double mean_ = 0;
  double seconds_a_token_ = 0;  // that travels, if all ports share alike
  std::int64_t nodes_ = 0;
  ExactPrice best_;
};

}  // namespace

ExactPrice exact_price(const RoutingCounts& counts, const PlacementDevices& devices,
                       const std::vector<std::int64_t>& start, std::int64_t budget) {
  assert(static_cast<std::int64_t>(start.size()) == counts.experts() && "every expert has a home to start from");
  return PriceSearch(counts, devices, budget).run(start);
}

}  // namespace moeplan
