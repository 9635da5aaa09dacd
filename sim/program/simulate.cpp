#include "sim/program/simulate.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <deque>
#include <map>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "model/base/whole_numbers.hpp"
#include "model/costs/communication.hpp"
#include "model/costs/compute.hpp"
#include "model/machine/rank_routes.hpp"
#include "model/program/equal_ranks.hpp"
#include "model/program/resolve.hpp"
#include "sim/program/program_cursor.hpp"

namespace moeplan::sim {

namespace {

/// Equal transfers of one rank: several only where it represents others.
struct Transfer {
  RankId from;
  RankId to;  // one of the receivers
  std::int64_t bytes;
  double weight;
};

/// One execution of an operation of a block by a rank.
struct Place {
  BlockId block;
  std::int32_t operation;
  std::int64_t block_number;  // number of blocks that the rank had begun before
};

/// One execution of a Send, or of a communication by one group (which represents its images under symmetry).
struct Exchange {
  std::vector<Transfer> flows;
  std::vector<std::vector<std::int32_t>> flows_of;  // by position in the group
  std::vector<bool> arrived;                        // by position
  std::vector<std::int32_t> open_flows;             // by position: flows that have not ended
  CommunicationCost cost;
  std::optional<Seconds> ring_latency;  // of the longest edge
  Place place;                          // equal on all members
};

/// An operation of a background stream that has not ended.
struct Queued {
  Place place;
  std::int32_t open_dependencies;
  SimTime started;
};
struct BackgroundStream {
  std::deque<Queued> queue;  // in the order listed
  bool is_busy = false;      // its first operation is in progress
  std::int64_t listed = 0;
  std::int64_t ended = 0;
};
/// A Wait that has been reached; it ends when `ends` operations of the stream have ended.
struct Waiting {
  std::int32_t operation;
  std::size_t stream;
  std::int64_t ends;
};

struct RunningFlowOf {
  std::int32_t exchange;
  std::int32_t flow;
};

/// A computation in progress.
struct Computing {
  std::int32_t operation;
  double remaining_ps;  // remaining time at full speed, as of `since`
  SimTime since;
  std::uint64_t version;  // of its end event; older end events are void
};

struct RankState {
  ProgramCursor cursor;
  bool waiting = false;  // at the boundary of a repeat
  bool finished = false;
  std::int64_t block_number = -1;  // number of blocks begun before this one
  std::int32_t open_operations = 0;
  std::vector<std::int32_t> open_dependencies{};           // by operation
  std::array<std::vector<std::int32_t>, kStreams> fifo{};  // operations by stream, in order
  std::array<std::size_t, kStreams> head{};                // by stream: index of its next operation
  std::array<bool, kStreams> busy{};
  std::vector<SimTime> started{};  // by operation
  std::vector<Computing> computing{};
  std::array<BackgroundStream, kStreams> background{};
  std::vector<std::int64_t> listed_before{};  // by operation: for a Wait, operations listed before on its stream
  std::vector<Waiting> waits{};
};

/// The activity of the ranks on one GPU, which determines their speed.
struct GpuState {
  std::int32_t open_exchanges = 0;
  std::int32_t computing_ranks = 0;
};

/// Messages between two ranks on one channel.
struct Channel {
  std::int64_t arrived = 0;                // messages not yet matched with a Receive
  std::deque<std::int32_t> receives = {};  // waiting Receive operations of the receiver's block
};

enum class EventKind { ComputeEnd, FlowStart, IdleExchangeEnd, WaitEnd };

struct Event {
  SimTime time;
  std::uint64_t number;  // insertion order breaks ties
  EventKind kind;
  RankId rank{};
  std::int32_t operation = 0;  // in the rank's block
  std::uint64_t version = 0;
  std::int32_t exchange = 0;
  std::vector<std::int32_t> flows{};

