#include "planner/collective_programs.hpp"

#include <algorithm>
#include <array>

#include "model/base/reader.hpp"

namespace moeplan {

namespace {

constexpr GroupId kWorld{};

template <Collective kCollective>
std::vector<Communication> at_once(std::int64_t /*world*/) {
  return {{.collective = kCollective, .group = kWorld}};
}

/// Step j exchanges with the ranks j before and behind. Step 0, to oneself, is left out.
std::vector<Communication> pairwise(std::int64_t world) {
  std::vector<Communication> steps;
  for (std::int64_t j = 1; j < world; ++j) {
    steps.push_back({.collective = Collective::AllToAll, .group = kWorld, .first = j, .count = 1, .of = world});
  }
  return steps;
}

/// Whether the size is cut into one part a rank.
bool is_split(Collective collective) {
  return collective == Collective::AllToAll || collective == Collective::AllGather ||
         collective == Collective::ReduceScatter;
}

}  // namespace

std::span<const CollectiveAlgorithm> collective_algorithms() {
  static constexpr std::array<CollectiveAlgorithm, 6> kAlgorithms{{
      {Collective::AllToAll, "linear", "every pair at once", at_once<Collective::AllToAll>},
      {Collective::AllToAll, "pairwise", "step j exchanges with ranks r - j and r + j, one step after the other",
       pairwise},
      {Collective::AllGather, "ring",
       "rings through all nodes, one for each GPU of a node: every rank passes on what it got",
       at_once<Collective::AllGather>},
      {Collective::ReduceScatter, "ring",
       "rings through all nodes, one for each GPU of a node: every rank adds its part to what it got",
       at_once<Collective::ReduceScatter>},
      {Collective::AllReduce, "ring",
       "rings through all nodes, one for each GPU of a node: reduce-scatter, then all-gather",
       at_once<Collective::AllReduce>},
      {Collective::Broadcast, "ring", "a chain from rank 0", at_once<Collective::Broadcast>},
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
  const std::int64_t part = size / world;
  Program p;
  p.world_size = world;
  p.ranks_per_node = ranks_per_node;
  p.groups = {{"world", world, 1}};
  p.buffers = {{"send", 1, Dtype::Int8}, {"receive", 1, Dtype::Int8}};
  const Slice send{BufferId(0), Rows::fixed(algorithm.collective == Collective::AllGather ? part : size)};
  const Slice receive{BufferId(1), Rows::fixed(algorithm.collective == Collective::ReduceScatter ? part : size)};
  Block block{.name = std::string(name_of<Collective>(kCollectiveNames, algorithm.collective)), .operations = {}};
  for (const Communication& step : algorithm.steps(world)) {
    block.operations.push_back(
        {.name = block.name,
         .op_class = algorithm.collective == Collective::AllToAll ? OpClass::Dispatch : OpClass::Gradient,
         .stream = Stream::Inter,
         .work = step,
         .reads = {send},
         .writes = {receive},
         .after = {}});
  }
  p.blocks.push_back(std::move(block));
  p.sequence.push_back({.block = BlockId(0)});
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
