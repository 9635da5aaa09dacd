#include <algorithm>
#include <cassert>
#include <limits>
#include <numeric>
#include <optional>

#include "model/base/whole_numbers.hpp"
#include "planner/placement/exact_placement.hpp"
#include "planner/placement/shadow.hpp"
#include "tests/support/rank_fronts.hpp"

namespace moeplan::planner {

namespace {

constexpr double kEqual = 1e-12;  // relative: prices that differ by rounding alone

/// Of a list of numbers: the least sum of any `count` of those from `begin` on.
class LeastSums {
 public:
  explicit LeastSums(const std::vector<std::int64_t>& numbers) : sums_(numbers.size() + 1) {
    std::vector<std::int64_t> sorted;
    for (std::size_t begin = numbers.size() + 1; begin-- > 0;) {
      if (begin < numbers.size())
        sorted.insert(std::upper_bound(sorted.begin(), sorted.end(), numbers[begin]), numbers[begin]);
      sums_[begin].assign(1, 0);
      for (const std::int64_t n : sorted) sums_[begin].push_back(sums_[begin].back() + n);
    }
  }
  [[nodiscard]] std::int64_t of(std::size_t begin, std::int64_t count) const {
    return sums_[begin][static_cast<std::size_t>(count)];
  }

 private:
  std::vector<std::vector<std::int64_t>> sums_;
};

class PriceSearch {
 public:
  PriceSearch(const RoutingCounts& counts, const PlacementDevices& devices, std::int64_t budget)
      : devices_(devices),
        equal_sources_(counts.same_for_all_sources()),
        budget_{budget},
        columns_(counts),
        traffic_(columns_, devices),
        order_(heaviest_first(columns_.loads())),
        fewest_(std::max<std::int64_t>(1, std::ssize(order_) - (devices.ranks - 1) * devices.slots)),
        least_load_(in_order([&](std::size_t e) { return columns_.load(e); })),
        out_(static_cast<std::size_t>(devices.ranks), 0),
        free_ranks_(static_cast<std::size_t>(devices.ranks), devices.slots),
        homes_(order_.size(), 0) {
    floor_.computes = devices.trains ? 3 : 1;
    floor_.exchanges = devices.trains ? 4 : 2;
    floor_.token_time = devices.token_time;
    floor_.far_time = devices.token_bytes / (is_one_node() ? devices.rank_bandwidth : devices.nic_bandwidth);
    constexpr std::int64_t kLoadBudget = 50'000;  // of its nodes: some ms
    least_ = static_cast<double>(exact_load(columns_.loads(), devices.ranks, devices.slots, kLoadBudget).lower_bound) *
             devices.token_time;
    for (std::int64_t n = 0; n < devices.nodes(); ++n) nodes_.push_back(node(n));
    for (std::int64_t s = 0; s < devices.ranks; ++s) {
      least_out_.emplace_back(in_order([&](std::size_t e) { return columns_.column(e)[static_cast<std::size_t>(s)]; }));
    }
    must_travel_.assign(order_.size() + 1, 0);
    for (std::size_t i = order_.size(); i-- > 0;) {
      std::int64_t least = std::numeric_limits<std::int64_t>::max();
      for (const Node& n : nodes_) least = std::min(least, n.far[i]);
      must_travel_[i] = must_travel_[i + 1] + least;
    }
  }

  ExactPrice run(const std::vector<std::int64_t>& start) {
    adopt(start);
    place_on_nodes(0, 0, Seconds(0));
    best_.nodes = budget_.used;
    best_.lower_bound = std::min(best_.price, open_);
    best_.proved = open_ >= limit();
    if (best_.proved) best_.lower_bound = best_.price;
    return best_;
  }

 private:
  struct Node {
    std::int64_t begin, ranks, free;
    std::vector<std::int64_t> far;  // by place in the order: its tokens from other nodes; of one node: ranks, at least
    std::vector<Seconds> alone;     // the same: the least price of a rank here that holds it
    LeastSums least_far;
    std::int64_t load = 0, in = 0;  // of the experts here

    [[nodiscard]] bool is_empty(std::int64_t slots) const { return free == ranks * slots; }
  };

  template <class Number>
  [[nodiscard]] std::vector<std::int64_t> in_order(Number number) const {
    std::vector<std::int64_t> out;
    for (const std::size_t e : order_) out.push_back(number(e));
    return out;
  }

  [[nodiscard]] bool is_one_node() const { return devices_.nodes() == 1; }