  bool operator>(const Event& other) const { return std::tie(time, number) > std::tie(other.time, other.number); }
};

/// The state at the start of a repeat's iteration that all ranks began at the same instant.
struct InStep {
  SimTime time;
  std::size_t spans;
  std::size_t repeats;
  std::vector<double> link_bytes;
  std::vector<std::size_t> segments;  // by watched link: number of segments so far
};

/// A link whose history is recorded.
struct Watched {
  ResourceId resource;
  double bytes_per_byte;  // bytes on the link per byte on the resource
  LinkHistory history;
  double seen = 0;          // bytes on the resource up to seen_at
  SimTime seen_at{};        // in simulated time without skipped iterations
  bool may_extend = false;  // the last segment ends now and can be extended at the same bandwidth
};

class Engine {
 public:
  Engine(const Program& program, const Cluster& cluster, const SimulateOptions& options)
      : program_(program), cluster_(cluster), options_(options), network_(options.network()), routes_(cluster) {
    assert(program.world_size <= cluster.world_size() && "the cluster has a GPU for every rank");
    if (options.use_symmetry) view_ = representatives_view(program, cluster);
    if (view_) {
      for (const double capacity : view_->capacity) network_->add_resource(capacity);
    } else {
      for (const Link& link : cluster.topology.links) network_->add_resource(link.bandwidth.value());
    }
    skipped_bytes_.assign(view_ ? view_->capacity.size() : cluster.topology.links.size(), 0.0);
    compute_cache_.resize(program.blocks.size());
    for (const LinkId l : options.watch) {
      if (view_) {
        const auto orbit = static_cast<std::size_t>(view_->orbit_of_link[l.index()]);
        watched_.push_back({ResourceId(orbit), view_->bytes_per_link[orbit], {l, {}}});
      } else {
        watched_.push_back({ResourceId(l.value()), 1.0, {l, {}}});
      }
    }
  }

  Timeline run() {
    const std::int64_t simulated = view_ ? view_->representatives : program_.world_size;
    ranks_.reserve(static_cast<std::size_t>(simulated));
    for (std::int64_t r = 0; r < simulated; ++r)
      ranks_.push_back({.cursor = ProgramCursor(program_.stages[program_.stage_of(rank_id(r))])});
    gpus_.resize(static_cast<std::size_t>(ceil_div(simulated, cluster_.ranks_per_gpu)));
    for (std::int64_t r = 0; r < simulated; ++r) go_on(rank_id(r));
    while (true) {
      if (waiting_ > 0 && !anything_at_present()) {
        pass_boundary();
        continue;
      }
      if (!step()) break;
    }
    return finish();
  }

 private:
  static RankId rank_id(std::int64_t r) { return RankId(static_cast<std::int32_t>(r)); }
  RankState& state(RankId r) { return ranks_[r.index()]; }
  const Block& block_of(RankId r) { return program_.blocks[state(r).cursor.block().index()]; }
  /// The rank that represents r in the simulation.
  [[nodiscard]] RankId simulated(RankId r) const { return RankId(r.index() % ranks_.size()); }

  // --- The event loop ---

  std::optional<SimTime> next_network_time() {
    const auto t = network_->next_completion();
    if (!t) return std::nullopt;
    // A time within rounding of a whole picosecond is not rounded up to the next one.
    const double picoseconds = std::ceil((*t - coincidence(*t)) * 1e12);
    if (!(picoseconds < 0x1p63)) throw_time_out_of_range(*t);
    return std::max(SimTime(static_cast<std::int64_t>(picoseconds)), now_);
  }

  bool anything_at_present() {
    if (!events_.empty() && events_.top().time == now_) return true;
    const auto t = next_network_time();
    return t && *t == now_;
  }

  /// Advances the network to the current time, or to `at_least` if that is later by rounding.
  void advance_network(double at_least) {
    network_clock_ = std::max({network_clock_, now_.seconds().value(), at_least});
    completed_.clear();
    network_->advance(network_clock_, completed_);
    for (Watched& w : watched_) look_at(w);
    for (const FlowId id : completed_) flow_ended(running_[id.index()]);
  }

  bool step() {
    const auto network_time = next_network_time();
    if (!network_time && events_.empty()) return false;
    if (network_time && (events_.empty() || *network_time <= events_.top().time)) {
      now_ = *network_time;
      advance_network(*network_->next_completion());
      return true;
    }
    Event event = events_.top();
    events_.pop();
    if (event.time > now_) {
      now_ = event.time;
      advance_network(0);
    }
    switch (event.kind) {
      case EventKind::ComputeEnd: compute_ended(event); break;
      case EventKind::FlowStart: start_all_flows(event); break;
      case EventKind::IdleExchangeEnd: exchange_ended(event.rank, event.exchange); break;
      case EventKind::WaitEnd: operation_ended(event.rank, event.operation); break;
    }
    return true;
  }

  void push(Event event) {
    event.number = ++event_count_;
    events_.push(std::move(event));
  }

