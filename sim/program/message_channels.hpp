// Matching of messages with the Receives that wait for them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>

#include "model/base/ids.hpp"
#include "sim/program/event_queue.hpp"

namespace moeplan::sim {

/// The n-th Receive of a channel between two ranks ends with its n-th message, as an event of kind OperationEnd.
class MessageChannels {
 public:
  /// `events` must outlive the channels.
  explicit MessageChannels(EventQueue& events) : events_(events) {}

  /// A message has arrived.
  void deliver(RankId from, RankId to, std::int32_t channel) {
    Channel& c = channels_[{from.value(), to.value(), channel}];
    ++c.arrived;
    match(c, to);
  }

  /// A Receive, `operation` of the receiver's block, begins.
  void receive(RankId from, RankId to, std::int32_t channel, std::int32_t operation) {
    Channel& c = channels_[{from.value(), to.value(), channel}];
    c.receives.push_back(operation);
    match(c, to);
  }

 private:
  struct Channel {
    std::int64_t arrived = 0;                // messages not yet matched with a Receive
    std::deque<std::int32_t> receives = {};  // waiting Receive operations of the receiver's block
  };

  void match(Channel& channel, RankId to) {
    while (channel.arrived > 0 && !channel.receives.empty()) {
      const std::int32_t operation = channel.receives.front();
      events_.push({.time = events_.now(), .kind = EventKind::OperationEnd, .rank = to, .operation = operation});
      channel.receives.pop_front();
      --channel.arrived;
    }
  }

  EventQueue& events_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Channel> channels_;  // by sender, receiver, channel
};

}  // namespace moeplan::sim
