#include "planner/lowering/collective_programs.hpp"

#include <algorithm>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>

#include "model/base/diagnostics.hpp"
#include "model/collectives/collective_models.hpp"
#include "model/costs/communication.hpp"
#include "model/costs/estimate.hpp"
#include "model/costs/parm.hpp"
#include "model/program/resolve.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/spec_files.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::collective_programs_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

Timeline run(const CollectiveAlgorithm& a, const Cluster& cluster, std::int64_t bytes) {
  return simulate(collective_program(a, cluster.world_size(), bytes, cluster.ranks_per_node()), cluster);
}

const CollectiveAlgorithm& algorithm(Collective c, std::string_view name) { return *find_algorithm(c, name); }

std::int64_t bytes_sent(const Program& p, RankId rank) {
  std::int64_t sum = 0;
  for (const Operation& op : p.blocks.front().operations) {
    for (const Flow& f : flows_from(p, op, rank)) sum += f.bytes;
  }
  return sum;
}

/// The shipped clusters of this name in all sizes up to 128 ranks that they can have.
std::vector<Cluster> shipped_clusters(const std::filesystem::path& file) {
  const ClusterSpec spec = tests::load_cluster(file);
  std::vector<Cluster> out;
  for (const std::int64_t world : {2, 3, 4, 6, 8, 16, 24, 32, 64, 128}) {
    try {
      out.push_back(build_cluster(spec, world));
    } catch (const InputError&) {  // the machine is smaller, or has whole nodes
    }
  }
  return out;
}

/// Whether the cluster's models reduce such messages along trees, whose few steps are no gather's.
bool reduces_along_trees(const Cluster& cluster, std::int64_t bytes) {
  if (!cluster.collective_models) return false;
  const GroupShape shape = shape_of({"all", cluster.world_size(), 1}, RankId(0), cluster);
  const auto cost = collective_cost(*cluster.collective_models, Collective::AllReduce, shape, Bytes(double(bytes)));
  return cost && cost->algorithm.starts_with("tree");
}

}  // namespace

TEST_CASE("On no shipped cluster an all-reduce is faster than what it contains, nor more bytes than fewer", "[slow]") {
  constexpr double kRounding = 1 - 1e-6;
  for (const std::filesystem::path& file : tests::files_in("clusters")) {
    const std::vector<Cluster> clusters = shipped_clusters(file);
    CAPTURE(file.stem().string());
    CHECK_FALSE(clusters.empty());
    for (const Cluster& cluster : clusters) {
      std::map<Collective, Seconds> before;
      for (std::int64_t bytes = 1 << 10; bytes <= std::int64_t{1} << 32; bytes *= 4) {
        std::map<Collective, Seconds> time;
        for (const Collective c : {Collective::AllReduce, Collective::ReduceScatter, Collective::AllGather,
                                   Collective::AllToAll, Collective::Broadcast}) {
          CAPTURE(cluster.world_size(), bytes, std::string(name_of<Collective>(kCollectiveNames, c)));
          time[c] = run(algorithm(c, algorithm_names(c).front()), cluster, bytes).makespan.seconds();
          CHECK(time[c] >= before[c] * kRounding);
        }
        CAPTURE(cluster.world_size(), bytes);
        if (!reduces_along_trees(cluster, bytes)) {
          CHECK(time[Collective::AllReduce] >= time[Collective::ReduceScatter] * kRounding);
          CHECK(time[Collective::AllReduce] >= time[Collective::AllGather] * kRounding);
        }
        before = std::move(time);
      }
    }
  }
}