  // --- Ranks, blocks and streams ---

  /// Moves a rank that has ended its block (or is at the start) to its next block or to a boundary.
  void go_on(RankId r) {
    RankState& s = state(r);
    switch (s.cursor.next()) {
      case ProgramCursor::At::End:
        s.finished = true;
        joined_end_ = std::max(joined_end_, now_ + offset_);
        return;
      case ProgramCursor::At::Boundary:
        s.waiting = true;
        ++waiting_;
        return;
      case ProgramCursor::At::Block: begin_block(r); return;
    }
  }

  void begin_block(RankId r) {
    RankState& s = state(r);
    ++s.block_number;
    const std::vector<Operation>& operations = block_of(r).operations;
    s.open_operations = 0;
    s.open_dependencies.assign(operations.size(), 0);
    s.listed_before.assign(operations.size(), 0);
    s.started.assign(operations.size(), SimTime{});
    for (std::size_t i = 0; i < kStreams; ++i) {
      s.fifo[i].clear();
      s.head[i] = 0;
      s.busy[i] = false;
    }
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const auto index = static_cast<std::int32_t>(i);
      const auto stream = static_cast<std::size_t>(operations[i].stream);
      const auto dependencies = static_cast<std::int32_t>(operations[i].after.size());
      if (const Wait* wait = std::get_if<Wait>(&operations[i].work)) {
        s.listed_before[i] = s.background[static_cast<std::size_t>(wait->stream)].listed;
      }
      if (is_background(operations[i].stream)) {
        s.background[stream].queue.push_back({{s.cursor.block(), index, s.block_number}, dependencies, {}});
        ++s.background[stream].listed;
        continue;
      }
      ++s.open_operations;
      s.open_dependencies[i] = dependencies;
      s.fifo[stream].push_back(index);
    }
    const bool is_done = s.open_operations == 0;
    start_what_can(r);
    if (is_done) go_on(r);
  }

  void start_what_can(RankId r) {
    RankState& s = state(r);
    for (std::size_t i = 0; i < kStreams; ++i) {
      if (s.busy[i] || s.head[i] == s.fifo[i].size()) continue;
      const std::int32_t operation = s.fifo[i][s.head[i]];
      if (s.open_dependencies[static_cast<std::size_t>(operation)] > 0) continue;
      s.busy[i] = true;
      s.started[static_cast<std::size_t>(operation)] = now_;
      start_operation(r, operation);
    }
    for (std::size_t i = 0; i < kStreams; ++i) start_background(r, i);
  }

  const Operation& operation_at(const Place& p) const {
    return program_.blocks[p.block.index()].operations[static_cast<std::size_t>(p.operation)];
  }

  void start_operation(RankId r, std::int32_t index) {
    const Operation& operation = block_of(r).operations[static_cast<std::size_t>(index)];
    if (operation.communication()) {
      arrive(r, {state(r).cursor.block(), index, state(r).block_number});
      return;
    }
    if (const auto* receive = std::get_if<Receive>(&operation.work)) {
      channel(program_.group(receive->group).shifted(r, -receive->shift), r, receive->channel)
          .receives.push_back(index);
      hand_over(program_.group(receive->group).shifted(r, -receive->shift), r, receive->channel);
      return;
    }
    if (const auto* wait = std::get_if<Wait>(&operation.work)) {
      state(r).waits.push_back(
          {index, static_cast<std::size_t>(wait->stream), state(r).listed_before[static_cast<std::size_t>(index)]});
      end_waits(r);
      return;
    }
    const SimTime alone = compute_duration(r, index);
    if (state(r).computing.empty()) change_gpu(r, 0, 1);
    state(r).computing.push_back({index, static_cast<double>(alone.picoseconds()), now_, 0});
    schedule_compute_end(r, state(r).computing.back());
  }

  void operation_ended(RankId r, std::int32_t index) {
    RankState& s = state(r);
    const std::vector<Operation>& operations = block_of(r).operations;
    const auto i = static_cast<std::size_t>(index);
    if (options_.keep_spans) {
      spans_.push_back({r, s.cursor.block(), index, -1, s.started[i] + offset_, now_ + offset_});
    }
    const auto stream = static_cast<std::size_t>(operations[i].stream);
    s.busy[stream] = false;
    ++s.head[stream];
    for (std::size_t j = i + 1; j < operations.size(); ++j) {
      for (const std::int32_t a : operations[j].after) {
        if (a == index) --open_dependencies(s, operations[j], j);
      }
    }
    if (--s.open_operations == 0) {
      for (std::size_t k = 0; k < kStreams; ++k) start_background(r, k);
      go_on(r);
    } else {
      start_what_can(r);
    }
  }

