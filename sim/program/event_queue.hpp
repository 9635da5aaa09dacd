// The simulator's clock and its queue of future events.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>
#include <functional>
#include <tuple>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/base/sim_time.hpp"

namespace moeplan::sim {

enum class EventKind { ComputeEnd, FlowStart, IdleExchangeEnd, OperationEnd, RepeatEnd };

/// Completions of flows are not events: the network knows them (network_flows.hpp).
struct Event {
  SimTime time;
  EventKind kind;
  RankId rank{};
  std::int32_t operation = 0;         // in the rank's block
  std::uint64_t version = 0;          // ComputeEnd: version of the computation
  std::int32_t exchange = 0;          // FlowStart, IdleExchangeEnd
  std::vector<std::int32_t> flows{};  // FlowStart: flows of the exchange
  std::uint64_t number = 0;           // set by EventQueue::push; insertion order breaks ties

  bool operator>(const Event& other) const { return std::tie(time, number) > std::tie(other.time, other.number); }
};

/// The present instant, without skipped iterations, and the events to come by time and order of insertion.
class EventQueue {
 public:
  [[nodiscard]] SimTime now() const { return now_; }
  void advance_to(SimTime time) {
    assert(time >= now_ && "time does not run backwards");
    now_ = time;
  }

  void push(Event event) {
    event.number = ++count_;
    events_.push_back(std::move(event));
    std::push_heap(events_.begin(), events_.end(), std::greater<>());
  }
  [[nodiscard]] bool empty() const { return events_.empty(); }
  [[nodiscard]] const Event& next() const { return events_.front(); }
  Event pop() {
    std::pop_heap(events_.begin(), events_.end(), std::greater<>());
    Event event = std::move(events_.back());
    events_.pop_back();
    return event;
  }

 private:
  SimTime now_;
  std::vector<Event> events_;  // a heap, the next first
  std::uint64_t count_ = 0;
};

}  // namespace moeplan::sim