TEST_CASE("the first algorithm of each collective is its default") {
  CHECK(algorithm_names(Collective::AllToAll) ==
        std::vector<std::string>{"linear", "pairwise", "1dh", "2dh", "naive_local", "3dh", "pipe"});
  CHECK(algorithm_names(Collective::AllGather) == std::vector<std::string>{"ring", "recursive_doubling"});
  CHECK(algorithm_names(Collective::ReduceScatter) == std::vector<std::string>{"ring", "recursive_halving"});
  CHECK(algorithm_names(Collective::AllReduce) == std::vector<std::string>{"ring", "tree", "halving_doubling"});
  CHECK(algorithm_names(Collective::Broadcast) == std::vector<std::string>{"ring", "tree"});
  CHECK(algorithm_names(Collective::SendReceive).empty());
  CHECK(find_algorithm(Collective::AllReduce, "linear") == nullptr);
}

TEST_CASE("a size is in whole bytes a rank where it is cut into one part a rank") {
  CHECK(whole_message(Collective::AllGather, 6, 1024) == 6 * 170);
  CHECK(whole_message(Collective::AllToAll, 512, 100) == 512);
  CHECK(whole_message(Collective::AllReduce, 6, 1024) == 1024);
}

TEST_CASE("every collective alone takes its closed form") {
  for (const int nodes : {1, 2}) {
    Cluster cluster = tests::toy_cluster(nodes, 4, Seconds(1e-6));
    cluster.collective_startup = Seconds(5e-6);
    cluster.message_overhead = Seconds(1e-7);
    for (const CollectiveAlgorithm& a : collective_algorithms()) {
      CAPTURE(nodes, std::string(a.name), static_cast<int>(a.collective));
      if (a.infeasibility(cluster.world_size(), cluster.ranks_per_node())) continue;
      const Program p = collective_program(a, cluster.world_size(), 1 << 20, cluster.ranks_per_node());
      const double simulated = simulate(p, cluster).makespan.seconds().value();
      const double closed_form = estimate(p, cluster).closed_form.value();
      const double operations = static_cast<double>(p.blocks.front().operations.size());
      // Between nodes, steps of a pairwise exchange load the links of inner and outer ranks unevenly, and ranks that
      // are done early begin the next one: the closed form is above.
      if (nodes == 2 && a.name == "pairwise") {
        CHECK(simulated <= closed_form * (1 + 1e-9));
      } else if (nodes == 2 && a.name == "linear") {
        // Flows inside the node start earlier, by their shorter route, and leave the links to the others.
        CHECK(simulated == Approx(closed_form).epsilon(0.01));
      } else {
        CHECK(std::abs(simulated - closed_form) <= std::max(operations * 1e-12, 1e-9 * closed_form));
      }
    }
  }
}

TEST_CASE("the closed form of a collective on a group knows the rings of its Program") {
  // Eight NICs a node: a ring through whole nodes leaves each of them by another GPU, in eight rings at once.
  const Cluster cluster = tests::built_cluster("azure_ndv4", 64);
  for (const Collective c : {Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce}) {
    CAPTURE(static_cast<int>(c));
    const Program p = collective_program(algorithm(c, "ring"), 64, 256 << 20, cluster.ranks_per_node());
    const Seconds closed_form = group_collective_time(cluster, 64, c, 64, 1, Bytes(256 << 20));
    CHECK(closed_form.value() == Approx(estimate(p, cluster).closed_form.value()).epsilon(1e-9));
    CHECK(closed_form.value() == Approx(simulate(p, cluster).makespan.seconds().value()).epsilon(1e-6));
  }
}

