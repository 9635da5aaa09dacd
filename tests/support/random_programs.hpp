// Random Programs and clusters for property tests of the simulator.
#pragma once

#include <rapidcheck.h>

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests {

/// A random number in [low, high]. For use inside a property.
inline std::int64_t pick(std::int64_t low, std::int64_t high) { return *rc::gen::inRange(low, high + 1); }

/// A small random Program: blocks of kernels and collectives on random streams, in nested repeats.
inline Program random_program(std::int64_t world, bool skewed, std::int64_t ranks_per_node = 1) {
  Program p;
  p.world_size = world;
  p.ranks_per_node = ranks_per_node;
  p.groups = {{"all", world, 1}, {"near", 2, 1}, {"far", world / 2, 2}, {"alone", 1, 1}};
  if (skewed) {
    std::vector<std::int64_t> counts;
    for (std::int64_t i = 0; i < world * world; ++i) counts.push_back(pick(0, 50'000));
    p.routings.push_back({RoutingCounts::dense(world, world, counts), GroupId(0)});
  } else {
    p.routings.push_back({RoutingCounts::uniform(world, world, 20'000), GroupId(0)});
  }
  const RowStep all{RowStep::Kind::Union, GroupId(0)};
  const std::int64_t blocks = pick(1, 3);
  for (std::int64_t b = 0; b < blocks; ++b) {
    p.blocks.push_back({.name = "block", .operations = {}});
    const std::int64_t operations = pick(0, 5);
    for (std::int32_t i = 0; i < operations; ++i) {
      std::vector<std::int32_t> after;
      for (std::int32_t a = 0; a < i; ++a) {
        if (pick(0, 2) == 0) after.push_back(a);
      }
      const auto stream = static_cast<Stream>(pick(0, 3));
      if (pick(0, 1) == 0) {
        Operation k = kernel_of(p, pick(0, 3 * 100'000), stream, after);
        if (pick(0, 1) == 0) k.reads.front().rows = Rows::routed(RoutingId(0), Rows::Experts::Local, {all});
        p.blocks.back().operations.push_back(std::move(k));
        continue;
      }
      const auto kind = static_cast<Collective>(pick(0, skewed ? 4 : 3));  // a broadcast is not symmetric in its ranks
      const GroupId group(static_cast<std::int32_t>(pick(0, 3)));
      const std::int64_t part = p.group(group).size * ranks_per_node;  // so that all rings carry equal bytes
      Operation c = collective_of(p, kind, group, pick(0, 100'000) * part, stream, after);
      if (skewed && (kind == Collective::AllReduce || kind == Collective::Broadcast) && pick(0, 1) == 0) {
        std::get<Communication>(c.work).pattern = Pattern::Tree;
      }
      if (kind == Collective::AllToAll && group == GroupId(0) && pick(0, 1) == 0) {
        const std::int64_t parts = pick(0, 1) == 0 ? 1 : world;
        std::get<Communication>(c.work).of = parts;
        std::get<Communication>(c.work).first = parts == 1 ? 0 : pick(0, parts - 1);
        c.reads.front().rows = Rows::routed(RoutingId(0), Rows::Experts::All, {});
      }
      p.blocks.back().operations.push_back(std::move(c));
    }
  }
  const auto block = [&] { return Step{.block = BlockId(static_cast<std::int32_t>(pick(0, blocks - 1)))}; };
  const Sequence inner{block(), block()};
  p.stages.front() = {block(),
                      Step{.block = {}, .count = pick(0, 4), .body = {block(), {.count = pick(1, 3), .body = inner}}},
                      block()};
  return p;
}

/// A random cluster of two nodes with two GPUs each. For use inside a property.
inline Cluster random_toy_cluster() {
  Cluster c = toy_cluster(2, 2, Seconds(static_cast<double>(pick(0, 2000)) * 1e-9));
  c.collective_startup = Seconds(static_cast<double>(pick(0, 10'000)) * 1e-9);
  c.gpu.slowdown_beside_communication = pick(0, 1) == 0 ? 1.0 : 1.15;
  c.gpu.slowdown_beside_computation = pick(0, 1) == 0 ? 1.0 : 1.25;
  if (pick(0, 1) == 0) {
    c.collectives[{Collective::AllToAll, Span::InterNode}] = {Seconds(2e-5), SecondsPerByte(3.06e-10)};
    c.collectives[{Collective::AllGather, Span::IntraNode}] = {Seconds(1e-5), SecondsPerByte(1.68e-10)};
  }
  return c;
}

/// The number of operations that a rank executes in a Program of one stage.
inline std::int64_t operations_of(const Program& p) {
  std::int64_t n = 0;
  const std::vector<std::int64_t> counts = block_counts(p);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    n += counts[b] * static_cast<std::int64_t>(p.blocks[b].operations.size());
  }
  return n;
}

/// The number of executions and the total time (ps) by rank, block and operation.
using Totals = std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::pair<std::int64_t, std::int64_t>>;
inline Totals totals(const Timeline& t) {
  Totals sums;
  for (const TimelineSpan& s : t.spans) {
    auto& [count, time] = sums[{s.rank.value(), s.block.value(), s.operation}];
    count += t.occurrences(s);
    time += t.occurrences(s) * (s.end - s.start).picoseconds();
  }
  return sums;
}

}  // namespace moeplan::tests
