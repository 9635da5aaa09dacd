// The flows of a simulation on the network: the network's clock, and the bandwidth caps of ranks as resources.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <tuple>
#include <vector>

#include "model/base/sim_time.hpp"
#include "sim/network/network.hpp"
#include "sim/program/network_view.hpp"

namespace moeplan::sim {

/// Connects simulated time, in whole picoseconds, with the network, which keeps time in seconds.
class NetworkFlows {
 public:
  /// Adds the resources of the view to an empty network. The view must outlive the flows.
  NetworkFlows(std::unique_ptr<Network> network, NetworkView& view);

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

  [[nodiscard]] double bytes_carried(ResourceId resource) const { return network_->bytes_carried(resource); }

 private:
  enum class Direction { Send, Receive };

  std::span<const FlowId> advance(SimTime now, double at_least);
  /// The cap of a rank's stream in one direction, as a resource of the network.
  ResourceId cap(RankId r, Stream stream, Direction direction, BytesPerSecond rate);

  std::unique_ptr<Network> network_;
  NetworkView& view_;
  double clock_ = 0;  // seconds
  std::map<std::tuple<std::int32_t, Stream, Direction, double>, ResourceId> caps_;
  std::vector<FlowId> completed_;
  std::vector<FlowUse> uses_;
};

}  // namespace moeplan::sim
