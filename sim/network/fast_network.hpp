// The max-min network that touches only what changes.
//
// Every resource (link) has a level; a flow is owned by the link of its way with the least level and runs at it. The
// fixed point of
//
//   level_l = (C_l - R_l) / N_l,   N_l = sum of loads w_f a_fl of the flows that l owns,
//                                  R_l = sum of loads times owner's level of the other flows on l,
//
// with every flow owned by the least level of its way, and level_l infinite where l owns nothing and R_l <= C_l, is the
// max-min allocation (network.hpp). The engine keeps this fixed point from event to event:
//
//  - A link keeps a clock, the integral of its level over time. A flow that it owns ends when the clock reaches the
//    flow's target, so that nothing per flow is touched as time passes. Only the next few ends stand in a heap.
//  - A change (an end, a start, a move) adjusts N and R of the links concerned; these are settled in ascending order of
//    level, each in O(1) while its level stays in its band, and a new level is pushed to R of the links that its owned
//    flows cross, by one contiguous list.
//  - The band [lower, upper] of a link is where its level can move without passing that of any link it shares a flow
//    with: the owner's upper bound is never above another's lower bound. A link that leaves its band scans its flows,
//    solves its level exactly (Newton's method on the concave water-filling function: finite, monotone), and takes or
//    gives away the flows that contradict it.
//  - An unsaturated link with so much room that even its owners' upper bounds ("ceilings") cannot fill it is quiet:
//    nothing is pushed to it. Only when the sum of ceilings passes its capacity does it begin to keep R.
//  - Many starts at one instant fill the connected components they touch anew, progressively; few are placed one by
//  one.
//
// Ties: levels within kTie of each other count as equal and a flow stays with its owner.
//
// Memory: a flow of two uses takes 48 bytes (flow, ways, members), 8 where it crosses a kept link, and 2 or more of the
// heap of ends.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "sim/network/network.hpp"

namespace moeplan::sim {

class FastNetwork final : public Network {
 public:
  /// With `checked`, every event is followed by a test of the definition: std::logic_error if it fails. Slow.
  explicit FastNetwork(bool checked = false) : checked_(checked) {}

  /// Room for so many flows with so many uses in all, so that storage does not double on the way.
  void reserve(std::size_t flows, std::size_t uses);

  ResourceId add_resource(double capacity_bytes_per_s) override;
  FlowId start(std::span<const FlowUse> uses, double bytes, double weight, double now) override;
  [[nodiscard]] std::optional<double> next_completion() override;
  void advance(double now, std::vector<FlowId>& completed) override;
  [[nodiscard]] double bytes_carried(ResourceId resource) const override;
  [[nodiscard]] std::vector<RunningFlow> running() override;

  /// What the engine has done so far, for tests of cost.
  struct Counters {
    std::int64_t events = 0;     // distinct times of completion
    std::int64_t settled = 0;    // levels looked at
    std::int64_t resolved = 0;   // links whose flows were scanned because the level left its band
    std::int64_t corrected = 0;  // links that left their band and were mended by the flows at its border
    std::int64_t moved = 0;      // changes of a flow's owner
    std::int64_t filled = 0;     // links filled anew for many starts
    std::int64_t refilled = 0;   // times that settling did not come to rest and all was filled anew
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kTie = 1e-12;        // relative; 1,000 times finer than the engines' promised agreement
  static constexpr double kCeiling = 1.125;    // of the level at the last scan; trades scans against kept links
  static constexpr double kQuietAgain = 0.9;   // of the capacity: a kept link whose ceilings sum to less turns quiet
  static constexpr std::int32_t kNobody = -1;  // owner of a flow not yet placed: target is then what remains
  static constexpr std::int32_t kEnded = -2;

  struct Flow {
    double target;       // of the owner's clock
    std::int32_t first;  // of its ways in way_; the next flow's ends them
    std::int32_t owner;  // a link, or kNobody, kEnded
  };
  struct Way {  // one use of a flow
    std::int32_t link;
    std::int32_t place;  // of the flow in the link's members
    std::int32_t push;   // of the use in the owner's pushes; meaningless for the owner itself and for links not kept
  };
  struct Push {  // a flow owned here crosses another kept link
    std::int32_t link;
    std::int32_t way;
  };
  struct Due {
    double target;
    std::int32_t flow;
    auto operator<=>(const Due&) const = default;
  };
  static constexpr Due kNoHorizon{kInfinity, 0};
  struct Link {
    double capacity;
    double owned_load = 0;  // N
    double clock = 0;
    double clock_time = 0;
    double ceiling = 0;      // level <= ceiling while it owns flows
    double ceiling_sum = 0;  // if not kept: load times owner's ceiling, of all flows
    double end = kInfinity;  // a lower bound of the next completion's time, as in ends_
    double promised = 0;     // bytes of all flows ever started on it
    std::int32_t owned = 0;  // flows owned: they are the first members
    std::int32_t kept_for = 0;
    bool kept = false;
    bool dirty = false;
    std::vector<std::int32_t> members;  // flows
    std::vector<Push> pushes;
    std::vector<double> push_loads;  // of the pushes; empty while each is push_load
    double push_load = 0;
    std::vector<Due> due;  // heap, least first, of the owned flows not after `horizon`; entries of flows that moved
                           // away remain until met
    Due horizon = kNoHorizon;
  };
  struct Band {
    double level = kInfinity;
    double lower = 0;
    double upper = 0;
  };
  struct Inflow {
    double rate = 0;           // R, if kept
    double limit = kInfinity;  // to be marked when R changes and is above: -inf if the link owns flows, its capacity
                               // if it only watches, inf if it is dirty already or not kept
  };
  struct Ranked {
    double key;
    std::int32_t link;
    bool operator>(const Ranked& other) const { return key != other.key ? key > other.key : link > other.link; }
  };