TEST_CASE("trees take the time of their bytes and of their depth") {
  const double hop = 1e-6, start = 5e-6;
  const std::int64_t bytes = 1 << 20;
  for (const int nodes : {1, 2, 3, 5, 8}) {
    for (const int gpus : {1, 4}) {
      if (nodes * gpus == 1) continue;
      CAPTURE(nodes, gpus);
      Cluster cluster = tests::toy_cluster(nodes, gpus, Seconds(hop));
      cluster.collective_startup = Seconds(start);
      // Between GPUs of a node 2 hops, of different nodes 4; trees of n nodes are bit_width(n - 1) deep.
      const double chain = (gpus - 1) * 2 * hop;
      const double deep = std::bit_width(static_cast<unsigned>(nodes - 1)) * 4 * hop;
      const double s = static_cast<double>(bytes);
      for (const Collective c : {Collective::AllReduce, Collective::Broadcast}) {
        const bool twice = c == Collective::AllReduce;
        const Program p = collective_program(algorithm(c, "tree"), cluster.world_size(), bytes, gpus);
        const Estimate e = estimate(p, cluster);
        const double simulated = simulate(p, cluster).makespan.seconds().value();
        const double depth = twice ? 2 * (chain + deep) : chain + deep + (nodes > 1 ? chain : 0);
        // An inner node of one tree with two children, a leaf of the other, sends 3 halves of S and 1: 2 S. Trees of 2
        // and 3 nodes have no node with two children. A broadcast sends S down. In one node of 4 GPUs, rings of chains
        // carry 3 / 4 S up and down.
        const double up_and_down = nodes == 2 ? 1 : nodes == 3 ? 1.5 : 2;
        const double between = nodes == 1 ? 0 : (twice ? up_and_down : 1) * s;
        const double inside = nodes > 1 ? 0 : (twice ? 1.5 : 1) * s;
        const double expected = start + depth + std::max(between / tests::kNodeRate, inside / tests::kGpuRate);
        CHECK(simulated == Approx(e.closed_form.value()).epsilon(1e-9));
        CHECK(simulated == Approx(expected).epsilon(1e-4));
        CHECK(e.lower_bound.value() <= simulated * (1 + 1e-12));
        CHECK(simulate(p, cluster, {.use_symmetry = false}).makespan.seconds().value() == simulated);
      }
    }
  }
}

TEST_CASE("recursive algorithms move what rings move, in log2 steps") {
  for (const std::int64_t world : {2, 8, 32}) {
    for (const auto& [c, name] : {std::pair{Collective::AllGather, "recursive_doubling"},
                                  std::pair{Collective::ReduceScatter, "recursive_halving"},
                                  std::pair{Collective::AllReduce, "halving_doubling"}}) {
      const Program ring = collective_program(algorithm(c, "ring"), world, 320 * world);
      const Program steps = collective_program(algorithm(c, name), world, 320 * world);
      const auto log2 = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(world)) - 1);
      CHECK(steps.blocks.front().operations.size() == (c == Collective::AllReduce ? 2 : 1) * log2);
      for (std::int32_t r = 0; r < world; ++r) CHECK(bytes_sent(steps, RankId(r)) == bytes_sent(ring, RankId(r)));
    }
  }
  SECTION("step k of doubling exchanges 2^k blocks with the rank that differs in bit k") {
    const Program p = collective_program(algorithm(Collective::AllGather, "recursive_doubling"), 8, 8 * 100);
    for (std::int32_t k = 0; k < 3; ++k) {
      const Operation& step = p.blocks.front().operations[static_cast<std::size_t>(k)];
      CHECK(flows_from(p, step, RankId(5)) == std::vector<Flow>{{RankId(5), RankId(5 ^ (1 << k)), 100 << k}});
    }
  }
  SECTION("bytes that do not divide: every block is rounded up") {
    const Program p = collective_program(algorithm(Collective::AllReduce, "halving_doubling"), 8, 1001);
    CHECK(bytes_sent(p, RankId(3)) == 2 * 7 * 126);  // ceil(1001 / 8) = 126
  }
}

