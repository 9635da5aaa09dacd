#include "sim/program/simulate.hpp"

#include <algorithm>
#include <cassert>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sim/flows/network_flows.hpp"
#include "sim/flows/network_view.hpp"
#include "sim/flows/rank_classes.hpp"
#include "sim/program/computations.hpp"
#include "sim/program/event_queue.hpp"
#include "sim/program/exchanges.hpp"
#include "sim/program/message_channels.hpp"
#include "sim/program/program_cursor.hpp"
#include "sim/program/rank_streams.hpp"
#include "sim/program/repeats.hpp"
#include "sim/program/timeline_recorder.hpp"

namespace moeplan::sim {

namespace {

/// The event loop: what ends an operation, and what follows from the end of one.
class Engine {
 public:
  Engine(const Program& program, const std::vector<Sequence>& stages, const Cluster& cluster,
         const SimulateOptions& options)
      : program_(program),
        skip_repeats_(options.skip_repeats),
        orders_(program),
        view_(program, cluster, view_of(program, cluster, options)),
        flows_(options.network(), view_, cluster.gpu.slowdown_beside_computation),
        computations_(program, cluster, view_.ranks(), events_, flows_),
        exchanges_(program, cluster, view_, flows_, events_),
        channels_(events_),
        recorder_(cluster, view_, flows_, options.keep_spans, options.watch),
        repeats_(program, cluster, view_, recorder_) {
    assert(program.world_size <= cluster.world_size() && "the cluster has a GPU for every rank");
    ranks_.reserve(view_.ranks());
    for (std::size_t r = 0; r < view_.ranks(); ++r) {
      ranks_.push_back({.cursor = ProgramCursor(stages[program.stage_of(RankId(r))])});
    }
  }

  Timeline run(bool every_link) {
    for (const RankId r : view_.simulated_ranks()) go_on(r);
    while (true) {
      if (!waiting_.empty() && !anything_at_present())
        pass_boundary();
      else if (!step())
        break;
    }
    check_finished();
    return recorder_.finish(last_, program_.world_size, every_link);
  }

 private:
  static std::shared_ptr<const SymmetricView> view_of(const Program& program, const Cluster& cluster,
                                                      const SimulateOptions& options) {
    if (!options.use_symmetry || options.symmetry) return options.symmetry;
    return simulated_view(program, cluster);
  }

  RankStreams& streams(RankId r) { return ranks_[r.index()].streams; }

  // --- The event loop ---

  bool anything_at_present() {
    if (!events_.empty() && events_.next().time == events_.now()) return true;
    return flows_.next_completion(events_.now()) == events_.now();
  }

  bool step() {
    const auto completion = flows_.next_completion(events_.now());
    if (!completion && events_.empty()) return false;
    if (completion && (events_.empty() || *completion <= events_.next().time)) {
      events_.advance_to(*completion);
      end_flows(flows_.advance_to_completion(events_.now()));
      last_ = events_.now();
      return true;
    }
    const Event event = events_.pop();
    if (event.time > events_.now()) {
      events_.advance_to(event.time);
      end_flows(flows_.advance(events_.now()));
    }
    if (event.kind == EventKind::ComputeEnd && !computations_.end(event)) return true;  // its speed has changed since
    last_ = events_.now();
    switch (event.kind) {
      case EventKind::ComputeEnd: end_operation(event.rank, event.operation); break;
      case EventKind::FlowStart: start_all_flows(event); break;
      case EventKind::IdleExchangeEnd: end_exchange(event.rank, event.exchange); break;
      case EventKind::OperationEnd: end_operation(event.rank, event.operation); break;
      case EventKind::RepeatEnd: waiting_.push_back(event.rank); break;
    }
    return true;
  }

  /// Starts all flows of one instant together, so that the network computes one allocation. (A flow that has just
  /// started ends later, so no network event can come in between.)
  void start_all_flows(Event event) {
    while (true) {
      exchanges_.start_flows(event);
      repeats_.start_transfers(event.rank);
      if (events_.empty() || events_.next().time > events_.now() || events_.next().kind != EventKind::FlowStart) return;
      event = events_.pop();
    }
  }

  void end_flows(std::span<const FlowId> completed) {
    recorder_.record_links(events_.now());
    for (const FlowId flow : completed) {
      const Exchanges::Ended ended = exchanges_.end_flow(flow);
      const Operation& operation = operation_of(program_, exchanges_.instance(ended.exchange));
      if (const auto* sent = std::get_if<Send>(&operation.work)) {
        exchanges_.leave(ended.exchange);
        channels_.deliver(ended.transfer.from, ended.transfer.to, sent->channel);
        end_background(ended.transfer.from, operation.stream);
        continue;
      }
      if (ended.sender) end_exchange(*ended.sender, ended.exchange);
      if (ended.receiver) end_exchange(*ended.receiver, ended.exchange);
    }
  }

  // --- Operations ---

  /// Moves a rank that has ended its block (or is at the start) to its next block or to a boundary.
  void go_on(RankId r) {
    SimulatedRank& rank = ranks_[r.index()];
    switch (rank.cursor.next()) {
      case ProgramCursor::At::End:
        rank.has_finished = true;
        recorder_.end_sequence(events_.now());
        return;
      case ProgramCursor::At::Boundary: waiting_.push_back(r); return;
      case ProgramCursor::At::Block: begin_block(r); return;
    }
  }