  // --- Background streams, messages, and the operations that wait for them ---

  std::int32_t& open_dependencies(RankState& s, const Operation& operation, std::size_t index) {
    if (!is_background(operation.stream)) return s.open_dependencies[index];
    for (Queued& q : s.background[static_cast<std::size_t>(operation.stream)].queue) {
      if (q.place.block_number == s.block_number && q.place.operation == static_cast<std::int32_t>(index)) {
        return q.open_dependencies;
      }
    }
    throw std::logic_error("an operation of a background stream ended before one that it comes after");
  }

  void start_background(RankId r, std::size_t stream) {
    BackgroundStream& b = state(r).background[stream];
    if (b.is_busy || b.queue.empty() || b.queue.front().open_dependencies > 0) return;
    b.is_busy = true;
    b.queue.front().started = now_;
    const Place place = b.queue.front().place;
    const Operation& operation = operation_at(place);
    if (operation.communication()) {
      arrive(r, place);
    } else {
      send(r, place, std::get<Send>(operation.work));
    }
  }

  void background_ended(RankId r, std::size_t stream) {
    BackgroundStream& b = state(r).background[stream];
    const Queued done = b.queue.front();
    b.queue.pop_front();
    b.is_busy = false;
    ++b.ended;
    if (options_.keep_spans) {
      spans_.push_back({r, done.place.block, done.place.operation, -1, done.started + offset_, now_ + offset_});
    }
    start_background(r, stream);
    end_waits(r);
  }

  void end_waits(RankId r) {
    RankState& s = state(r);
    std::erase_if(s.waits, [&](const Waiting& w) {
      if (s.background[w.stream].ended < w.ends) return false;
      push({.time = now_, .number = 0, .kind = EventKind::WaitEnd, .rank = r, .operation = w.operation});
      return true;
    });
  }

  Channel& channel(RankId from, RankId to, std::int32_t number) {
    return channels_[{from.value(), to.value(), number}];
  }

  /// Matches messages that have arrived with waiting Receives.
  void hand_over(RankId from, RankId to, std::int32_t number) {
    Channel& c = channel(from, to, number);
    while (c.arrived > 0 && !c.receives.empty()) {
      push({.time = now_, .number = 0, .kind = EventKind::WaitEnd, .rank = to, .operation = c.receives.front()});
      c.receives.pop_front();
      --c.arrived;
    }
  }

  void send(RankId from, const Place& place, const Send& s) {
    const Operation& operation = operation_at(place);
    const RankId to = program_.group(s.group).shifted(from, s.shift);
    Exchange e;
    e.place = place;
    e.flows = {{from, to, byte_count(program_, operation.reads.front(), from), 1.0}};
    e.cost = communication_cost(program_, operation, from, cluster_);
    Seconds delay = e.cost.startup;
    if (e.cost.add_route_latency && from != to) delay += routes_.between(from, to).latency;
    const auto id = static_cast<std::int32_t>(exchanges_.size());
    exchanges_.push_back(std::move(e));
    push({.time = now_ + SimTime::from_seconds(delay),
          .number = 0,
          .kind = EventKind::FlowStart,
          .exchange = id,
          .flows = {0}});
  }

  // --- Computation ---

  SimTime compute_duration(RankId r, std::int32_t index) {
    const BlockId block = state(r).cursor.block();
    auto& cache = compute_cache_[block.index()];
    const std::size_t operations = block_of(r).operations.size();
    if (cache.empty()) cache.assign(operations * ranks_.size(), SimTime(-1));
    SimTime& cached = cache[r.index() * operations + static_cast<std::size_t>(index)];
    if (cached.picoseconds() < 0) {
      cached = SimTime::from_seconds(
          compute_time(program_, block_of(r).operations[static_cast<std::size_t>(index)], r, cluster_.gpu));
    }
    return cached;
  }

  GpuState& gpu_of(RankId r) { return gpus_[r.index() / static_cast<std::size_t>(cluster_.ranks_per_gpu)]; }

