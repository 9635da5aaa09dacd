// The communications and messages in flight in a simulation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "model/costs/communication.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "sim/flows/network_flows.hpp"
#include "sim/flows/network_view.hpp"
#include "sim/program/event_queue.hpp"
#include "sim/program/operation_instance.hpp"

namespace moeplan::sim {

/// An exchange is one execution of a Send, or of a communication by one group (which represents its images under
/// symmetry). A transfer starts once both of its ends have arrived and the start-up time has passed; a rank's part ends
/// when all of its transfers have ended.
class Exchanges {
 public:
  /// The end of a transfer.
  struct Ended {
    std::int32_t exchange;
    Transfer transfer;
    std::optional<RankId> sender;    // if its part of the exchange ends
    std::optional<RankId> receiver;  // the same, if it is another rank
  };

  /// All arguments must outlive the exchanges.
  Exchanges(const Program& program, const Cluster& cluster, NetworkView& view, NetworkFlows& flows, EventQueue& events)
      : program_(program), cluster_(cluster), view_(view), flows_(flows), events_(events) {}

  /// A rank has reached a communication. Its transfers with ranks that have arrived before start after the start-up
  /// time, by events of kind FlowStart; a rank without transfers ends by an event of kind IdleExchangeEnd.
  void arrive(RankId r, const OperationInstance& instance);
  /// A rank has reached a Send.
  void send(RankId from, const OperationInstance& instance);

  /// Starts the transfers of an event of kind FlowStart.
  void start_flows(const Event& event);
  /// Ends a flow.
  Ended end_flow(FlowId flow);

  [[nodiscard]] const OperationInstance& instance(std::int32_t exchange) const {
    return exchanges_[static_cast<std::size_t>(exchange)].instance;
  }
  /// A rank's part has ended, and nothing more is asked for it. Once all ranks have left, the exchange is forgotten,
  /// unless ranks represent others.
  void leave(std::int32_t exchange);
  /// Forgets all exchanges. None may be in flight.
  void clear();

 private:
  /// Of a communication: block number, operation and first rank of the group.
  using Key = std::tuple<std::int64_t, std::int32_t, std::int32_t>;
  struct Exchange {
    OperationInstance instance;  // equal on all members
    std::vector<Transfer> transfers;
    CommunicationCost cost;
    std::vector<std::vector<std::int32_t>> transfers_of{};  // by position in the group
    std::vector<bool> arrived{};                            // by position
    std::vector<std::int32_t> open_transfers{};             // by position: transfers that have not ended
    std::optional<Seconds> ring_latency{};                  // of the longest edge
    std::size_t present = 1;                                // ranks that have not left
    std::optional<Key> key{};                               // none: a Send
  };
  struct RunningFlow {
    std::int32_t exchange;
    std::int32_t transfer;
  };

  /// The exchange of r's group.
  std::int32_t exchange_of(RankId r, const OperationInstance& instance);
  [[nodiscard]] Exchange new_exchange(RankId r, const OperationInstance& instance);
  /// Its number, of one that was forgotten if there is any.
  std::int32_t add(Exchange exchange);
  [[nodiscard]] Seconds startup(const Exchange& exchange, const Operation& operation, const Transfer& transfer);

  const Program& program_;
  const Cluster& cluster_;
  NetworkView& view_;
  NetworkFlows& flows_;
  EventQueue& events_;
  std::vector<Exchange> exchanges_;
  std::vector<std::int32_t> forgotten_;
  std::map<Key, std::int32_t> exchange_index_;
  std::vector<RunningFlow> running_;  // by FlowId
};

}  // namespace moeplan::sim
