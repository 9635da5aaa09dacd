#include "planner/placement/local_search.hpp"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <tuple>

#include "planner/placement/balanced_parts.hpp"
#include "planner/placement/shadow.hpp"

namespace moeplan::planner {

namespace {

constexpr std::size_t kPartners = 16;  // most promising partners for swapping an expert
constexpr std::uint64_t kKicks = 3;    // largest number of random swaps after a local optimum
constexpr std::uint64_t kSeed = 1;
constexpr std::size_t kDividesOften = 512;  // ranks x experts; up to it changes are also priced with new shares

/// A change: experts with their new placements.
using Change = std::vector<std::pair<std::size_t, ExpertPlacement>>;

/// The price of a placement, and how uneven its loads are.
struct PlacementValue {
  Seconds price{};
  double uneven = 0;
  bool operator<(const PlacementValue& other) const {
    constexpr double kEqual = 1e-12;  // relative; generous, since both are sums of the same terms in the same order
    if (price < other.price * (1 - kEqual)) return true;
    return price <= other.price && uneven < other.uneven * (1 - kEqual);
  }
};

ExpertPlacement held_only_at(std::size_t rank) { return {RankId(rank), {{RankId(rank), 1, 1}}}; }

/// The expert's placement with a holder moved to another rank, which does not hold it yet.
ExpertPlacement moved(const ExpertPlacement& place, std::size_t from, std::size_t to) {
  ExpertPlacement result = place;
  const auto it = std::find_if(result.holders.begin(), result.holders.end(),
                               [&](const ExpertHolder& h) { return h.rank.index() == from; });
  ExpertHolder holder = *it;
  holder.rank = RankId(to);
  result.holders.erase(it);
  result.holders.insert(std::find_if(result.holders.begin(), result.holders.end(),
                                     [&](const ExpertHolder& h) { return holder.rank < h.rank; }),
                        holder);
  if (place.home.index() == from) result.home = RankId(to);
  return result;
}

std::int64_t mean_share(const ExpertPlacement& place) {
  std::int64_t sharing = 0, shares = 0;
  for (const ExpertHolder& h : place.holders) {
    sharing += h.share > 0 ? 1 : 0;
    shares += h.share;
  }
  return std::max<std::int64_t>(1, shares / sharing);
}

/// A placement that changes, with its traffic, its free slots and its price.
class PlacementState {
 public:
  PlacementState(const ExpertColumns& columns, const SearchTerms& terms, Placement start)
      : columns_(columns),
        terms_(terms),
        traffic_(columns, terms.devices),
        now_(std::move(start)),
        free_(slots_free(now_, terms.devices)) {
    for (std::size_t e = 0; e < now_.experts.size(); ++e) traffic_.add(e, now_.experts[e], now_.nearest);
  }

  [[nodiscard]] const Placement& now() const { return now_; }
  [[nodiscard]] std::size_t ranks() const { return free_.size(); }
  [[nodiscard]] const LayerTraffic& traffic() const { return traffic_; }
  [[nodiscard]] auto loads() const { return traffic_.loads(); }

  [[nodiscard]] PlacementValue value() const {
    PlacementValue v{traffic_.time().total, 0};
    if (terms_.current) {
      v.price += migration_time(*terms_.current, now_, terms_.devices) / static_cast<double>(terms_.iterations);
    }
    for (const std::int64_t load : traffic_.loads()) v.uneven += static_cast<double>(load) * static_cast<double>(load);
    return v;
  }

  void put(std::size_t e, ExpertPlacement place) {
    traffic_.remove(e, now_.experts[e], now_.nearest);
    for (const ExpertHolder& h : now_.experts[e].holders) free_[h.rank.index()] += h.copies;
    now_.experts[e] = std::move(place);
    for (const ExpertHolder& h : now_.experts[e].holders) free_[h.rank.index()] -= h.copies;
    traffic_.add(e, now_.experts[e], now_.nearest);
  }

  void replace_all(const Placement& placement) {
    for (std::size_t e = 0; e < placement.experts.size(); ++e) {
      if (now_.experts[e] != placement.experts[e]) put(e, placement.experts[e]);
    }
  }

  /// Applies a change; returns its inverse.
  Change made(const Change& change) {
    Change before;
    for (const auto& [e, place] : change) before.emplace_back(e, now_.experts[e]);
    for (const auto& [e, place] : change) put(e, place);
    return before;
  }