  /// The factor by which computations on the GPU take longer: its measured slowdown while communication is open on it,
  /// times the number of computing ranks, which share its speed equally.
  double slowdown(const GpuState& gpu) const {
    const double beside = gpu.open_exchanges > 0 ? cluster_.gpu.slowdown_beside_communication : 1.0;
    return beside * std::max(1, gpu.computing_ranks);
  }

  void schedule_compute_end(RankId r, Computing& c) {
    c.version = ++versions_;
    const auto left = static_cast<std::int64_t>(std::ceil(c.remaining_ps * slowdown(gpu_of(r))));
    push({.time = now_ + SimTime(left),
          .number = 0,
          .kind = EventKind::ComputeEnd,
          .rank = r,
          .operation = c.operation,
          .version = c.version});
  }

  void compute_ended(const Event& event) {
    auto& computing = state(event.rank).computing;
    const auto it = std::find_if(computing.begin(), computing.end(),
                                 [&](const Computing& c) { return c.version == event.version; });
    if (it == computing.end()) return;
    computing.erase(it);
    if (computing.empty()) change_gpu(event.rank, 0, -1);
    operation_ended(event.rank, event.operation);
  }

  /// Updates the speed of computations in progress on the rank's GPU when communication or computation begins or ends
  /// on the rank.
  void change_gpu(RankId r, std::int32_t exchanges, std::int32_t computing) {
    GpuState& gpu = gpu_of(r);
    const double before = slowdown(gpu);
    gpu.open_exchanges += exchanges;
    gpu.computing_ranks += computing;
    if (slowdown(gpu) == before) return;
    const auto shared_by = static_cast<std::size_t>(cluster_.ranks_per_gpu);
    const std::size_t first = r.index() - r.index() % shared_by, last = std::min(first + shared_by, ranks_.size());
    for (std::size_t other = first; other < last; ++other) {
      for (Computing& c : ranks_[other].computing) {
        c.remaining_ps = std::max(0.0, c.remaining_ps - static_cast<double>((now_ - c.since).picoseconds()) / before);
        c.since = now_;
        schedule_compute_end(RankId(other), c);
      }
    }
  }

  // --- Communication ---

  std::int32_t exchange_of(RankId r, const Place& place) {
    const Operation& operation = operation_at(place);
    const GroupFamily& family = program_.group(operation.communication()->group);
    const auto key = std::tuple(place.block_number, place.operation, family.base(r).value());
    const auto [it, is_new] = exchange_index_.try_emplace(key, static_cast<std::int32_t>(exchanges_.size()));
    if (!is_new) return it->second;
    Exchange e;
    e.place = place;
    e.flows = transfers(operation, r);
    e.cost = communication_cost(program_, operation, family.base(r), cluster_);
    if (runs_in_rings(*operation.communication()) && e.cost.add_route_latency) {
      e.ring_latency = Seconds(0);
      for (const Transfer& f : e.flows) e.ring_latency = std::max(*e.ring_latency, latency(operation, f));
    }
    const auto size = static_cast<std::size_t>(family.size);
    e.flows_of.resize(size);
    e.arrived.assign(size, false);
    e.open_flows.assign(size, 0);
    for (std::size_t f = 0; f < e.flows.size(); ++f) {
      const auto end_at = [&](RankId end) {
        const auto position = static_cast<std::size_t>(family.position(end));
        e.flows_of[position].push_back(static_cast<std::int32_t>(f));
        ++e.open_flows[position];
      };
      const RankId from = e.flows[f].from, to = simulated(e.flows[f].to);
      end_at(from);
      if (to != from) end_at(to);  // else what it receives is symmetric to what it sends
    }
    exchanges_.push_back(std::move(e));
    return it->second;
  }

  /// The transfers in the group of r. Under symmetry, only those sent by representatives, merged by ends, size and
  /// path; transfers to images of a representative represent those that it receives.
  std::vector<Transfer> transfers(const Operation& operation, RankId r) {
    std::vector<Transfer> out;
    if (!view_) {
      for (const Flow& f : group_flows(program_, operation, r)) out.push_back({f.from, f.to, f.bytes, 1.0});
      return out;
    }
    const GroupFamily& family = program_.group(operation.communication()->group);
    std::map<std::tuple<RankId, RankId, std::int32_t, std::int64_t>, std::size_t> merged;
    for (std::int64_t p = 0; p < family.size; ++p) {
      const RankId from = family.member(r, p);
      if (simulated(from) != from) break;
      for (const Flow& f : flows_from(program_, operation, from)) {
        // Each flow of a ring has its own path.
        const bool in_ring = runs_in_rings(*operation.communication());
        const std::int32_t way = in_ring ? f.to.value() : view_->way_between(from, f.to);
        const auto [it, is_new] = merged.try_emplace({from, simulated(f.to), way, f.bytes}, out.size());
        if (is_new) {
          out.push_back({f.from, f.to, f.bytes, 1.0});
        } else {
          out[it->second].weight += 1;
        }
      }
    }
    return out;
  }

