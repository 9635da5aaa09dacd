#include "planner/collective_programs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/reader.hpp"
#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

GroupFamily everyone(std::int64_t world) { return {"world", world, 1}; }

template <Collective kCollective, Pattern kPattern = Pattern::Ring>
std::vector<CollectiveStep> at_once(std::int64_t world, std::int64_t bytes) {
  const std::int64_t block = bytes / world;
  return {{.communication = {.collective = kCollective, .pattern = kPattern},
           .group = everyone(world),
           .reads = kCollective == Collective::AllGather ? block : bytes,
           .writes = kCollective == Collective::ReduceScatter ? block : bytes}};
}

/// Step j exchanges with the ranks j before and behind. Step 0, to oneself, is left out.
std::vector<CollectiveStep> pairwise(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps;
  for (std::int64_t j = 1; j < world; ++j) {
    steps.push_back({.communication = {.collective = Collective::AllToAll, .first = j, .count = 1, .of = world},
                     .group = everyone(world),
                     .reads = bytes,
                     .writes = bytes});
  }
  return steps;
}

/// The pairs of ranks that differ in one bit are the groups of two, that bit apart.
GroupFamily pairs(std::int64_t distance) { return {fmt::format("pairs {} apart", distance), 2, distance}; }

/// Distances 1, 2, 4 ...: each pair gathers what both have.
std::vector<CollectiveStep> doubling(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps;
  for (std::int64_t distance = 1; distance < world; distance *= 2) {
    const std::int64_t have = ceil_div(bytes, world) * distance;
    steps.push_back({{.collective = Collective::AllGather}, pairs(distance), have, 2 * have});
  }
  return steps;
}

/// Distances world / 2, world / 4 ...: each pair adds up, and parts, what both are left with.
std::vector<CollectiveStep> halving(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps;
  for (std::int64_t distance = world / 2; distance >= 1; distance /= 2) {
    const std::int64_t keep = ceil_div(bytes, world) * distance;
    steps.push_back({{.collective = Collective::ReduceScatter}, pairs(distance), 2 * keep, keep});
  }
  return steps;
}

/// Where the bytes do not divide by the ranks, every block is rounded up.
std::vector<CollectiveStep> halving_doubling(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps = halving(world, bytes);
  for (CollectiveStep& s : doubling(world, bytes)) steps.push_back(std::move(s));
  return steps;
}

/// Whether the size is cut into one part a rank.
bool is_split(Collective collective) {
  return collective == Collective::AllToAll || collective == Collective::AllGather ||
         collective == Collective::ReduceScatter;
}

}  // namespace

std::span<const CollectiveAlgorithm> collective_algorithms() {
  static constexpr std::array<CollectiveAlgorithm, 11> kAlgorithms{{
      {Collective::AllToAll, "linear", "every pair at once", at_once<Collective::AllToAll>},
      {Collective::AllToAll, "pairwise", "step j exchanges with ranks r - j and r + j, one step after the other",
       pairwise},
      {Collective::AllGather, "ring",
       "rings through all nodes, one for each GPU of a node: every rank passes on what it got",
       at_once<Collective::AllGather>},
      {Collective::AllGather, "recursive_doubling",
       "log2 ranks steps: pairs 1, 2, 4 ... apart gather what both have [Thakur, Rabenseifner, Gropp 2005]", doubling,
       true},
      {Collective::ReduceScatter, "ring",
       "rings through all nodes, one for each GPU of a node: every rank adds its part to what it got",
       at_once<Collective::ReduceScatter>},
      {Collective::ReduceScatter, "recursive_halving",
       "log2 ranks steps: pairs ... 4, 2, 1 apart add and part what they have [Thakur, Rabenseifner, Gropp 2005]",
       halving, true},
      {Collective::AllReduce, "ring",
       "rings through all nodes, one for each GPU of a node: reduce-scatter, then all-gather",
       at_once<Collective::AllReduce>},
      {Collective::AllReduce, "tree",
       "two complementary binary trees over the nodes, a chain inside each: up to add, down again [NCCL]",
       at_once<Collective::AllReduce, Pattern::Tree>},
      {Collective::AllReduce, "halving_doubling",
       "recursive halving, then recursive doubling [Thakur, Rabenseifner, Gropp 2005]", halving_doubling, true},
      {Collective::Broadcast, "ring", "a chain from rank 0", at_once<Collective::Broadcast>},
      {Collective::Broadcast, "tree",
       "two complementary binary trees over the nodes, a chain inside each [Sanders, Speck, Traeff 2009]",
       at_once<Collective::Broadcast, Pattern::Tree>},
  }};
  return kAlgorithms;
}

std::vector<std::string> algorithm_names(Collective collective) {
  std::vector<std::string> names;
  for (const CollectiveAlgorithm& a : collective_algorithms()) {
    if (a.collective == collective) names.emplace_back(a.name);
  }
  return names;
}

const CollectiveAlgorithm* find_algorithm(Collective collective, std::string_view name) {
  for (const CollectiveAlgorithm& a : collective_algorithms()) {
    if (a.collective == collective && a.name == name) return &a;
  }
  return nullptr;
}

std::int64_t whole_message(Collective collective, std::int64_t world, std::int64_t bytes) {
  return is_split(collective) ? std::max<std::int64_t>(1, bytes / world) * world : bytes;
}

Program collective_program(const CollectiveAlgorithm& algorithm, std::int64_t world, std::int64_t bytes,
                           std::int64_t ranks_per_node) {
  const std::int64_t size = whole_message(algorithm.collective, world, bytes);
  Program p;
  p.world_size = world;
  p.ranks_per_node = ranks_per_node;
  p.buffers = {{"send", 1, Dtype::Int8}, {"receive", 1, Dtype::Int8}};
  Block block{.name = std::string(name_of<Collective>(kCollectiveNames, algorithm.collective)), .operations = {}};
  for (CollectiveStep& step : algorithm.steps(world, size)) {
    const auto group = std::find(p.groups.begin(), p.groups.end(), step.group);
    step.communication.group = GroupId(static_cast<std::size_t>(group - p.groups.begin()));
    if (group == p.groups.end()) p.groups.push_back(std::move(step.group));
    block.operations.push_back(
        {.name = block.name,
         .op_class = algorithm.collective == Collective::AllToAll ? OpClass::Dispatch : OpClass::Gradient,
         .stream = Stream::Inter,
         .work = step.communication,
         .reads = {{BufferId(0), Rows::fixed(step.reads)}},
         .writes = {{BufferId(1), Rows::fixed(step.writes)}},
         .after = {}});
  }
  p.blocks.push_back(std::move(block));
  p.stages.front().push_back({.block = BlockId(0)});
  return p;
}

double bus_bandwidth_factor(Collective collective, std::int64_t world) {
  const auto n = static_cast<double>(world);
  switch (collective) {
    case Collective::AllToAll:
    case Collective::AllGather:
    case Collective::ReduceScatter: return (n - 1) / n;
    case Collective::AllReduce: return 2 * (n - 1) / n;
    case Collective::Broadcast:
    case Collective::SendReceive: return 1;
  }
  return 1;
}

}  // namespace moeplan
