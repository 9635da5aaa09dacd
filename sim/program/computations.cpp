#include "sim/program/computations.hpp"

#include <algorithm>
#include <cmath>

#include "model/base/whole_numbers.hpp"
#include "model/costs/compute.hpp"

namespace moeplan::sim {

Computations::Computations(const Program& program, const Cluster& cluster, std::size_t ranks, EventQueue& events,
                           NetworkFlows& flows)
    : program_(program),
      cluster_(cluster),
      events_(events),
      flows_(flows),
      computing_(ranks),
      durations_(program.blocks.size()) {
  gpus_.resize(static_cast<std::size_t>(ceil_div(static_cast<std::int64_t>(ranks), cluster.ranks_per_gpu)));
}

void Computations::start(RankId r, BlockId block, std::int32_t operation) {
  const SimTime alone = duration(r, block, operation);
  std::vector<Computing>& computing = computing_[r.index()];
  if (computing.empty()) change_gpu(r, {}, 1);
  computing.push_back({operation, static_cast<double>(alone.picoseconds()), events_.now(), 0,
                       is_persistent(program_, program_.operation(block, operation))});
  schedule_end(r, computing.back());
}

void Computations::start_host(RankId r, BlockId block, std::int32_t operation) {
  const Operation& op = program_.operation(block, operation);
  const auto* launches = std::get_if<Launches>(&op.work);
  const Seconds time = launches ? host_time(cluster_.gpu, *launches) : host_copy_time(program_, op, r, cluster_.gpu);
  events_.push({.time = events_.now() + SimTime::from_seconds(time),
                .kind = EventKind::OperationEnd,
                .rank = r,
                .operation = operation});
}

bool Computations::end(const Event& event) {
  std::vector<Computing>& computing = computing_[event.rank.index()];
  const auto it =
      std::find_if(computing.begin(), computing.end(), [&](const Computing& c) { return c.version == event.version; });
  if (it == computing.end()) return false;
  computing.erase(it);
  if (computing.empty()) change_gpu(event.rank, {}, -1);
  return true;
}

SimTime Computations::duration(RankId r, BlockId block, std::int32_t operation) {
  std::vector<SimTime>& durations = durations_[block.index()];
  const std::vector<Operation>& operations = program_.blocks[block.index()].operations;
  if (durations.empty()) durations.assign(operations.size() * computing_.size(), SimTime(-1));
  const auto index = static_cast<std::size_t>(operation);
  SimTime& duration = durations[r.index() * operations.size() + index];
  if (duration.picoseconds() < 0) {
    duration = SimTime::from_seconds(compute_time(program_, operations[index], r, cluster_.gpu));
  }
  return duration;
}

Computations::Speed Computations::speed(const Gpu& gpu) const {
  double by_communication = 1;
  for (const auto& [factor, count] : gpu.open) {
    if (count > 0) by_communication = std::max(by_communication, factor);
  }
  return {by_communication, std::max(1, gpu.computing_ranks)};
}

double Computations::slowdown(const Speed& speed, const Computing& computing) const {
  const bool has_two_waves = computing.is_persistent && speed.by_communication > 1;
  return (has_two_waves ? std::max(kTwoWaves, speed.by_communication) : speed.by_communication) * speed.computing_ranks;
}

void Computations::schedule_end(RankId r, Computing& computing) {
  computing.version = ++versions_;
  const auto left =
      static_cast<std::int64_t>(std::ceil(computing.remaining_ps * slowdown(speed(gpu_of(r)), computing)));
  events_.push({.time = events_.now() + SimTime(left),
                .kind = EventKind::ComputeEnd,
                .rank = r,
                .operation = computing.operation,
                .version = computing.version});
}

void Computations::change_gpu(RankId r, std::pair<double, std::int32_t> communications, std::int32_t computing_ranks) {
  Gpu& gpu = gpu_of(r);
  const Speed before = speed(gpu);
  const bool was_computing = gpu.computing_ranks > 0;
  if (communications.second != 0) {
    const auto it = std::find_if(gpu.open.begin(), gpu.open.end(),
                                 [&](const auto& open) { return open.first == communications.first; });
    if (it == gpu.open.end()) {
      gpu.open.push_back(communications);
    } else {
      it->second += communications.second;
    }
  }
  gpu.computing_ranks += computing_ranks;
  const auto shared_by = static_cast<std::size_t>(cluster_.ranks_per_gpu);
  const std::size_t first = r.index() - r.index() % shared_by, last = std::min(first + shared_by, computing_.size());
  if (const bool computes = gpu.computing_ranks > 0; computes != was_computing) {
    for (std::size_t other = first; other < last; ++other) flows_.set_computing(RankId(other), computes);
  }
  if (speed(gpu) == before) return;
  const SimTime now = events_.now();
  for (std::size_t other = first; other < last; ++other) {
    for (Computing& c : computing_[other]) {
      c.remaining_ps =
          std::max(0.0, c.remaining_ps - static_cast<double>((now - c.since).picoseconds()) / slowdown(before, c));
      c.since = now;
      schedule_end(RankId(other), c);
    }
  }
}

}  // namespace moeplan::sim