TEST_CASE("an all-to-all sends the same bytes at once and step by step") {
  for (const std::int64_t world : {2, 5, 8}) {
    const Program linear = collective_program(algorithm(Collective::AllToAll, "linear"), world, 8000);
    const Program pairwise = collective_program(algorithm(Collective::AllToAll, "pairwise"), world, 8000);
    for (std::int64_t r = 0; r < world; ++r) {
      const RankId rank(static_cast<std::int32_t>(r));
      CHECK(bytes_sent(linear, rank) == 8000 / world * (world - 1));
      CHECK(bytes_sent(pairwise, rank) == bytes_sent(linear, rank));
    }
    for (std::size_t j = 0; j < pairwise.blocks.front().operations.size(); ++j) {
      const Operation& step = pairwise.blocks.front().operations[j];
      const auto distance = static_cast<std::int32_t>(j + 1), size = static_cast<std::int32_t>(world);
      const std::vector<Flow> to = flows_from(pairwise, step, RankId(1)), from = flows_to(pairwise, step, RankId(1));
      REQUIRE((to.size() == 1 && from.size() == 1));
      CHECK(to.front().to == RankId((1 + distance) % size));
      CHECK(from.front().from == RankId((1 - distance + size) % size));
    }
  }
}

TEST_CASE("start-up of an all-to-all: a launch, and its messages, of which pairwise steps wait for one another") {
  Cluster cluster = tests::toy_cluster(1, 4);
  cluster.collective_startup = Seconds(5e-6);
  cluster.message_overhead = Seconds(1e-6);
  const auto start_up = [&](const char* name) {
    const double bytes = 3 * 1000 / tests::kGpuRate;  // of 4000 B, 1000 stay
    return run(algorithm(Collective::AllToAll, name), cluster, 4000).makespan.seconds().value() - bytes;
  };
  CHECK(start_up("linear") == Approx(5e-6 + 3 * 1e-6));
  CHECK(start_up("pairwise") == Approx(5e-6 + 3 * 1e-6));
  SECTION("a measured alpha is spread over the steps, which one launch starts") {
    cluster.collectives[{Collective::AllToAll, Span::IntraNode}] = {Seconds(9e-6), SecondsPerByte(1e-12)};
    CHECK(start_up("linear") == Approx(9e-6));
    CHECK(start_up("pairwise") == Approx(9e-6));
  }
}

TEST_CASE("a lone collective reaches the bus bandwidth of its links or of what was measured") {
  Cluster cluster = tests::toy_cluster(1, 8);
  const auto bus_bandwidth = [&](Collective c, const char* name) {
    const std::int64_t bytes = std::int64_t{1} << 33;
    const double time = run(algorithm(c, name), cluster, bytes).makespan.seconds().value();
    return static_cast<double>(bytes) / time * bus_bandwidth_factor(c, 8);
  };
  SECTION("each GPU's link is full from start to end, because all ranks are equal") {
    CHECK(bus_bandwidth(Collective::AllReduce, "ring") == Approx(tests::kGpuRate));
    CHECK(bus_bandwidth(Collective::AllGather, "ring") == Approx(tests::kGpuRate));
    CHECK(bus_bandwidth(Collective::ReduceScatter, "ring") == Approx(tests::kGpuRate));
    CHECK(bus_bandwidth(Collective::AllToAll, "linear") == Approx(tests::kGpuRate));
    CHECK(bus_bandwidth(Collective::AllToAll, "pairwise") == Approx(tests::kGpuRate));
    CHECK(bus_bandwidth(Collective::Broadcast, "ring") == Approx(tests::kGpuRate));
  }
  SECTION("measured: 2 (n - 1) / n over beta") {
    const double beta = 4e-10;
    cluster.collectives[{Collective::AllReduce, Span::IntraNode}] = {Seconds(0), SecondsPerByte(beta)};
    CHECK(bus_bandwidth(Collective::AllReduce, "ring") == Approx(14.0 / 8 / beta));
  }
}