  Node node(std::int64_t n) const {
    const std::int64_t begin = n * devices_.ranks_per_node;
    const std::int64_t ranks = std::min(devices_.ranks_per_node, devices_.ranks - begin);
    std::vector<std::int64_t> far;
    std::vector<Seconds> alone;
    for (const std::size_t e : order_) {
      const auto own = columns_.column(e).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(ranks));
      far.push_back(columns_.load(e) - (is_one_node() ? *std::max_element(own.begin(), own.end())
                                                      : std::accumulate(own.begin(), own.end(), std::int64_t{0})));
      alone.push_back(floor_(columns_.load(e), far.back()));
    }
    // Beside an expert there are the fewest others, whichever they are.
    std::vector<Seconds> sorted = alone;
    std::sort(sorted.begin(), sorted.end());
    for (Seconds& price : alone) {
      for (std::int64_t i = 1; i < fewest_; ++i) price += sorted[static_cast<std::size_t>(i - 1)];
    }
    LeastSums least(far);
    return {begin, ranks, ranks * devices_.slots, std::move(far), std::move(alone), std::move(least)};
  }

  /// Below it a placement is better than the best one.
  [[nodiscard]] Seconds limit() const { return best_.price * (1 - kEqual); }

  [[nodiscard]] static ExpertPlacement alone(std::int64_t rank) {
    const RankId id(static_cast<std::int32_t>(rank));
    return {id, {{id, 1, 1}}};
  }
  /// The best from now on, where it is better.
  void adopt(const std::vector<std::int64_t>& homes) {
    for (std::size_t e = 0; e < homes.size(); ++e) traffic_.add(e, alone(homes[e]), Nearest::Rank);
    const Seconds price = traffic_.time().total;
    for (std::size_t e = 0; e < homes.size(); ++e) traffic_.remove(e, alone(homes[e]), Nearest::Rank);
    if (best_.homes.empty() || price < best_.price) best_.homes = homes, best_.price = price;
  }

  // --- Nodes ---

  void move(std::size_t i, std::size_t to, std::int64_t sign) {
    Node& node = nodes_[to];
    const auto column = columns_.column(order_[i]);
    for (std::int64_t s = 0; s < devices_.ranks; ++s) {
      if (s < node.begin || s >= node.begin + node.ranks)
        out_[static_cast<std::size_t>(s)] += sign * column[static_cast<std::size_t>(s)];
    }
    node.load += sign * columns_.load(order_[i]);
    node.in += sign * node.far[i];
    node.free -= sign;
  }

  /// The floor of what goes on from here: the experts before `next` are on nodes. `travelled` of their tokens left
  /// them.
  [[nodiscard]] PriceFloor floor(std::size_t next, std::int64_t travelled) const {
    PriceFloor f = floor_;
    const std::int64_t left = std::ssize(order_) - static_cast<std::int64_t>(next);
    std::int64_t free = 0;
    for (const Node& n : nodes_) free += n.free;
    double busiest = 0;  // seconds a byte
    const auto note = [&](std::int64_t tokens, double ports, BytesPerSecond rate) {
      busiest = std::max(busiest, static_cast<double>(tokens) / (ports * rate.value()));
    };
    f.compute = least_;
    for (const Node& n : nodes_) {
      const std::int64_t away = std::max<std::int64_t>(0, left - n.free);
      const std::int64_t here = std::max<std::int64_t>(0, left - (free - n.free));
      const std::int64_t load = ceil_div(n.load + least_load_.of(next, here), n.ranks);
      f.compute = std::max(f.compute, static_cast<double>(load) * devices_.token_time);
      if (is_one_node()) break;
      std::int64_t all_out = 0;
      for (auto s = static_cast<std::size_t>(n.begin); s < static_cast<std::size_t>(n.begin + n.ranks); ++s) {
        const std::int64_t out = out_[s] + least_out_[s].of(next, away);
        note(out, 1, devices_.nic_bandwidth);
        all_out += out;
      }
      const std::int64_t in = n.in + n.least_far.of(next, here);
      note(all_out, 1, devices_.node_bandwidth);
      note(in, 1, devices_.node_bandwidth);
      note(in, static_cast<double>(n.ranks), devices_.nic_bandwidth);
    }
    const std::int64_t travels = travelled + must_travel_[next];
    note(travels, static_cast<double>(devices_.ranks),
         is_one_node() ? devices_.rank_bandwidth : devices_.nic_bandwidth);
    if (!is_one_node()) note(travels, static_cast<double>(devices_.nodes()), devices_.node_bandwidth);
    f.exchange = Seconds(busiest * devices_.token_bytes.value());
    return f;
  }

