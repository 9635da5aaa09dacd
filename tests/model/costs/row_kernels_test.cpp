#include <catch2/catch.hpp>
#include <cmath>

#include "model/collectives/collective_models.hpp"
#include "model/costs/communication.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::row_kernels_test {

namespace {

constexpr std::int64_t kTokens = 1000, kColumns = 50;  // 100 B a row

/// The dispatch of the tokens of `nodes` x 2 ranks, top 2 of 4 experts a rank, by kernels of this name.
Program exchange_of(int nodes, const RowKernels& kernels) {
  const std::int64_t ranks = 2 * nodes, experts = 4 * ranks;
  Program p = tests::one_block(ranks, {{"ep", ranks, 1}, {"node", 2, 1}});
  p.ranks_per_node = 2;
  p.routings.push_back({RoutingCounts::uniform(ranks, experts, kTokens * 2 / experts), GroupId(0), 2});
  p.buffers = {{"sources", kColumns, Dtype::Bf16}, {"holders", kColumns, Dtype::Bf16}};
  Rows sources = Rows::routed({}, Rows::Experts::All, {});
  Rows holders = Rows::routed({}, Rows::Experts::Local, {{RowStep::Kind::Union, GroupId(0)}});
  sources.distinct = holders.distinct = true;
  Communication work{.collective = Collective::AllToAll, .group = GroupId(0)};
  work.kernels = kernels;
  if (nodes > 1) work.relays = GroupId(1);
  p.blocks.front().operations.push_back({.name = "dispatch",
                                         .op_class = OpClass::Dispatch,
                                         .stream = Stream::Inter,
                                         .work = work,
                                         .reads = {{BufferId(0), sources}},
                                         .writes = {{BufferId(1), holders}},
                                         .after = {}});
  return p;
}

/// `nodes` x 2 ranks whose kernels "k" take 20 us, and 10 GB/s of each of 2 SMs.
Cluster cluster_of(int nodes) {
  Cluster cluster = tests::toy_cluster(nodes, 2);
  cluster.collective_startup = Seconds(7e-6);
  DispatcherModel k{.dispatcher = "k", .mode = "", .combine_format = "", .sms = 2};
  k.dispatch = {.base = Seconds(20e-6), .copy = BytesPerSecond(1e10)};
  k.combine = {.base = Seconds(30e-6), .copy = BytesPerSecond(1e10)};
  CollectiveModels models{.cluster = "toy"};
  models.dispatchers = {k};
  cluster.collective_models = std::make_shared<const CollectiveModels>(models);
  return cluster;
}

CommunicationCost cost(const Program& p, const Cluster& cluster) {
  return communication_cost(p, p.operation(BlockId(0), 0), RankId(0), cluster);
}

}  // namespace

TEST_CASE("Kernels of rows start with their base, and SMs limit what a rank sends") {
  const Cluster cluster = cluster_of(1);
  // 8 experts on 2 ranks, top 2: a rank is missed by C(4,2) / C(8,2) = 6/28 of the tokens. A token has 2 x 22/28 rows
  // on ranks, each copied by one of 2 SMs at 10 GB/s; half of them leave the rank.
  const CommunicationCost c = cost(exchange_of(1, {.name = "k"}), cluster);
  CHECK(c.startup.value() == Approx(20e-6));
  CHECK_FALSE(c.add_route_latency);
  const double held = 2 * std::round(kTokens * 22.0 / 28) * 100, sent = held / 2;
  CHECK(sent / c.rate_cap->value() == Approx(held / 1e10 / 2));

  SECTION("a combine has numbers of its own") {
    CHECK(cost(exchange_of(1, {.name = "k", .combines = true}), cluster).startup.value() == Approx(30e-6));
  }
  SECTION("4 SMs copy twice as fast as 2") {
    const CommunicationCost more = cost(exchange_of(1, {.name = "k", .sms = 4}), cluster);
    CHECK(more.rate_cap->value() == Approx(2 * c.rate_cap->value()));
  }
  SECTION("data that accompany the rows start with them and are limited by links alone") {
    const CommunicationCost small = cost(exchange_of(1, {.name = "k", .accompanies = true}), cluster);
    CHECK(small.startup == Seconds(0));
    CHECK_FALSE(small.rate_cap);
  }
  SECTION("without figures of the name the links alone decide, after the start-up of any collective") {
    const CommunicationCost links = cost(exchange_of(1, {.name = "other"}), cluster);
    CHECK(links.startup.value() == 7e-6);
    CHECK_FALSE(links.rate_cap);
    CHECK(links.add_route_latency);
  }
}

