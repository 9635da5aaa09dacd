// An incremental engine for the max-min fair network of network.hpp: an event re-solves only the links it affects.
//
// Every resource (a link, here) has a level. A flow is owned by its bottleneck, the link with the lowest level on its
// path, and its rate is that level. The fixed point of
//
//   level_l = (C_l - R_l) / N_l,   N_l = sum of the loads w_f a_fl of the flows that l owns,
//                                  R_l = sum of load times owner's level over the other flows on l,
//
// in which every flow is owned by the lowest-level link on its path, and level_l is infinite where l owns no flow and
// R_l <= C_l, is the max-min allocation (network.hpp). The engine maintains this fixed point from event to event:
//
//  - Each link has a clock, the integral of its level over time. An owned flow ends when the clock reaches the flow's
//    target, so no per-flow state changes as time passes. Only the next few completions are kept in a heap.
//  - An event (a completion, a start, a change of owner) adjusts N and R of the links concerned. These are settled in
//    ascending order of level, each in O(1) while its level stays within its band. A new level is pushed to the R of
//    the links that its owned flows cross, through one contiguous list.
//  - The band [lower, upper] of a link is the interval in which its level can move without passing the level of any
//    link with which it shares a flow: the owner's upper bound never exceeds the other link's lower bound. A link whose
//    level leaves the band scans its flows, solves its level exactly (Newton's method on the concave water-filling
//    function: finite and monotone), and takes over or hands over the flows whose owner has changed.
//  - A link is quiet if it owns no flow and the upper bounds on the levels of its flows' owners (their "ceilings")
//    cannot fill it: no level is pushed to it. It is kept, i.e. its R is maintained, only once the sum of the ceilings
//    exceeds its capacity.
//  - A change of capacity marks the link to be settled like any other change of its level.
//  - Many starts at one instant re-solve the connected components that they touch, by progressive filling; a few starts
//    are inserted one by one.
//
// Ties: levels within a relative kTie of each other count as equal, and a flow keeps its owner.
//
// Memory: a flow with two uses takes 48 bytes (flow, uses, members), 8 more for each kept link that it crosses, and 2
// or more in the heap of completions.
#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <vector>

#include "sim/network/network.hpp"

namespace moeplan::sim {

/// The incremental network engine.
class FastNetwork final : public Network {
 public:
  /// With `checked`, verifies the max-min definition after every event and raises std::logic_error if it does not hold.
  /// Slow.
  explicit FastNetwork(bool checked = false) : checked_(checked) {}

  /// Reserves storage for `flows` flows with `uses` uses in total, so that it is not reallocated as they are added.
  void reserve(std::size_t flows, std::size_t uses);

  ResourceId add_resource(double capacity_bytes_per_s) override;
  void set_capacity(ResourceId resource, double capacity_bytes_per_s, double now) override;
  FlowId start(std::span<const FlowUse> uses, double bytes, double weight, double now) override;
  [[nodiscard]] std::optional<double> next_completion() override;
  void advance(double now, std::vector<FlowId>& completed) override;
  [[nodiscard]] double bytes_carried(ResourceId resource) const override;
  [[nodiscard]] std::vector<RunningFlow> running() override;

  /// Operation counts since construction, for tests of cost.
  struct Counters {
    std::int64_t events = 0;     // distinct completion times
    std::int64_t settled = 0;    // levels examined
    std::int64_t resolved = 0;   // links whose flows were all scanned because the level left its band
    std::int64_t corrected = 0;  // links that left their band where moving the flows at its edge was enough
    std::int64_t moved = 0;      // changes of a flow's owner
    std::int64_t filled = 0;     // links re-solved by progressive filling after many starts
    std::int64_t refilled = 0;   // full re-solves because settling exceeded its budget
  };
  [[nodiscard]] const Counters& counters() const { return counters_; }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kTie = 1e-12;        // relative; 1,000 times finer than the guaranteed agreement of engines
  static constexpr double kCeiling = 1.125;    // ceiling / level at the last scan; trades scans against kept links
  static constexpr double kQuietAgain = 0.9;   // fraction of the capacity: a kept link with a lower sum of ceilings
                                               // becomes quiet
  static constexpr std::int32_t kNobody = -1;  // owner of a flow without one yet; its target is its remaining bytes
  static constexpr std::int32_t kEnded = -2;

