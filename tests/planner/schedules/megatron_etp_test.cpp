#include <catch2/catch.hpp>
#include <string>

#include "planner/lowering/feasibility.hpp"
#include "tests/support/layer_cases.hpp"

namespace moeplan::tests::megatron_etp_test {

namespace {

constexpr int kEp = 4, kShards = 2;

Program lowered(const std::string& schedule) { return layer_program(layer_candidate(schedule, 1, kEp, kShards)); }

/// Bytes of the rows that a rank's own tokens become: top 2 of the experts, capacity factor 2.
constexpr double kRows = 2 * 2.0 * kLayerTokens * kLayerM * 4;

}  // namespace

TEST_CASE("With megatron_etp a row crosses the network once, and shards gather it") {
  const Program p = lowered("megatron_etp"), s1 = lowered("parm_s1"), baseline = lowered("baseline");
  for (const std::size_t block : {std::size_t{0}, std::size_t{1}}) {  // forward and backward
    CAPTURE(block);
    for (const OpClass exchange : {OpClass::Dispatch, OpClass::Combine}) {
      // What a rank keeps counts too. To one shard of each expert; by S1 to both; by the baseline of both shards'
      // tokens.
      CHECK(sent(p, block, exchange) == kRows);
      CHECK(sent(s1, block, exchange) == kShards * kRows);
      CHECK(sent(baseline, block, exchange) == kShards * kRows);
    }
    // As many rows arrive as are sent: they are gathered over both shards, and reduce-scattered over both.
    CHECK(sent(p, block, OpClass::ExpertSharding) == 2 * kShards * kRows);
    CHECK(expert_flops(p, block) == expert_flops(s1, block));
  }
}

TEST_CASE("With megatron_etp shards weigh rows by choices that they gather, too") {
  Workload w = layer_workload();
  w.gate_weights = GateWeights::InExperts;
  const Candidate c = layer_candidate("megatron_etp", 1, kEp, kShards);
  CHECK_FALSE(infeasibility(layer_model(), w, c, kLayerPerNode));
  CHECK(infeasibility(layer_model(), w, layer_candidate("parm_s1", 1, kEp, kShards), kLayerPerNode)->text ==
        "parm_s1 weighs rows at their sources where experts have shards");
  const Program p = layer_program(c, w), at_sources = layer_program(c);
  constexpr double kChoice = kRows / kLayerM / 4 * 2 * 4;  // top 2: as many weights and experts a row, in fp32
  CHECK(sent(p, 0, OpClass::ExpertSharding) == sent(at_sources, 0, OpClass::ExpertSharding) + kShards * 2 * kChoice);
  CHECK(sent(p, 1, OpClass::ExpertSharding) == sent(at_sources, 1, OpClass::ExpertSharding) + kShards * kChoice);
}

TEST_CASE("megatron_etp has expert shards, one chunk, no codec and no deduplication") {
  const Workload w = layer_workload();
  const auto fits = [&](const Candidate& c) { return !infeasibility(layer_model(), w, c, kLayerPerNode); };
  Candidate c = layer_candidate("megatron_etp", 1, kEp, kShards);
  CHECK(fits(c));
  CHECK(fits(layer_candidate("megatron_etp", 2, kEp, kShards)));
  CHECK_FALSE(fits(layer_candidate("megatron_etp", 1, 8, 1)));
  CHECK_FALSE(fits(layer_candidate("megatron_etp", 1, kEp, kShards, 2)));
  c.codec = *parse_codec_pair("fp16");
  CHECK_FALSE(fits(c));
  c = layer_candidate("megatron_etp", 1, kEp, kShards);
  c.all_to_all = "node_dedup";
  CHECK_FALSE(fits(c));
}

}  // namespace moeplan::tests::megatron_etp_test
