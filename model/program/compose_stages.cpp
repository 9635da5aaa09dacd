#include "model/program/compose_stages.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>

namespace moeplan {

namespace {

class Composer {
 public:
  Composer(const StageSegments& stages, const std::vector<std::vector<SegmentTimes>>& times,
           const TransferTime& transfer)
      : stages_(stages), times_(times), transfer_(transfer), state_(stages.order.size()) {
    run_.runs.resize(stages.order.size());
  }

  ComposedRun run() {
    std::size_t left = 0;
    for (const auto& order : stages_.order) left += order.size();
    while (left > 0) {
      std::size_t done = 0;
      for (std::size_t s = 0; s < state_.size(); ++s) {
        while (try_next(s)) ++done;
      }
      if (done == 0) throw std::logic_error("the Program does not end: its stages wait for each other in a circle");
      left -= done;
    }
    for (const State& s : state_) {
      run_.stage_end.push_back(std::max({s.joined, s.background_end, s.last_send}));
      run_.makespan = std::max(run_.makespan, run_.stage_end.back());
    }
    return std::move(run_);
  }

 private:
  struct State {
    std::size_t next = 0;
    SimTime joined;
    SimTime background_end;
    SimTime last_send;
  };
  /// Sending stage, receiving stage, channel.
  using Channel = std::tuple<std::size_t, std::size_t, std::int32_t>;

  bool try_next(std::size_t s) {
    State& state = state_[s];
    if (state.next == stages_.order[s].size()) return false;
    const std::size_t index = stages_.order[s][state.next];
    const Segment& segment = stages_.segments[index];
    SegmentRun own{state.joined, state.joined, {}};
    SimTime& begin = own.begin;
    if (segment.waits) begin = std::max(begin, state.background_end);
    for (const StageMessage& m : segment.receives) {
      const auto it = arrivals_.find({stages_.shifted(s, -m.shift), s, m.channel});
      if (it == arrivals_.end() || it->second.empty()) return false;
      begin = std::max(begin, it->second.front());
    }
    for (const StageMessage& m : segment.receives) arrivals_[{stages_.shifted(s, -m.shift), s, m.channel}].pop_front();
    const SegmentTimes& t = times_[s][index];
    state.joined = begin + t.joined;
    if (t.background_busy > SimTime()) {
      state.background_end = std::max(begin + t.background_end, state.background_end + t.background_busy);
    }
    for (std::size_t i = 0; i < segment.sends.size(); ++i) {
      const StageMessage& m = segment.sends[i];
      const SimTime from = std::max(begin + t.sends[i], state.last_send);
      state.last_send = from + transfer_(s, m);
      own.sends.emplace_back(from, state.last_send);
      arrivals_[{s, stages_.shifted(s, m.shift), m.channel}].push_back(state.last_send);
    }
    run_.runs[s].push_back(std::move(own));
    ++state.next;
    return true;
  }

  const StageSegments& stages_;
  const std::vector<std::vector<SegmentTimes>>& times_;
  const TransferTime& transfer_;
  std::vector<State> state_;
  std::map<Channel, std::deque<SimTime>> arrivals_;
  ComposedRun run_;
};

}  // namespace

ComposedRun compose_stages(const StageSegments& stages, const std::vector<std::vector<SegmentTimes>>& times,
                           const TransferTime& transfer) {
  return Composer(stages, times, transfer).run();
}

}  // namespace moeplan
