#include "model/program/same_work.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "model/costs/block_price.hpp"
#include "model/costs/communication.hpp"
#include "model/costs/compute.hpp"
#include "model/costs/operation_price.hpp"
#include "planner/lowering/feasibility.hpp"
#include "tests/support/layer_cases.hpp"

namespace moeplan::tests::same_work_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

bool same_flows(const std::vector<Flow>& a, const std::vector<Flow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Flow& s, const Flow& t) {
    return s.from == t.from && s.to == t.to && s.bytes == t.bytes;
  });
}

/// Pairs of operations of a Program that same_work() calls equal, each looked at on every rank.
std::int64_t check_equal_pairs(const Program& p, const Cluster& cluster) {
  std::int64_t pairs = 0;
  for (const Block& block : p.blocks) {
    for (std::size_t i = 0; i < block.operations.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        const Operation &a = block.operations[i], &b = block.operations[j];
        if (!same_work(p, a, b)) continue;
        ++pairs;
        for (std::int32_t r = 0; r < kLayerWorld; ++r) {
          CAPTURE(a.name, b.name, r);
          if (a.communication() != nullptr) {
            REQUIRE(same_flows(flows_from(p, a, RankId(r)), flows_from(p, b, RankId(r))));
            REQUIRE(communication_cost(p, a, RankId(r), cluster).startup ==
                    communication_cost(p, b, RankId(r), cluster).startup);
          } else if (a.computes()) {
            REQUIRE(compute_time(p, a, RankId(r), cluster.gpu) == compute_time(p, b, RankId(r), cluster.gpu));
          }
        }
      }
    }
  }
  return pairs;
}

/// Layers under many strategies, each with `check(program)`.
template <class Check>
void for_layers(const Workload& workload, const Check& check) {
  for (const std::string schedule : {"pipelined", "opt_sche", "smart", "parm_s1", "s1_tapered", "s2_deferred"}) {
    for (const std::string all_to_all : {"linear", "pairwise", "2dh", "node_dedup"}) {
      for (const std::int64_t chunks : {2, 3, 8}) {
        Candidate c = layer_candidate(schedule, schedule == "s2_deferred" ? 2 : 1, 4, 2, chunks);
        c.all_to_all = all_to_all;
        c.codec = *parse_codec_pair("zfp/none");
        if (layer_infeasibility(kLayerM, workload, c, kLayerPerNode)) continue;
        CAPTURE(schedule, all_to_all, chunks);
        check(layer_program(c, workload));
      }
    }
  }
}

}  // namespace

TEST_CASE("Operations of the same work cost the same on every rank") {
  const Cluster cluster = tests::toy_cluster(2, 4);
  Workload workload = layer_workload();
  workload.routing = GENERATE(RoutingScenario{}, RoutingScenario{.shape = RoutingShape::Zipf, .sampled = true});
  workload.capacity_factor = GENERATE(1.0, 1.3);  // expert rows that chunks divide, and that they do not
  std::int64_t pairs = 0;
  for_layers(workload, [&](const Program& p) { pairs += check_equal_pairs(p, cluster); });
  CHECK(pairs > 100);
}

TEST_CASE("Communications of equal hashes are the same in whatever Program") {
  const Cluster cluster = tests::toy_cluster(2, 4);
  struct Known {
    std::vector<std::vector<Flow>> flows;  // by rank
    Seconds startup;
  };
  std::map<CommunicationHash, Known> known;
  int hashed = 0, equal = 0;
  for (const double hot : {0.125, 0.25}) {
    Workload workload = layer_workload();
    workload.routing = {.shape = RoutingShape::HotExpert, .hot_fraction = hot};
    workload.capacity_factor.reset();
    for_layers(workload, [&](const Program& p) {
      CommunicationHashes hashes(p);
      for (const Operation& op : p.blocks.front().operations) {
        const auto hash = op.communication() ? hashes.of(op) : std::nullopt;
        if (!hash) continue;
        ++hashed;
        Known own{{}, communication_cost(p, op, RankId(0), cluster).startup};
        for (std::int32_t r = 0; r < kLayerWorld; ++r) own.flows.push_back(flows_from(p, op, RankId(r)));
        const auto [it, is_new] = known.try_emplace(*hash, own);
        if (is_new) continue;
        ++equal;
        CAPTURE(op.name);
        REQUIRE(it->second.startup == own.startup);
        REQUIRE(std::ranges::equal(it->second.flows, own.flows, same_flows));
      }
    });
  }
  CHECK(equal > hashed / 10);
  Workload drawn = layer_workload();
  drawn.routing = {.shape = RoutingShape::Zipf, .sampled = true};
  drawn.capacity_factor.reset();
  const Program p = layer_program(layer_candidate("pipelined", 1, 8, 1, 2), drawn);
  CommunicationHashes hashes(p);
  for (const Operation& op : p.blocks.front().operations) {
    if (op.op_class == OpClass::Dispatch) CHECK_FALSE(hashes.of(op));
  }
}

TEST_CASE("Blocks whose communications other Programs have priced cost the same") {
  const Cluster cluster = tests::toy_cluster(2, 4);
  const auto shape = GENERATE(RoutingShape::Uniform, RoutingShape::HotExpert);
  Workload workload = layer_workload();
  workload.routing = {.shape = shape};
  workload.capacity_factor.reset();
  CommunicationPrices shared;
  for_layers(workload, [&](const Program& p) {
    for (const PricedRanks ranks : {PricedRanks::All, PricedRanks::First}) {
      const BlockPrice alone = BlockPricer(p, cluster, ranks).price(BlockId(0));
      const BlockPrice with_others = BlockPricer(p, cluster, ranks, &shared).price(BlockId(0));
      CHECK(with_others.alone == alone.alone);
      CHECK(with_others.busy == alone.busy);
      CHECK(with_others.link_seconds == alone.link_seconds);
    }
  });
}

TEST_CASE("What differs in work is not the same") {
  const Program p = layer_program(layer_candidate("pipelined", 1, 8, 1, 2));
  const Operation* dispatch = nullptr;
  for (const Operation& op : p.blocks[0].operations) {
    if (op.op_class == OpClass::Dispatch) dispatch = &op;
  }
  REQUIRE(dispatch != nullptr);
  CHECK(same_work(p, *dispatch, *dispatch));
  Operation other = *dispatch;
  other.name = "by another name";
  other.stream = Stream::Copy;
  CHECK(same_work(p, *dispatch, other));
  SECTION("a chunk of another width") {
    for (Slice* s : {&other.reads.front(), &other.writes.front()}) {
      s->rows.path.back().index = 0;
      s->rows.path.back().width = 2;
    }
    CHECK_FALSE(same_work(p, *dispatch, other));
  }
  SECTION("other experts") {
    other.reads.front().rows.experts = Rows::Experts::Local;
    CHECK_FALSE(same_work(p, *dispatch, other));
  }
  SECTION("another group") {
    std::get<Communication>(other.work).group = GroupId(0);
    CHECK_FALSE(same_work(p, *dispatch, other));
  }
}

}  // namespace moeplan::tests::same_work_test