TEST_CASE("Between nodes a rank sends rows that cross and rows that it relays") {
  const Cluster cluster = cluster_of(2);
  // 16 experts on 4 ranks of 2 nodes: a rank is missed by C(12,2) / C(16,2) = 66/120 of the tokens, a node by 28/120.
  // From its 2 sources' rows for its neighbour a rank relays 2 x 54/120; 92/120 of its own cross.
  const double linked = 2 * std::round(kTokens * 54.0 / 120), crossing = std::round(kTokens * 92.0 / 120);
  const CommunicationCost c = cost(exchange_of(2, {.name = "k"}), cluster);
  CHECK(c.startup.value() == Approx(20e-6));
  CHECK((linked + crossing) * 100 / c.rate_cap->value() == Approx(2 * linked * 100 / 1e10 / 2));
}

TEST_CASE("Figures of groups inside one node that price several nodes are named, and the other way round") {
  const auto unmeasured = [](int nodes, const RowKernels& kernels, const Cluster& cluster) {
    return unmeasured_kernels(exchange_of(nodes, kernels), cluster);
  };
  using Named = std::vector<UnmeasuredKernels>;
  CHECK(unmeasured(1, {.name = "k"}, cluster_of(1)).empty());
  CHECK(unmeasured(3, {.name = "k"}, cluster_of(3)) == Named{{"k", 3, true}});
  CHECK(unmeasured(3, {.name = "other"}, cluster_of(3)) == Named{{"other", 3, false}});
  CHECK(unmeasured(1, {.name = "other"}, cluster_of(1)) == Named{{"other", 1, false}});
  SECTION("figures of several nodes price several, but not one") {
    for (const int nodes : {1, 2}) {
      Cluster cluster = cluster_of(nodes);
      CollectiveModels models = *cluster.collective_models;
      models.dispatchers.front().dispatch.nic = BytesPerSecond(1e9);
      cluster.collective_models = std::make_shared<const CollectiveModels>(models);
      CHECK(unmeasured(nodes, {.name = "k"}, cluster) == (nodes == 1 ? Named{{"k", 1, true}} : Named{}));
    }
  }
  SECTION("a Program whose rows NCCL moves has none") {
    Program nccl = exchange_of(3, {.name = "k"});
    std::get<Communication>(nccl.blocks.front().operations.front().work).kernels.reset();
    CHECK(unmeasured_kernels(nccl, cluster_of(3)).empty());
  }
}

TEST_CASE("Kernels that hold SMs leave the others to computation") {
  Cluster cluster = cluster_of(1);
  cluster.gpu.num_sms = 10;
  cluster.gpu.slowdown_beside_communication = 1.5;
  const auto slowdown = [&](const RowKernels& kernels) {
    return slowdown_beside(exchange_of(1, kernels).operation(BlockId(0), 0), cluster);
  };
  CHECK(slowdown({.name = "k"}) == Approx(10.0 / 8));
  CHECK(slowdown({.name = "k", .sms = 5}) == Approx(2));
  CHECK(slowdown({.name = "other"}) == 1.5);  // how many is not known: as NCCL's
  Program nccl = exchange_of(1, {.name = "k"});
  std::get<Communication>(nccl.blocks.front().operations.front().work).kernels.reset();
  CHECK(slowdown_beside(nccl.operation(BlockId(0), 0), cluster) == 1.5);
}

}  // namespace moeplan::tests::row_kernels_test