  /// Whether an earlier node stands for this one: empty, and as large.
  [[nodiscard]] bool is_copy(std::size_t n) const {
    return equal_sources_ && n > 0 && nodes_[n].ranks == nodes_[n - 1].ranks && nodes_[n].is_empty(devices_.slots) &&
           nodes_[n - 1].is_empty(devices_.slots);
  }

  struct Branch {
    Seconds bound;
    std::size_t to;
  };

  /// `alone_price`: the largest least price of a rank with one of the experts that are on nodes.
  void place_on_nodes(std::size_t next, std::int64_t travelled, Seconds alone_price) {
    if (next == order_.size()) return divide_nodes(std::max(alone_price, floor(next, travelled)(0, 0)));
    ++budget_.used;
    std::vector<Branch> branches;
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      if (nodes_[n].free == 0 || is_copy(n)) continue;
      move(next, n, 1);
      const Seconds price = floor(next + 1, travelled + nodes_[n].far[next])(0, 0);
      branches.push_back({std::max({price, alone_price, nodes_[n].alone[next]}), n});
      move(next, n, -1);
    }
    std::stable_sort(branches.begin(), branches.end(),
                     [](const Branch& a, const Branch& b) { return a.bound < b.bound; });
    for (const Branch& branch : branches) {
      if (branch.bound >= limit()) break;
      if (budget_.is_spent()) {
        open_ = std::min(open_, branch.bound);
        break;
      }
      move(next, branch.to, 1);
      homes_[next] = static_cast<std::int64_t>(branch.to);
      place_on_nodes(next + 1, travelled + nodes_[branch.to].far[next],
                     std::max(alone_price, nodes_[branch.to].alone[next]));
      move(next, branch.to, -1);
    }
  }

  // --- Ranks ---