  /// The cost in units of a change of experts with one holder: dividing an expert's tokens takes longer with more
  /// holders.
  [[nodiscard]] std::int64_t cost_of(const Change& change) const {
    constexpr std::size_t kFlows = 512;  // flows computed in the time of one unit, approximately
    std::size_t flows = 0;
    for (const auto& [e, place] : change) {
      const std::size_t holders = std::max(place.holders.size(), now_.experts[e].holders.size());
      if (holders > 1) flows += holders * free_.size();
    }
    return static_cast<std::int64_t>(1 + flows / kFlows);
  }

  [[nodiscard]] std::vector<std::size_t> experts_at(std::size_t rank) const {
    std::vector<std::size_t> experts;
    for (std::size_t e = 0; e < now_.experts.size(); ++e) {
      if (now_.experts[e].holder(RankId(rank))) experts.push_back(e);
    }
    std::stable_sort(experts.begin(), experts.end(),
                     [&](std::size_t a, std::size_t b) { return columns_.load(a) > columns_.load(b); });
    return experts;
  }

  /// Estimated load of a holder: its part of the expert's load by share.
  [[nodiscard]] std::int64_t part_of(std::size_t e, const ExpertHolder& holder) const {
    const ExpertPlacement& place = now_.experts[e];
    if (place.holders.size() == 1) return columns_.load(e);
    double shares = 0;
    for (const ExpertHolder& h : place.holders) shares += static_cast<double>(h.share);
    return static_cast<std::int64_t>(static_cast<double>(columns_.load(e)) * static_cast<double>(holder.share) /
                                     shares);
  }

  /// The lightest ranks with a free slot, at most kPartners.
  [[nodiscard]] std::vector<std::size_t> lightest_free() const {
    std::vector<std::size_t> ranks;
    for (std::size_t r = 0; r < free_.size(); ++r) {
      if (free_[r] > 0) ranks.push_back(r);
    }
    const auto loads = traffic_.loads();
    std::stable_sort(ranks.begin(), ranks.end(), [&](std::size_t a, std::size_t b) { return loads[a] < loads[b]; });
    ranks.resize(std::min(ranks.size(), kPartners));
    return ranks;
  }

  /// The change in which `e` takes the slot of `g` on `rank`; empty if `g` would have no holder with a share left.
  [[nodiscard]] Change displaced(std::size_t e, std::size_t g, std::size_t rank) const {
    ExpertPlacement fewer = now_.experts[g], more = now_.experts[e];
    std::erase_if(fewer.holders, [&](const ExpertHolder& h) { return h.rank.index() == rank; });
    if (std::none_of(fewer.holders.begin(), fewer.holders.end(), [](const ExpertHolder& h) { return h.share > 0; }))
      return {};
    if (fewer.home.index() == rank) fewer.home = fewer.holders.front().rank;
    add_holder(more, RankId(rank), mean_share(more));
    return {{e, std::move(more)}, {g, std::move(fewer)}};
  }

  /// The shares that minimise the largest load, for all experts with several holders that have a share; none if there
  /// is no such expert.
  [[nodiscard]] std::optional<Change> divided() const {
    std::vector<std::size_t> experts;
    std::vector<DivisibleLoad> divisible;
    std::vector<std::int64_t> fixed(traffic_.loads().begin(), traffic_.loads().end());
    TokenDivider divider(terms_.devices.ranks, terms_.devices.ranks_per_node);
    for (std::size_t e = 0; e < now_.experts.size(); ++e) {
      const ExpertPlacement& place = now_.experts[e];
      if (place.holders.size() < 2) continue;
      DivisibleLoad load{0, {}};
      for (const ExpertHolder& h : place.holders) {
        if (h.share > 0) load.machines.push_back(h.rank.value());
      }
      if (load.machines.size() < 2) continue;
      for (const TokenFlow& flow : divider.divide(columns_.column(e), place, now_.nearest)) {
        if (now_.nearest != Nearest::Off && flow.source == flow.rank) continue;
        fixed[flow.rank.index()] -= flow.tokens;
        load.amount += flow.tokens;
      }
      experts.push_back(e);
      divisible.push_back(std::move(load));
    }
    if (experts.empty()) return std::nullopt;
    const BalancedParts balanced = balanced_parts(fixed, divisible);
    Change change;
    for (std::size_t i = 0; i < experts.size(); ++i) {
      if (divisible[i].amount == 0) continue;
      ExpertPlacement place = now_.experts[experts[i]];
      std::size_t part = 0;
      for (ExpertHolder& h : place.holders) {
        if (h.share > 0) h.share = balanced.parts[i][part++];
      }
      change.emplace_back(experts[i], std::move(place));
    }
    return change;
  }