TEST_CASE("an algorithm says where it cannot run") {
  CHECK(algorithm(Collective::AllGather, "recursive_doubling").infeasibility(6, 2)->text ==
        "\"recursive_doubling\" is for 2, 4, 8 ... ranks, not for 6");
  CHECK_FALSE(algorithm(Collective::AllGather, "recursive_doubling").infeasibility(8, 2));
  CHECK_FALSE(algorithm(Collective::AllToAll, "pairwise").infeasibility(2, 1));
  CHECK(algorithm(Collective::AllToAll, "2dh").infeasibility(8, 8)->text ==
        "hierarchical all-to-alls need several nodes of several ranks");
  CHECK(find_algorithm(Collective::AllToAll, "node_dedup") == nullptr);
}

TEST_CASE("all-to-alls of several levels deliver every rank's bytes") {
  const std::int64_t world = 24, size = 24 * 100;
  for (const char* name : {"1dh", "2dh", "naive_local", "3dh", "pipe"}) {
    CAPTURE(name);
    const Program p = collective_program(algorithm(Collective::AllToAll, name), world, size, 4);
    const Block& block = p.blocks.front();
    for (std::int32_t r = 0; r < world; ++r) {
      CHECK(byte_count(p, block.operations.front().reads.front(), RankId(r)) == size);
      CHECK(byte_count(p, block.operations.back().writes.front(), RankId(r)) == size);
    }
  }
  SECTION("2dh: m S / P to each of N - 1 others between nodes, N S / P to each of m - 1 inside") {
    const Program p = collective_program(algorithm(Collective::AllToAll, "2dh"), world, size, 4);
    const auto& operations = p.blocks.front().operations;
    REQUIRE(operations.size() == 4);
    for (const auto& [index, peers, bytes] : {std::tuple(1, 3, 6 * 100), std::tuple(3, 5, 4 * 100)}) {
      const std::vector<Flow> flows = flows_from(p, operations[static_cast<std::size_t>(index)], RankId(5));
      CHECK(std::ssize(flows) == peers);
      for (const Flow& f : flows) CHECK(f.bytes == bytes);
    }
  }
  SECTION("2dh: its copies read and write S each, 2 x 2 S in all") {
    const Program p = collective_program(algorithm(Collective::AllToAll, "2dh"), world, size, 4);
    std::int64_t copied = 0;
    for (const Operation& op : p.blocks.front().operations) {
      if (op.computes()) copied += compute_load(p, op, RankId(7)).bytes;
    }
    CHECK(copied == 2 * 2 * size);
  }
  SECTION("2dh: m - 1 + N - 1 messages are paid for") {
    Cluster cluster = tests::toy_cluster(6, 4);
    cluster.collective_startup = Seconds(5e-6);
    cluster.message_overhead = Seconds(1e-6);
    const Program p = collective_program(algorithm(Collective::AllToAll, "2dh"), world, size, 4);
    Seconds startup;
    for (const Operation& op : p.blocks.front().operations) {
      if (op.communication()) startup += communication_cost(p, op, RankId(0), cluster).startup;
    }
    CHECK(startup.value() == Approx(2 * 5e-6 + (4 - 1 + 6 - 1) * 1e-6));
    // Naive local aggregation leaves the pieces apart: N messages to each of m - 1, m to each of N - 1.
    const Program naive = collective_program(algorithm(Collective::AllToAll, "naive_local"), world, size, 4);
    startup = Seconds(0);
    for (const Operation& op : naive.blocks.front().operations) {
      startup += communication_cost(naive, op, RankId(0), cluster).startup;
    }
    CHECK(startup.value() == Approx(2 * 5e-6 + ((4 - 1) * 6 + (6 - 1) * 4) * 1e-6));
  }
  SECTION("1dh: the leader of a node gathers what all of it sends") {
    const Program p = collective_program(algorithm(Collective::AllToAll, "1dh"), world, size, 4);
    const Slice& gathered = p.blocks.front().operations.front().writes.front();
    CHECK(byte_count(p, gathered, RankId(4)) == 4 * size);
    CHECK(byte_count(p, gathered, RankId(5)) == 0);
  }
}

}  // namespace moeplan::tests::collective_programs_test