  /// Every expert is on a node; none of the ways to go on is cheaper than `bound`.
  void divide_nodes(Seconds bound) {
    PriceFloor f = floor(order_.size(), travelled_by_all());
    std::vector<RankFront> fronts;
    std::vector<std::vector<std::size_t>> here(nodes_.size());
    for (std::size_t i = 0; i < order_.size(); ++i) here[static_cast<std::size_t>(homes_[i])].push_back(i);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      note_inside(f, here[n], nodes_[n]);
      std::vector<ExpertWeights> experts;
      for (const std::size_t i : here[n]) experts.push_back({columns_.load(order_[i]), nodes_[n].far[i]});
      fronts.push_back(rank_front(experts, nodes_[n].ranks, devices_.slots, f, limit(), budget_));
      if (!fronts.back().is_complete) {
        open_ = std::min(open_, bound);
        return;
      }
      if (fronts.back().points.empty()) return;
      const auto least = [&](auto member) {
        std::int64_t value = std::numeric_limits<std::int64_t>::max();
        for (const RankFront::Point& p : fronts.back().points) value = std::min(value, p.*member);
        return static_cast<double>(value);
      };
      f.compute = std::max(f.compute, least(&RankFront::Point::load) * f.token_time);
      f.exchange = std::max(f.exchange, least(&RankFront::Point::far) * f.far_time);
    }
    const std::optional<Seconds> least = adopt_best_of(fronts, here, f);
    if (!least || *least >= limit()) return;
    // Busiest is a port inside a node: ranks differ.
    split_ = homes_;
    place_on_ranks(0, f, std::max(bound, *least));
    homes_ = split_;
  }

  [[nodiscard]] std::int64_t travelled_by_all() const {
    std::int64_t sum = 0;
    for (const Node& n : nodes_) sum += n.in;
    return sum;
  }

  /// What passes between the ranks of a node in any case: all but what the rank with most of it keeps.
  void note_inside(PriceFloor& f, const std::vector<std::size_t>& experts, const Node& node) const {
    if (is_one_node()) return;
    std::int64_t inside = 0;
    for (const std::size_t i : experts) {
      const auto own = columns_.column(order_[i]).subspan(static_cast<std::size_t>(node.begin),
                                                          static_cast<std::size_t>(node.ranks));
      inside += columns_.load(order_[i]) - node.far[i] - *std::max_element(own.begin(), own.end());
    }
    f.exchange = std::max(f.exchange, static_cast<double>(inside) / static_cast<double>(node.ranks) *
                                          (devices_.token_bytes / devices_.rank_bandwidth));
  }

  /// The least floor of any choice of a point for each node, whose placement is looked at; none: not below the limit.
  std::optional<Seconds> adopt_best_of(const std::vector<RankFront>& fronts,
                                       const std::vector<std::vector<std::size_t>>& here, const PriceFloor& f) {
    std::optional<Seconds> least;
    std::vector<const RankFront::Point*> chosen;
    for (const RankFront& front : fronts) {
      for (const RankFront::Point& most : front.points) {  // with no more traffic than this one
        std::vector<const RankFront::Point*> points;
        std::int64_t load = 0;
        for (const RankFront& other : fronts) {
          const RankFront::Point* lightest = nullptr;
          for (const RankFront::Point& p : other.points) {
            if (p.far <= most.far && (!lightest || p.load < lightest->load)) lightest = &p;
          }
          if (!lightest) break;
          load = std::max(load, lightest->load);
          points.push_back(lightest);
        }
        if (points.size() < fronts.size()) continue;
        const Seconds price = f(load, most.far);
        if (price >= limit() || (least && price >= *least)) continue;
        least = price;
        chosen = std::move(points);
      }
    }
    if (!least) return std::nullopt;
    std::vector<std::int64_t> homes(order_.size(), 0);
    for (std::size_t n = 0; n < nodes_.size(); ++n) {
      for (std::size_t k = 0; k < here[n].size(); ++k) {
        homes[order_[here[n][k]]] = nodes_[n].begin + chosen[n]->ranks[k];
      }
    }
    adopt(homes);
    return least;
  }

  /// Experts one by one on the ranks of their nodes (split_), with all ports. `bound`: of all of this.
  void place_on_ranks(std::size_t next, const PriceFloor& f, Seconds bound) {
    if (budget_.is_spent()) {
      open_ = std::min(open_, bound);
      return;
    }
    ++budget_.used;
    if (next == order_.size()) {
      if (const Seconds price = traffic_.time().total; price < best_.price) {
        best_.price = price;
        for (std::size_t i = 0; i < order_.size(); ++i) best_.homes[order_[i]] = homes_[i];
      }
      return;
    }
    std::vector<Branch> branches;
    const std::size_t e = order_[next];
    const Node& node = nodes_[static_cast<std::size_t>(split_[next])];
    bool had_empty = false;
    for (auto r = static_cast<std::size_t>(node.begin); r < static_cast<std::size_t>(node.begin + node.ranks); ++r) {
      const bool is_empty = free_ranks_[r] == devices_.slots;
      if (free_ranks_[r] == 0 || (equal_sources_ && is_empty && had_empty)) continue;
      had_empty = had_empty || is_empty;
      traffic_.add(e, alone(static_cast<std::int64_t>(r)), Nearest::Rank);
      const LayerTime now = traffic_.time();
      traffic_.remove(e, alone(static_cast<std::int64_t>(r)), Nearest::Rank);
      branches.push_back(
          {f.computes * std::max(now.compute, f.compute) + f.exchanges * std::max(now.exchange, f.exchange), r});
    }
    std::stable_sort(branches.begin(), branches.end(),
                     [](const Branch& a, const Branch& b) { return a.bound < b.bound; });
    for (const Branch& branch : branches) {
      if (branch.bound >= limit()) break;
      const auto rank = static_cast<std::int64_t>(branch.to);
      traffic_.add(e, alone(rank), Nearest::Rank);
      --free_ranks_[branch.to];
      homes_[next] = rank;
      place_on_ranks(next + 1, f, std::max(bound, branch.bound));
      ++free_ranks_[branch.to];
      traffic_.remove(e, alone(rank), Nearest::Rank);
    }
  }

  PlacementDevices devices_;
  bool equal_sources_;
  SearchBudget budget_;
  ExpertColumns columns_;
  LayerTraffic traffic_;
  std::vector<std::size_t> order_;  // experts, heaviest first; the vectors below are by place in it
  std::int64_t fewest_;             // experts on a rank with any
  LeastSums least_load_;
  PriceFloor floor_{};
  Seconds least_{};  // to compute, of the fullest rank, wherever experts are
  std::vector<Node> nodes_;
  std::vector<LeastSums> least_out_;                       // by source
  std::vector<std::int64_t> must_travel_;                  // of the experts from here on, to other nodes, at least
  std::vector<std::int64_t> out_;                          // by source: to experts on other nodes
  std::vector<std::int64_t> free_ranks_;                   // slots
  std::vector<std::int64_t> homes_;                        // nodes, then ranks
  std::vector<std::int64_t> split_;                        // nodes
  Seconds open_{std::numeric_limits<double>::infinity()};  // the least bound of what was not looked at
  ExactPrice best_;
};

}  // namespace

ExactPrice exact_price(const RoutingCounts& counts, const PlacementDevices& devices,
                       const std::vector<std::int64_t>& start, std::int64_t budget) {
  assert(static_cast<std::int64_t>(start.size()) == counts.experts() && "every expert has a home to start from");
  return PriceSearch(counts, devices, budget).run(start);
}

}  // namespace moeplan::planner