  void arrive(RankId r, const Place& place) {
    const std::int32_t id = exchange_of(r, place);
    change_gpu(r, 1, 0);
    Exchange& e = exchanges_[static_cast<std::size_t>(id)];
    const Operation& operation = operation_at(place);
    const GroupFamily& family = program_.group(operation.communication()->group);
    const auto position = static_cast<std::size_t>(family.position(r));
    e.arrived[position] = true;
    if (e.flows_of[position].empty()) {
      push({.time = now_ + SimTime::from_seconds(e.cost.startup),
            .number = 0,
            .kind = EventKind::IdleExchangeEnd,
            .rank = r,
            .exchange = id});
      return;
    }
    std::map<SimTime, std::vector<std::int32_t>> starts;
    for (const std::int32_t f : e.flows_of[position]) {
      const Transfer& flow = e.flows[static_cast<std::size_t>(f)];
      const RankId peer = flow.from == r ? simulated(flow.to) : flow.from;
      if (!e.arrived[static_cast<std::size_t>(family.position(peer))]) continue;
      Seconds delay = e.cost.startup;
      if (e.cost.add_route_latency) delay += e.ring_latency ? *e.ring_latency : latency(operation, flow);
      starts[now_ + SimTime::from_seconds(delay)].push_back(f);
    }
    for (auto& [time, flows] : starts) {
      push({.time = time, .number = 0, .kind = EventKind::FlowStart, .exchange = id, .flows = std::move(flows)});
    }
  }

  /// Starts all flows of one instant together, so that the network computes one allocation. (A flow that has just
  /// started ends later, so no network event can come in between.)
  void start_all_flows(Event event) {
    start_flows(event);
    while (!events_.empty() && events_.top().time == now_ && events_.top().kind == EventKind::FlowStart) {
      event = events_.top();
      events_.pop();
      start_flows(event);
    }
  }

  void start_flows(const Event& event) {
    network_clock_ = std::max(network_clock_, now_.seconds().value());
    const Exchange& e = exchanges_[static_cast<std::size_t>(event.exchange)];
    const Operation& operation = operation_at(e.place);
    std::vector<FlowUse> uses;
    for (const std::int32_t f : event.flows) {
      const Transfer& flow = e.flows[static_cast<std::size_t>(f)];
      uses.clear();
      if (flow.from == flow.to) {
        // A rank's message to itself crosses no link.
      } else if (view_) {
        for (const auto& [orbit, share] : way_of_flow(*view_, program_, operation, flow.from, flow.to).orbits) {
          uses.push_back({ResourceId(orbit), share});
        }
      } else {
        for (const RouteLink& l : routes_.between(flow.from, flow.to).links)
          uses.push_back({ResourceId(l.link.value()), l.share});
      }
      if (e.cost.rate_cap) {
        uses.push_back({cap(flow.from, operation.stream, 0, *e.cost.rate_cap), 1.0});
        // A single representative receives symmetrically to what it sends, so one cap is enough.
        if (ranks_.size() > 1) uses.push_back({cap(simulated(flow.to), operation.stream, 1, *e.cost.rate_cap), 1.0});
      }
      const FlowId id = network_->start(uses, static_cast<double>(flow.bytes), flow.weight, network_clock_);
      running_.resize(id.index() + 1);
      running_[id.index()] = {event.exchange, f};
    }
  }

  void flow_ended(RunningFlowOf which) {
    Exchange& e = exchanges_[static_cast<std::size_t>(which.exchange)];
    const Transfer flow = e.flows[static_cast<std::size_t>(which.flow)];
    const Operation& operation = operation_at(e.place);
    if (const auto* sent = std::get_if<Send>(&operation.work)) {
      ++channel(flow.from, flow.to, sent->channel).arrived;
      hand_over(flow.from, flow.to, sent->channel);
      background_ended(flow.from, static_cast<std::size_t>(operation.stream));
      return;
    }
    const GroupFamily& family = program_.group(operation.communication()->group);
    const auto is_done = [&](RankId end) {
      return --e.open_flows[static_cast<std::size_t>(family.position(end))] == 0;
    };
    const RankId to = simulated(flow.to);
    const bool from_done = is_done(flow.from);
    const bool to_done = to != flow.from && is_done(to);
    if (from_done) exchange_ended(flow.from, which.exchange);
    if (to_done) exchange_ended(to, which.exchange);
  }

