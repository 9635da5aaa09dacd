// The flows of a simulation on the network: the network's clock, and the rate caps of ranks as resources, which are
// lower while the rank's GPU computes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/base/sim_time.hpp"
#include "sim/flows/network_view.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Connects simulated time, in whole picoseconds, with the network, which keeps time in seconds.
class NetworkFlows {
 public:
  /// Adds the resources of the view to an empty network. `slowdown` >= 1 divides the rate caps of a rank whose GPU
  /// computes. The view must outlive the flows.
  NetworkFlows(std::unique_ptr<Network> network, NetworkView& view, double slowdown);

  /// When the next flow ends, at `now` or later; none if no flow is running. Throws InputError if that is out of the
  /// range of SimTime.
  [[nodiscard]] std::optional<SimTime> next_completion(SimTime now);

  /// Advances the network to `now`, or by rounding a little further. The flows that have ended by then are valid until
  /// the next call.
  std::span<const FlowId> advance(SimTime now) { return advance(now, 0); }
  /// The same to the time of the next completion, where `now` is next_completion().
  std::span<const FlowId> advance_to_completion(SimTime now) { return advance(now, *network_->next_completion()); }

  /// Starts the flow of a transfer. `rate_cap` is a cap on the rank's sends and on its receives on the operation's
  /// stream.
  FlowId start(const Operation& operation, const Transfer& transfer, std::optional<BytesPerSecond> rate_cap,
               SimTime now);

  /// Says whether the rank's GPU computes from the time of the last advance() on. Several changes at one instant cost
  /// one, or none.
  void set_computing(RankId r, bool computing);

  [[nodiscard]] double bytes_carried(ResourceId resource) const { return network_->bytes_carried(resource); }

 private:
  enum class Direction { Send, Receive };

  std::span<const FlowId> advance(SimTime now, double at_least);
  struct Cap {
    Stream stream;
    Direction direction;
    double rate;  // while the GPU does not compute
    ResourceId resource;
  };
  struct RankCaps {
    std::vector<Cap> caps;  // a few
    bool computing = false;
    bool slowed = false;  // as the network has it
  };
  /// The cap of a rank's stream in one direction, as a resource of the network.
  ResourceId cap(RankId r, Stream stream, Direction direction, BytesPerSecond rate);
  /// Changes the caps of the ranks that have begun or ended to compute.
  void apply_changes();

  std::unique_ptr<Network> network_;
  NetworkView& view_;
  double slowdown_;
  double clock_ = 0;             // seconds
  std::vector<RankCaps> caps_;   // by rank
  std::vector<RankId> changed_;  // ranks to look at before the network's next step
  std::vector<FlowId> completed_;
  std::vector<FlowUse> uses_;
};

}  // namespace moeplan::sim