  struct Flow {
    double target;       // value of the owner's clock at which the flow ends
    std::int32_t first;  // index of its first use in crossings_; its uses end where the next flow's begin
    std::int32_t owner;  // a link, or kNobody or kEnded
  };
  struct Crossing {  // one use of a flow: a link on its path
    std::int32_t link;
    std::int32_t place;  // index of the flow in the link's members
    std::int32_t push;   // index of the use in the owner's pushes; unused for the owner itself and for quiet links
  };
  struct Push {  // a flow owned here crosses another kept link
    std::int32_t link;
    std::int32_t crossing;
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
    double ceiling = 0;      // upper bound on the level while it owns flows
    double ceiling_sum = 0;  // if quiet: load times owner's ceiling, summed over all flows
    double end = kInfinity;  // lower bound on the next completion's time, as in ends_
    double promised = 0;     // bytes of all flows ever started on it
    std::int32_t owned = 0;  // number of owned flows, which are the first members
    std::int32_t kept_for = 0;
    bool kept = false;
    bool dirty = false;
    std::vector<std::int32_t> members;  // flows
    std::vector<Push> pushes;
    std::vector<double> push_loads;  // by push; empty while all equal push_load
    double push_load = 0;
    std::vector<Due> due;  // min-heap of the owned flows due up to `horizon`; entries of flows that changed owner are
                           // removed when they reach the top
    Due horizon = kNoHorizon;
  };
  struct Band {
    double level = kInfinity;
    double lower = 0;
    double upper = 0;
  };
  struct Inflow {
    double rate = 0;           // R, if kept
    double limit = kInfinity;  // the link is marked dirty when R changes to a value above this: -inf if it owns flows,
                               // its capacity if it owns none, inf if it is already dirty or is quiet
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
  std::int32_t crossed(const Flow& f, int use) const { return crossings_[at(f.first + use)].link; }
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

  // fast_network_members.cpp: the flows on a link and the links to which it pushes
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

  // fast_network_bands.cpp: bands of levels, and the links whose R is kept
  void separate(std::int32_t owner, std::int32_t other);
  void set_bands(std::int32_t l);
  void mend_owned_load(std::int32_t l, double lost);
  void add_ceiling(std::int32_t l, double amount);
  void keep(std::int32_t l);
  void try_quiet(std::int32_t l);

  // fast_network_fill.cpp: solving whole connected components
  void flush();
  void fill(std::int32_t first_seed);
  void collect_component(std::int32_t first_seed);
  void fill_levels();
  void derive_from_levels();
  void refill_everything();
  void check() const;

  std::vector<Link> links_;
  std::vector<Band> band_;      // by link; separate from Link because most work reads few fields of many links
  std::vector<Inflow> inflow_;  // by link; separate for the same reason
  std::vector<Flow> flows_{{0, 0, kEnded}};  // the last entry only ends the uses of the one before it
  std::vector<std::int32_t> ids_;            // by flow; empty while a flow's index is its id
  std::vector<std::int32_t> loads_;          // by flow: index of its first load in load_; empty while all are 0
  std::vector<Crossing> crossings_;
  std::vector<double> load_;
  std::map<std::vector<double>, std::int32_t> load_index_;
  std::vector<Ranked> ends_;                // heap of links by time; an entry is valid if its key is the link's end
  std::vector<Ranked> dirty_;               // heap of links by level
  std::vector<std::int32_t> dirty_leaves_;  // dirty links without pushes, settled last
  std::vector<std::int32_t> tight_;         // quiet links whose sum of ceilings exceeds their capacity
  std::vector<double> new_loads_;           // of the flow being started
  std::int32_t last_loads_ = 0;             // of the flow started last; the next flow's are likely the same
  std::vector<FlowId> immediate_;           // flows that end at the instant they start
  struct Barrier {
    double other;  // the lowest level of the flow's other links
    double load;
    std::int32_t flow;
    std::int32_t other_link;  // the link with that level, or kNobody
  };
  std::vector<Barrier> meetings_;
  std::vector<std::pair<double, std::int32_t>> candidates_;  // level and flow
  std::vector<std::int32_t> moved_;
  std::vector<std::int32_t> component_links_;
  std::vector<Due> collected_;
  std::int32_t first_starting_ = 0;  // flows from this index on have no owner yet
  std::int32_t started_ = 0;
  bool is_unsettled_ = false;  // capacities have changed since the last settlement
  std::int32_t running_ = 0;
  std::int64_t budget_ = 0;  // settlements left before everything is solved again
  double now_ = 0;
  bool checked_;
  Counters counters_;
};

}  // namespace moeplan::sim