  void exchange_ended(RankId r, std::int32_t exchange) {
    const Place place = exchanges_[static_cast<std::size_t>(exchange)].place;
    const Stream stream = operation_at(place).stream;
    change_gpu(r, -1, 0);
    if (is_background(stream)) {
      background_ended(r, static_cast<std::size_t>(stream));
    } else {
      operation_ended(r, place.operation);
    }
  }

  /// The rate cap of a rank's stream in one direction, as a resource of the network.
  ResourceId cap(RankId r, Stream stream, int direction, BytesPerSecond rate) {
    const auto key = std::tuple(r.value(), static_cast<int>(stream), direction, rate.value());
    const auto [it, is_new] = caps_.try_emplace(key, ResourceId{});
    if (is_new) it->second = network_->add_resource(rate.value());
    return it->second;
  }

  Seconds latency(const Operation& operation, const Transfer& flow) {
    return view_ ? way_of_flow(*view_, program_, operation, flow.from, flow.to).latency
                 : routes_.between(flow.from, flow.to).latency;
  }

  // --- Repeats ---

  /// Bytes carried by resource of the network (a link or an orbit of links), including skipped iterations.
  std::vector<double> link_bytes() {
    std::vector<double> bytes(skipped_bytes_);
    for (std::size_t l = 0; l < bytes.size(); ++l) bytes[l] += network_->bytes_carried(ResourceId(l));
    return bytes;
  }

  /// Records what a link has carried since the last event. Rates change at events only, so its bandwidth was constant.
  void look_at(Watched& w) {
    if (now_ == w.seen_at) return;
    const double carried = network_->bytes_carried(w.resource);
    const double bytes = (carried - w.seen) * w.bytes_per_byte;
    const SimTime start = w.seen_at + offset_, end = now_ + offset_;
    w.seen = carried;
    w.seen_at = now_;
    if (bytes <= 0) {
      w.may_extend = false;
      return;
    }
    std::vector<LinkSegment>& segments = w.history.segments;
    if (w.may_extend) {
      constexpr double kSameRate = 1e-6;  // relative: times are whole picoseconds
      LinkSegment& last = segments.back();
      const double rate = last.bytes / static_cast<double>((last.end - last.start).picoseconds());
      const double now = bytes / static_cast<double>((end - start).picoseconds());
      if (std::abs(now - rate) <= kSameRate * rate) {
        last.end = end;
        last.bytes += bytes;
        return;
      }
    }
    segments.push_back({start, end, bytes, -1});
    w.may_extend = true;
  }

  std::vector<std::size_t> segment_counts() {
    std::vector<std::size_t> counts;
    for (Watched& w : watched_) {
      counts.push_back(w.history.segments.size());
      w.may_extend = false;
    }
    return counts;
  }

  /// Handles the ranks at a boundary of a repeat, when no other event remains at this instant.
  void pass_boundary() {
    const ProgramCursor& first = ranks_.front().cursor;
    const bool in_step = std::all_of(ranks_.begin(), ranks_.end(), [&](const RankState& s) {
      return s.waiting && s.cursor.same_boundary(first) && is_quiet(s);
    });
    if (!in_step || !options_.skip_repeats) {
      for (const RankState& s : ranks_) {
        if (s.waiting && s.cursor.depth() <= in_step_.size()) in_step_[s.cursor.depth() - 1].reset();
      }
      release();
      return;
    }
    exchanges_.clear();
    exchange_index_.clear();
    in_step_.resize(first.depth());
    std::optional<InStep>& level = in_step_.back();
    if (first.iterations_done() > 0 && level) {
      skip_iterations(*level, first.iterations() - first.iterations_done());
      for (RankState& s : ranks_) s.cursor.end_repeat();
      level.reset();
    } else {
      level = InStep{now_ + offset_, spans_.size(), repeats_.size(), link_bytes(), segment_counts()};
    }
    release();
  }

