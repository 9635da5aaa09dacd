// Flows over shared links under exact max-min fairness. Knows nothing of hosts or of what a flow is for.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/base/ids.hpp"

namespace moeplan::sim {

using FlowId = Id<struct FlowTag>;          // a class of equal flows; counts up from 0 in the order of start()
using ResourceId = Id<struct ResourceTag>;  // a directed link, or a rate cap; counts up from 0 in the order of adding

/// One resource on a flow's way.
struct FlowUse {
  ResourceId resource;
  double share;  // in (0, 1]: the part of the flow that crosses it (1 unless equal-cost paths split the flow)
};

/// A flow that has not ended, at the network's present time.
struct RunningFlow {
  FlowId id;
  double rate;       // bytes/s of each single flow of the class
  double remaining;  // bytes of each single flow of the class
};

/// The network.
///
/// Notation. Resources l have capacities C_l (bytes/s). A flow f is a class of w_f equal single flows; each has a
/// number of bytes to send and runs at rate r_f; the share a_fl of it crosses resource l. At any time the rates are the
/// max-min fair allocation: the one r >= 0 with
///
///   (1) feasible:    sum over f of w_f a_fl r_f <= C_l          on every resource l;
///   (2) bottleneck:  every f crosses an l where (1) is an equality and no other flow has r_g > r_f.
///
/// It exists and is unique, and no rate can grow unless a rate that is not larger shrinks (D. Bertsekas, R. Gallager,
/// "Data Networks", 2nd ed. 1992, sec. 6.5.2). Written with one level per resource: a flow's rate is the least level on
/// its way, and each level satisfies (1) with equality, or is infinite where the resource holds nobody back.
///
/// A resource of infinite capacity never binds. A resource that stands twice on a flow's way counts with the sum of its
/// shares. A rate cap of one party is a resource that only its flows cross.
///
/// Time is in seconds and never goes back. Starting is cheap and many starts at one instant cost one new allocation,
/// made when next_completion() or advance() asks for it. Completions that lie within `coincidence(t)` of the first of
/// them are one event at that first time: what rounding has parted is one, and the model keeps picoseconds apart.
/// The result is a function of the calls alone: same calls, same bits.
class Network {
 public:
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// A resource of `capacity` > 0 bytes/s, perhaps infinite. May be called at any time.
  virtual ResourceId add_resource(double capacity_bytes_per_s) = 0;

  /// Starts `weight` > 0 equal single flows of `bytes` >= 0 each at time `now`, not before any time already given.
  /// A flow without bytes, or that no finite resource holds back, completes at `now`.
  /// Completions before `now` must have been taken out by advance(now) first.
  virtual FlowId start(std::span<const FlowUse> uses, double bytes, double weight, double now) = 0;

  /// The earliest time at which a running flow ends; none if none runs. advance() to it ends at least one.
  [[nodiscard]] virtual std::optional<double> next_completion() = 0;

  /// Goes to time `now` and appends the flows that ended up to and at it, ordered by (time, FlowId). An end that lies
  /// within coincidence(now) after `now` counts as at it, so that a caller may keep time in another unit.
  virtual void advance(double now, std::vector<FlowId>& completed) = 0;

  /// Bytes of all flows that have crossed the resource up to the last time given.
  [[nodiscard]] virtual double bytes_carried(ResourceId resource) const = 0;

  /// Every running flow, by FlowId: for tests and reports; takes time linear in their number.
  [[nodiscard]] virtual std::vector<RunningFlow> running() = 0;

 protected:
  Network() = default;
};

/// Completions this near (seconds) to one at time t are the same event: 1e-12 t, never above a quarter of a picosecond
/// and never below the four last bits of t.
[[nodiscard]] double coincidence(double t);

/// Keeps what one advance() appends ordered by (time, FlowId), for the engines: an end can follow an event within
/// rounding and then has the same time.
class CompletionOrder {
 public:
  void begin_event(double time, const std::vector<FlowId>& completed);
  void end_event(std::vector<FlowId>& completed) const;

 private:
  std::optional<double> time_;
  std::size_t first_ = 0;
};

/// Progressive filling, everything solved again at every change: the tests' twin. O(flows) memory; each change costs
/// O(resources^2 + flows).
[[nodiscard]] std::unique_ptr<Network> make_plain_network();

/// Re-sharing touches what changed (fast_network.hpp). Same results within rounding.
[[nodiscard]] std::unique_ptr<Network> make_fast_network();

}  // namespace moeplan::sim