  void begin_block(RankId r) {
    const BlockId block = ranks_[r.index()].cursor.block();
    streams(r).begin_block(block, orders_.of(block));
    start_operations(r);
    if (streams(r).block_has_ended()) go_on(r);
  }

  /// Starts all operations that can start.
  void start_operations(RankId r) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      if (const auto operation = streams(r).start_next(stream, events_.now())) start_operation(r, *operation);
    }
    start_background(r);
  }

  void start_background(RankId r) {
    for (std::size_t stream = 0; stream < kStreams; ++stream) start_background(r, stream);
  }

  void start_background(RankId r, std::size_t stream) {
    const auto instance = streams(r).start_next_background(stream, events_.now());
    if (!instance) return;
    if (operation_of(program_, *instance).communication()) {
      arrive(r, *instance);
    } else {
      exchanges_.send(r, *instance);
    }
  }

  void start_operation(RankId r, std::int32_t index) {
    RankStreams& s = streams(r);
    const Operation& operation = s.operation(index);
    if (operation.communication()) {
      arrive(r, {s.block(), index, s.block_number()});
    } else if (const auto* receive = std::get_if<Receive>(&operation.work)) {
      channels_.receive(program_.group(receive->group).shifted(r, -receive->shift), r, receive->channel, index);
    } else if (const auto* wait = std::get_if<Wait>(&operation.work)) {
      s.begin_wait(index, *wait);
      end_waits(r);
    } else if (std::holds_alternative<Launches>(operation.work) || std::holds_alternative<HostCopy>(operation.work)) {
      computations_.start_host(r, s.block(), index);
    } else {
      computations_.start(r, s.block(), index);
    }
  }

  void arrive(RankId r, const OperationInstance& instance) {
    computations_.begin_communication(r, operation_of(program_, instance));
    exchanges_.arrive(r, instance);
  }

  void end_exchange(RankId r, std::int32_t exchange) {
    const OperationInstance instance = exchanges_.instance(exchange);
    const Operation& operation = operation_of(program_, instance);
    exchanges_.leave(exchange);
    computations_.end_communication(r, operation);
    if (is_background(operation.stream)) {
      end_background(r, operation.stream);
    } else {
      end_operation(r, instance.operation);
    }
  }

  void end_operation(RankId r, std::int32_t operation) {
    RankStreams& s = streams(r);
    const SimTime start = s.start_of(operation);
    const auto& work = s.operation(operation).work;
    if (events_.now() > start || !std::holds_alternative<Launches>(work))
      recorder_.end_operation(r, {{s.block(), operation, s.block_number()}, start}, events_.now());
    s.end(operation);
    if (s.block_has_ended()) {
      start_background(r);
      go_on(r);
    } else {
      start_operations(r);
    }
  }

  void end_background(RankId r, Stream stream) {
    recorder_.end_operation(r, streams(r).end_background(static_cast<std::size_t>(stream)), events_.now());
    start_background(r, static_cast<std::size_t>(stream));
    end_waits(r);
  }

  void end_waits(RankId r) {
    while (const auto operation = streams(r).take_ended_wait()) {
      events_.push({.time = events_.now(), .kind = EventKind::OperationEnd, .rank = r, .operation = *operation});
    }
  }

  /// Handles the ranks at a boundary of a repeat, when no other event remains at this instant.
  void pass_boundary() {
    std::vector<RankId> waiting = std::exchange(waiting_, {});
    std::sort(waiting.begin(), waiting.end());
    if (!skip_repeats_) return pass(waiting);
    const Repeats::Passed passed = repeats_.pass(ranks_, waiting, events_.now());
    if (passed.in_step) exchanges_.clear();
    for (const auto& [r, time] : passed.skip)
      events_.push({.time = events_.now() + time, .kind = EventKind::RepeatEnd, .rank = r});
    pass(passed.go_on);
  }

  void pass(const std::vector<RankId>& ranks) {
    for (const RankId r : ranks) {
      ranks_[r.index()].cursor.pass();
      go_on(r);
    }
  }

  void check_finished() {
    for (const RankId r : view_.simulated_ranks()) {
      const SimulatedRank& rank = ranks_[r.index()];
      if (rank.has_finished && rank.streams.background_is_idle()) continue;
      throw std::logic_error("the Program does not end: rank " + std::to_string(r.value()) + " waits in block '" +
                             program_.blocks[rank.cursor.block().index()].name + "'");
    }
  }

  const Program& program_;
  bool skip_repeats_;
  BlockOrders orders_;
  EventQueue events_;
  SimTime last_;  // when something ended or began; the queue also has ends of computations whose speed has changed
  NetworkView view_;
  NetworkFlows flows_;
  Computations computations_;
  Exchanges exchanges_;
  MessageChannels channels_;
  TimelineRecorder recorder_;
  Repeats repeats_;
  std::vector<SimulatedRank> ranks_;
  std::vector<RankId> waiting_;  // at boundaries of repeats
};

}  // namespace

Timeline simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options) {
  return simulate(program, program.stages, cluster, options);
}

Timeline simulate(const Program& program, const std::vector<Sequence>& stages, const Cluster& cluster,
                  const SimulateOptions& options) {
  return Engine(program, stages, cluster, options).run(options.every_link);
}

}  // namespace moeplan::sim
