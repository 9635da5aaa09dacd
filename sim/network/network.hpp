// A network of shared links under exact max-min fairness. It knows nothing of hosts or of the purpose of a flow.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/base/ids.hpp"

namespace moeplan::sim {

using FlowId = Id<struct FlowTag>;          // a class of equal flows; numbered from 0 in the order of start()
using ResourceId = Id<struct ResourceTag>;  // a directed link or a rate cap; numbered from 0 in the order of creation

/// One resource on a flow's path.
struct FlowUse {
  ResourceId resource;
  double share;  // in (0, 1]: the fraction of the flow that crosses it (1 unless equal-cost paths split the flow)
};

/// A flow that has not ended at the network's current time.
struct RunningFlow {
  FlowId id;
  double rate;       // bytes/s of each single flow of the class
  double remaining;  // bytes of each single flow of the class
};

/// A set of resources and the flows in progress on them; time advances from completion to completion.
///
/// Notation. Resource l has capacity C_l (bytes/s). A flow f is a class of w_f equal single flows, each with a number
/// of bytes to send at rate r_f; the fraction a_fl of it crosses resource l. At any time the rates are the max-min fair
/// allocation: the r >= 0 that is
///
///   (1) feasible:    sum over f of w_f a_fl r_f <= C_l          on every resource l;
///   (2) bottleneck:  every f crosses an l where (1) is an equality and no other flow has r_g > r_f.
///
/// It exists and is unique, and no rate can be increased without decreasing a rate that is no larger (D. Bertsekas,
/// R. Gallager, "Data Networks", 2nd ed. 1992, sec. 6.5.2). Expressed with one level per resource: a flow's rate is the
/// lowest level on its path, and each level satisfies (1) with equality, or is infinite where the resource limits no
/// flow.
///
/// A resource of infinite capacity never binds. A resource that occurs twice on a flow's path counts with the sum of
/// its shares. A rate cap of one sender or receiver is a resource that only its flows cross.
///
/// Time is in seconds and never decreases. Many starts at one instant cost one new allocation, computed when
/// next_completion() or advance() needs it. Completions within `coincidence(t)` of the first of them are one event at
/// that first time: they differ by rounding only, since the model distinguishes whole picoseconds.
/// Deterministic: the same calls give bit-identical results.
class Network {
 public:
  virtual ~Network() = default;
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Adds a resource of capacity > 0 bytes/s, which may be infinite. May be called at any time.
  virtual ResourceId add_resource(double capacity_bytes_per_s) = 0;

  /// Changes the finite capacity of a resource to another, > 0 bytes/s, at time `now`, no earlier than in any previous
  /// call. Completions before `now` must first be retrieved with advance(now).
  virtual void set_capacity(ResourceId resource, double capacity_bytes_per_s, double now) = 0;

  /// Starts `weight` > 0 equal single flows of `bytes` >= 0 each at time `now`, no earlier than in any previous call.
  /// A flow without bytes, or without a finite resource on its path, completes at `now`.
  /// Completions before `now` must first be retrieved with advance(now).
  virtual FlowId start(std::span<const FlowUse> uses, double bytes, double weight, double now) = 0;

  /// The earliest completion time of a running flow; none if no flow is running. advance() to it ends at least one.
  [[nodiscard]] virtual std::optional<double> next_completion() = 0;

  /// Advances to time `now` and appends the flows that ended by then, ordered by (time, FlowId). A completion within
  /// coincidence(now) after `now` counts as at `now`, so that a caller may keep time in another unit.
  virtual void advance(double now, std::vector<FlowId>& completed) = 0;

  /// Bytes of all flows that have crossed the resource up to the latest time passed to the network.
  [[nodiscard]] virtual double bytes_carried(ResourceId resource) const = 0;

  /// All running flows in order of FlowId, for tests and reports. O(flows).
  [[nodiscard]] virtual std::vector<RunningFlow> running() = 0;

 protected:
  Network() = default;
};

/// The distance in seconds within which completions count as one event with a completion at time t: 1e-12 t, at most a
/// quarter of a picosecond, at least the four last bits of t.
[[nodiscard]] double coincidence(double t);

/// A helper of the engines that keeps the completions appended by one advance() ordered by (time, FlowId): a completion
/// can follow an event within rounding and then has the same time.
class CompletionOrder {
 public:
  void begin_event(double time, const std::vector<FlowId>& completed);
  void end_event(std::vector<FlowId>& completed) const;

 private:
  std::optional<double> time_;
  std::size_t first_ = 0;
};

/// The reference implementation for tests: progressive filling of all flows at every change. O(flows) memory; each
/// change costs O(resources^2 + flows).
[[nodiscard]] std::unique_ptr<Network> make_plain_network();

/// The incremental engine, which re-solves only what a change affects (fast_network.hpp). Same results up to rounding.
[[nodiscard]] std::unique_ptr<Network> make_fast_network();

}  // namespace moeplan::sim
