#include "planner/lowering/collective_programs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "model/base/diagnostics.hpp"
#include "model/base/whole_numbers.hpp"
#include "model/text/reader.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

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

/// The groups of two ranks that differ in one bit, the one with value `distance`.
GroupFamily pairs(std::int64_t distance) { return {fmt::format("pairs {} apart", distance), 2, distance}; }

/// Recursive doubling with distances 1, 2, 4 ...: each pair all-gathers the blocks of both ranks.
std::vector<CollectiveStep> doubling(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps;
  for (std::int64_t distance = 1; distance < world; distance *= 2) {
    const std::int64_t have = ceil_div(bytes, world) * distance;
    steps.push_back({{.collective = Collective::AllGather}, pairs(distance), have, 2 * have});
  }
  return steps;
}

/// Recursive halving with distances world / 2, world / 4 ...: each pair reduce-scatters its remaining blocks.
std::vector<CollectiveStep> halving(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps;
  for (std::int64_t distance = world / 2; distance >= 1; distance /= 2) {
    const std::int64_t keep = ceil_div(bytes, world) * distance;
    steps.push_back({{.collective = Collective::ReduceScatter}, pairs(distance), 2 * keep, keep});
  }
  return steps;
}

/// All-reduce by recursive halving and doubling. If the number of ranks does not divide the bytes, every block is
/// rounded up.
std::vector<CollectiveStep> halving_doubling(std::int64_t world, std::int64_t bytes) {
  std::vector<CollectiveStep> steps = halving(world, bytes);
  for (CollectiveStep& s : doubling(world, bytes)) steps.push_back(std::move(s));
  return steps;
}

constexpr std::array<CollectiveAlgorithm, 9> kInSteps{{
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

/// Whether the message consists of one part per rank.
bool is_split(Collective collective) {
  return collective == Collective::AllToAll || collective == Collective::AllGather ||
         collective == Collective::ReduceScatter;
}

void write_all_to_all(const AllToAll& algorithm, std::int64_t size, BlockBuilder& block) {
  Program& p = block.program();
  const GroupId all = block.group("world", p.world_size, 1);
  p.routings.push_back({RoutingCounts::uniform(p.world_size, p.world_size, size / p.world_size), all});
  const RoutingId routing(0);
  const Slice send = block.slice("send", 1, Dtype::Int8, Rows::routed(routing, Rows::Experts::All, {}));
  const Slice receive = block.slice("receive", 1, Dtype::Int8,
                                    Rows::routed(routing, Rows::Experts::Local, {{RowStep::Kind::Union, all}}));
  algorithm.lower({"all_to_all", OpClass::Dispatch, all, send, receive, /*is_combine=*/false}, block);
}

void write_steps(const CollectiveAlgorithm& algorithm, std::int64_t size, BlockBuilder& block) {
  for (CollectiveStep& step : algorithm.steps(block.program().world_size, size)) {
    step.communication.group = block.group(step.group.name, step.group.size, step.group.stride);
    block.then({.name = std::string(name_of<Collective>(kCollectiveNames, algorithm.collective)),
                .op_class = OpClass::Gradient,
                .stream = Stream::Inter,
                .work = step.communication,
                .reads = {block.slice("send", 1, Dtype::Int8, Rows::fixed(step.reads))},
                .writes = {block.slice("receive", 1, Dtype::Int8, Rows::fixed(step.writes))},
                .after = {}});
  }
}

}  // namespace

std::span<const CollectiveAlgorithm> collective_algorithms() {
  static const std::vector<CollectiveAlgorithm> kAlgorithms = [] {
    std::vector<CollectiveAlgorithm> all;
    for (const auto& a : all_to_alls()) {
      if (a->deduplicates() || a->is_dispatcher()) continue;  // for tokens: here no two rows share one
      all.push_back({.collective = Collective::AllToAll,
                     .name = a->name(),
                     .summary = a->summary(),
                     .steps = nullptr,
                     .for_powers_of_two = false,
                     .all_to_all = a.get()});
    }
    all.insert(all.end(), kInSteps.begin(), kInSteps.end());
    return all;
  }();
  return kAlgorithms;
}

std::optional<Infeasibility> CollectiveAlgorithm::infeasibility(std::int64_t world, std::int64_t ranks_per_node) const {
  if (all_to_all) {
    const GroupFamily family = everyone(world);
    return all_to_all->infeasibility({family, members_per_node(ranks_per_node, family), 1});
  }
  if (!for_powers_of_two || std::has_single_bit(static_cast<std::uint64_t>(world))) return std::nullopt;
  return fmt::format("{} is for 2, 4, 8 ... ranks, not for {}", in_quotes(name), world);
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
  BlockBuilder block(p, std::string(name_of<Collective>(kCollectiveNames, algorithm.collective)));
  algorithm.all_to_all ? write_all_to_all(*algorithm.all_to_all, size, block) : write_steps(algorithm, size, block);
  p.stages.front().push_back({.block = block.finish()});
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

}  // namespace moeplan::planner