 private:
  const ExpertColumns& columns_;
  const SearchTerms& terms_;
  LayerTraffic traffic_;
  Placement now_;
  std::vector<std::int64_t> free_;
};

class LocalSearch {
 public:
  LocalSearch(const ExpertColumns& columns, const SearchTerms& terms, Placement start, std::int64_t trials)
      : trials_(trials),
        state_(columns, terms, std::move(start)),
        divides_often_(experts().size() * state_.ranks() <= kDividesOften),
        value_(state_.value()),
        best_{state_.now(), value_.price, 0} {}

  ImprovedPlacement run() {
    Random random(kSeed);
    while (true) {
      const std::int64_t used_before = used_;
      while (improve()) {
      }
      if (value_.price < best_.price) best_ = {state_.now(), value_.price, 0};
      if (spent() || used_ == used_before) break;  // no change is left to try
      if (value_.price > best_.price) state_.replace_all(best_.placement);
      for (std::uint64_t kicks = 1 + random.below(kKicks); kicks > 0; --kicks) kick(random);
      value_ = state_.value();
    }
    best_.trials = used_;
    return std::move(best_);
  }

 private:
  [[nodiscard]] const std::vector<ExpertPlacement>& experts() const { return state_.now().experts; }
  [[nodiscard]] bool spent() const { return used_ >= trials_; }

  Change divided() {
    std::optional<Change> shares = state_.divided();
    if (!shares) return {};
    ++used_;
    return std::move(*shares);
  }

  /// Prices a change and records the best of a round. On small problems, also with its tokens divided anew.
  void consider(Change change) {
    if (spent()) return;
    used_ += state_.cost_of(change);
    const Change before = state_.made(change);
    remember(change);
    if (divides_often_) {
      if (Change shares = divided(); !shares.empty()) {
        const Change undivided = state_.made(shares);
        change.insert(change.end(), std::make_move_iterator(shares.begin()), std::make_move_iterator(shares.end()));
        remember(change);
        (void)state_.made(undivided);
      }
    }
    (void)state_.made(before);
  }

  void remember(const Change& change) {
    const PlacementValue v = state_.value();
    if (!(v < (chosen_ ? chosen_value_ : value_))) return;
    chosen_ = change;
    chosen_value_ = v;
  }

  bool take() {
    if (!chosen_) return false;
    for (auto& [e, place] : *chosen_) state_.put(e, std::move(place));
    value_ = chosen_value_;
    chosen_.reset();
    return true;
  }

  /// Applies one improving change, the best one for the first expert that has any.
  bool improve() {
    const std::size_t rank = state_.traffic().busiest_rank(), port = state_.traffic().busiest_port();
    for (const std::size_t focus : {rank, port}) {
      for (const std::size_t e : state_.experts_at(focus)) {
        if (spent()) return false;
        exchanges(e, focus);
        moves(e, focus);
        more_holders(e);
        displaces(e);
        fewer_holders(e);
        if (take()) return true;
      }
      if (port == rank) break;
    }
    if (Change shares = divided(); !shares.empty()) consider(std::move(shares));
    if (take()) return true;
    for (std::size_t e = 0; e < experts().size() && !spent(); ++e) {
      fewer_holders(e);
      if (take()) return true;
    }
    return false;
  }

  /// Considers swaps with experts of other ranks, first those that leave the least load on the busier of the two ranks.
  void exchanges(std::size_t e, std::size_t rank) {
    struct Partner {
      std::int64_t larger;
      std::size_t expert, rank;
    };
    const auto loads = state_.loads();
    const ExpertPlacement& place = experts()[e];
    const ExpertHolder& holder = *place.holder(RankId(rank));
    const std::int64_t part = state_.part_of(e, holder);
    std::vector<Partner> partners;
    for (std::size_t g = 0; g < experts().size(); ++g) {
      if (g == e || experts()[g].holder(RankId(rank))) continue;
      for (const ExpertHolder& h : experts()[g].holders) {
        if (h.copies != holder.copies || place.holder(h.rank)) continue;
        const std::int64_t less = part - state_.part_of(g, h);
        partners.push_back({std::max(loads[rank] - less, loads[h.rank.index()] + less), g, h.rank.index()});
      }
    }
    const std::size_t most = std::min(kPartners, partners.size());
    std::partial_sort(partners.begin(), partners.begin() + static_cast<std::ptrdiff_t>(most), partners.end(),
                      [](const Partner& a, const Partner& b) {
                        return std::tuple(a.larger, a.expert, a.rank) < std::tuple(b.larger, b.expert, b.rank);
                      });
    for (std::size_t i = 0; i < most; ++i) {
      const Partner& p = partners[i];
      consider({{e, moved(experts()[e], rank, p.rank)}, {p.expert, moved(experts()[p.expert], p.rank, rank)}});
    }
  }