  static std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
  Link& link(std::int32_t l) { return links_[at(l)]; }
  Band& band(std::int32_t l) { return band_[at(l)]; }
  const Band& band(std::int32_t l) const { return band_[at(l)]; }
  Flow& flow(std::int32_t f) { return flows_[at(f)]; }
  std::int32_t way(const Flow& f, int use) const { return way_[at(f.first + use)].link; }
  static int count(const Flow& f) { return (&f)[1].first - f.first; }
  std::int32_t number_of(const Flow& f) const { return static_cast<std::int32_t>(&f - flows_.data()); }
  FlowId id_of(std::int32_t f) const { return FlowId(ids_.empty() ? f : ids_[at(f)]); }
  std::int32_t loads_of(const Flow& f) const { return loads_.empty() ? 0 : loads_[at(number_of(f))]; }
  double load(const Flow& f, int use) const { return load_[at(loads_of(f) + use)]; }
  int use_of(const Flow& f, std::int32_t l) const;
  double remaining(const Flow& f) const;

  // fast_network.cpp: flows, time and completions
  std::int32_t interned_loads(std::span<const double> loads);
  void process_event(double t, std::vector<FlowId>& completed);
  void complete(std::int32_t f);
  bool is_current(std::int32_t l, const Due& due) const;
  bool find_due(std::int32_t l);
  void collect_due(std::int32_t l);
  void schedule(std::int32_t l);
  double end_of(std::int32_t l) const;
  void push_due(std::int32_t l, std::int32_t f);
  void compact();

  // fast_network_members.cpp: which flows are on a link, and to whom it pushes
  void swap_members(std::int32_t l, std::int32_t a, std::int32_t b);
  void set_owner(std::int32_t f, std::int32_t owner);
  void sort_out_members(std::int32_t l);
  void remove(std::int32_t f);
  void add_push(std::int32_t owner, const Flow& f, int use);
  void drop_push(std::int32_t owner, const Flow& f, int use);

  // fast_network_levels.cpp: the fixed point
  void mark(std::int32_t l);
  void add_rate(std::int32_t l, double rate);
  void set_limit(std::int32_t l);
  void settle();
  void settle(std::int32_t l);
  void resolve(std::int32_t l);
  double water_level(std::int32_t l);
  void give_all_away(std::int32_t l);
  void claim(std::int32_t l, double x);
  void set_level(std::int32_t l, double level);
  void set_clock(std::int32_t l);
  void move(std::int32_t f, std::int32_t to, std::int32_t not_parted_from = -1);
  void give_above(std::int32_t l);
  void take_below(std::int32_t l);
  void part_moved(std::int32_t l);
  void place(std::int32_t f);

  // fast_network_bands.cpp: bands in which levels move freely, and which links keep R
  void separate(std::int32_t owner, std::int32_t other);
  void set_bands(std::int32_t l);
  void mend_owned_load(std::int32_t l, double lost);
  void add_ceiling(std::int32_t l, double amount);
  void keep(std::int32_t l);
  void try_quiet(std::int32_t l);

  // fast_network_fill.cpp: whole components
  void flush();
  void fill(std::int32_t first_seed);
  void collect_component(std::int32_t first_seed);
  void fill_levels();
  void derive_from_levels();
  void refill_everything();
  void check() const;

  std::vector<Link> links_;
  std::vector<Band> band_;      // of each link: apart, since most of the work is with few numbers of many links
  std::vector<Inflow> inflow_;  // likewise
  std::vector<Flow> flows_{{0, 0, kEnded}};  // the last only ends the ways of the one before
  std::vector<std::int32_t> ids_;            // of flows; empty while a flow's number is its id
  std::vector<std::int32_t> loads_;          // of flows, their first in load_; empty while all are 0
  std::vector<Way> way_;
  std::vector<double> load_;
  std::map<std::vector<double>, std::int32_t> load_index_;
  std::vector<Ranked> ends_;                // heap of links by time; an entry counts if its key is the link's end
  std::vector<Ranked> dirty_;               // heap of links by level
  std::vector<std::int32_t> dirty_leaves_;  // dirty links that push to nobody: settled last
  std::vector<std::int32_t> tight_;         // quiet links whose ceilings pass their capacity
  std::vector<double> new_loads_;           // of the flow being started
  std::int32_t last_loads_ = 0;             // of the flow started last: likely the same again
  std::vector<FlowId> immediate_;           // flows that end where they start
  struct Barrier {
    double other;  // the least level of the flow's other links
    double load;
    std::int32_t flow;
    std::int32_t other_link;  // the one of that level, or kNobody
  };
  std::vector<Barrier> meetings_;
  std::vector<std::pair<double, std::int32_t>> candidates_;  // level, and push or flow
  std::vector<std::int32_t> moved_;
  std::vector<std::int32_t> component_links_;
  std::vector<Due> collected_;
  std::int32_t first_starting_ = 0;  // flows from here on have no owner yet
  std::int32_t started_ = 0;
  std::int32_t running_ = 0;
  std::int64_t budget_ = 0;  // settlements left before the event's components are filled anew
  double now_ = 0;
  bool checked_;
  Counters counters_;
};

}  // namespace moeplan::sim