  /// Whether the rank has no background operation in flight.
  static bool is_quiet(const RankState& s) {
    return std::all_of(s.background.begin(), s.background.end(),
                       [](const BackgroundStream& b) { return b.queue.empty(); });
  }

  void skip_iterations(const InStep& from, std::int64_t more) {
    if (more == 0) return;
    const SimTime period = now_ + offset_ - from.time;
    const auto id = static_cast<std::int32_t>(repeats_.size());
    for (std::size_t i = from.spans; i < spans_.size(); ++i) {
      if (spans_[i].repeat < 0) spans_[i].repeat = id;
    }
    for (std::size_t i = from.repeats; i < repeats_.size(); ++i) {
      if (repeats_[i].parent < 0) repeats_[i].parent = id;
    }
    for (std::size_t w = 0; w < watched_.size(); ++w) {
      std::vector<LinkSegment>& segments = watched_[w].history.segments;
      for (std::size_t i = from.segments[w]; i < segments.size(); ++i) {
        if (segments[i].repeat < 0) segments[i].repeat = id;
      }
      watched_[w].may_extend = false;
    }
    repeats_.push_back({-1, more + 1, from.time, period});
    const std::vector<double> bytes = link_bytes();
    for (std::size_t l = 0; l < bytes.size(); ++l) {
      skipped_bytes_[l] += static_cast<double>(more) * (bytes[l] - from.link_bytes[l]);
    }
    offset_ += SimTime::scaled(period, more);
  }

  void release() {
    waiting_ = 0;
    std::vector<RankId> released;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      RankState& s = ranks_[r];
      if (!s.waiting) continue;
      s.waiting = false;
      released.push_back(RankId(r));
    }
    for (const RankId r : released) {
      state(r).cursor.pass();
      go_on(r);
    }
  }

  Timeline finish() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (!ranks_[r].finished || !is_quiet(ranks_[r])) {
        throw std::logic_error("the Program does not end: rank " + std::to_string(r) + " waits in block '" +
                               block_of(RankId(r)).name + "'");
      }
    }
    Timeline timeline;
    timeline.makespan = now_ + offset_;
    timeline.joined_end = joined_end_;
    timeline.spans = std::move(spans_);
    if (view_) timeline.alike = program_.world_size;
    if (view_) timeline.classes = view_->representatives;
    sort_spans(timeline.spans);
    timeline.repeats = std::move(repeats_);
    const std::vector<double> bytes = link_bytes();
    for (std::size_t l = 0; l < cluster_.topology.links.size(); ++l) {
      const auto orbit = view_ ? static_cast<std::size_t>(view_->orbit_of_link[l]) : l;
      const double on_link = view_ ? bytes[orbit] * view_->bytes_per_link[orbit] : bytes[orbit];
      if (on_link > 0) timeline.links.push_back({LinkId(l), on_link});
    }
    for (Watched& w : watched_) timeline.link_history.push_back(std::move(w.history));
    return timeline;
  }

  const Program& program_;
  const Cluster& cluster_;
  SimulateOptions options_;
  std::unique_ptr<Network> network_;
  const SymmetricView* view_ = nullptr;  // null if every rank is simulated

  SimTime now_;     // simulated time without skipped iterations
  SimTime offset_;  // total time of skipped iterations
  SimTime joined_end_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t event_count_ = 0;
  std::uint64_t versions_ = 0;
  std::vector<RankState> ranks_;
  std::vector<GpuState> gpus_;
  std::int64_t waiting_ = 0;

  std::vector<std::vector<SimTime>> compute_cache_;  // by block, then rank and operation
  std::vector<Exchange> exchanges_;
  std::map<std::tuple<std::int64_t, std::int32_t, std::int32_t>, std::int32_t> exchange_index_;
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, Channel> channels_;  // by sender, receiver, channel
  std::vector<RunningFlowOf> running_;                                                // by FlowId
  std::vector<FlowId> completed_;
  double network_clock_ = 0;
  std::map<std::tuple<std::int32_t, int, int, double>, ResourceId> caps_;
  RankRoutes routes_;

  std::vector<std::optional<InStep>> in_step_;  // by nesting level: set if all ranks began this iteration together
  std::vector<double> skipped_bytes_;
  std::vector<TimelineSpan> spans_;
  std::vector<TimelineRepeat> repeats_;
  std::vector<Watched> watched_;
};

}  // namespace

Timeline simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options) {
  return Engine(program, cluster, options).run();
}

}  // namespace moeplan::sim