  void moves(std::size_t e, std::size_t rank) {
    if (experts()[e].holder(RankId(rank))->copies > 1) return;
    for (const std::size_t r : state_.lightest_free()) {
      if (!experts()[e].holder(RankId(r))) consider({{e, moved(experts()[e], rank, r)}});
    }
  }

  /// Considers another holder: only for its own tokens, or with the mean share of the others.
  void more_holders(std::size_t e) {
    for (const std::size_t r : state_.lightest_free()) {
      const ExpertPlacement& place = experts()[e];
      if (place.holder(RankId(r))) continue;
      for (const std::int64_t share : {std::int64_t{0}, mean_share(place)}) {
        ExpertPlacement wider = place;
        add_holder(wider, RankId(r), share);
        consider({{e, std::move(wider)}});
      }
    }
  }

  /// Considers another holder in the slot of an expert that has several holders.
  void displaces(std::size_t e) {
    struct Slot {
      std::int64_t load;
      std::size_t rank, expert;
    };
    std::vector<Slot> slots;
    for (std::size_t g = 0; g < experts().size(); ++g) {
      if (g == e || experts()[g].holders.size() < 2) continue;
      for (const ExpertHolder& h : experts()[g].holders) {
        if (experts()[e].holder(h.rank) || h.copies > 1) continue;
        slots.push_back({state_.loads()[h.rank.index()] - state_.part_of(g, h), h.rank.index(), g});
      }
    }
    const std::size_t most = std::min(kPartners, slots.size());
    std::partial_sort(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(most), slots.end(),
                      [](const Slot& a, const Slot& b) {
                        return std::tuple(a.load, a.rank, a.expert) < std::tuple(b.load, b.rank, b.expert);
                      });
    for (std::size_t i = 0; i < most; ++i) {
      if (Change change = state_.displaced(e, slots[i].expert, slots[i].rank); !change.empty())
        consider(std::move(change));
    }
  }

  void fewer_holders(std::size_t e) {
    const ExpertPlacement place = experts()[e];
    if (place.holders.size() < 2) return;
    for (const ExpertHolder& h : place.holders) {
      if (h.rank == place.home) continue;
      ExpertPlacement narrower = place;
      std::erase_if(narrower.holders, [&](const ExpertHolder& other) { return other.rank == h.rank; });
      std::int64_t shares = 0;
      for (const ExpertHolder& other : narrower.holders) shares += other.share;
      if (shares == 0) continue;
      consider({{e, std::move(narrower)}});
    }
    consider({{e, held_only_at(place.home.index())}});
  }

  /// A random change, if it is possible: two holders of different experts swap ranks, or one expert takes a slot of the
  /// other.
  void kick(Random& random) {
    const std::size_t a = random.below(experts().size()), b = random.below(experts().size());
    if (a != b && experts()[b].holders.size() > 1 && random.below(2) == 0) {
      const ExpertHolder slot = experts()[b].holders[random.below(experts()[b].holders.size())];
      if (slot.copies == 1 && !experts()[a].holder(slot.rank))
        (void)state_.made(state_.displaced(a, b, slot.rank.index()));
      return;
    }
    const ExpertPlacement of_a = experts()[a], of_b = experts()[b];
    const ExpertHolder& from_a = of_a.holders[random.below(of_a.holders.size())];
    const ExpertHolder& from_b = of_b.holders[random.below(of_b.holders.size())];
    if (a == b || from_a.copies != from_b.copies || of_a.holder(from_b.rank) || of_b.holder(from_a.rank)) return;
    state_.put(a, moved(of_a, from_a.rank.index(), from_b.rank.index()));
    state_.put(b, moved(of_b, from_b.rank.index(), from_a.rank.index()));
  }

  std::int64_t trials_;
  std::int64_t used_ = 0;
  PlacementState state_;
  bool divides_often_;
  PlacementValue value_;
  std::optional<Change> chosen_;
  PlacementValue chosen_value_;
  ImprovedPlacement best_;
};

}  // namespace

ImprovedPlacement improve_placement(const ExpertColumns& columns, const SearchTerms& terms, Placement start,
                                    std::int64_t trials) {
  assert(!placement_error(start, terms.devices, columns.experts()) && "a valid placement");
  return LocalSearch(columns, terms, std::move(start), trials).run();
}

}  // namespace moeplan::planner
