#include "planner/eplb/expert_map.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <set>

#include "model/text/document.hpp"
#include "planner/eplb/balance_payoff.hpp"
#include "planner/placement/strategies/eplb.hpp"
#include "planner/plan/inputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::expert_map_test {

using namespace planner;
using Json = nlohmann::json;

namespace {

/// Three layers of sixteen experts; the first one has no experts, the others one hot expert each.
ExpertLoads loads() {
  ExpertLoads out{{}, "made"};
  out.layers.emplace_back(16, 0);
  for (const std::size_t hot : {std::size_t{2}, std::size_t{9}}) {
    std::vector<std::int64_t> row(16, 100);
    row[hot] = 1500;
    out.layers.push_back(row);
  }
  return out;
}

ExpertMap map() { return balanced_map(loads(), {.gpus = 8, .nodes = 2, .redundant = 8, .groups = 1}); }

}  // namespace

TEST_CASE("A map has every expert, equally many on each GPU, and is what EPLB makes") {
  const ExpertMap m = map();
  CHECK(map_error(m).empty());
  CHECK(m.slots_per_gpu() == 3);
  for (const std::size_t l : {std::size_t{1}, std::size_t{2}})
    CHECK(m.physical_to_logical[l] == eplb_rebalance(loads().layers[l], 24, 1, 2, 8).phy2log);
  CHECK(std::count(m.physical_to_logical[1].begin(), m.physical_to_logical[1].end(), 2) > 4);  // 1500 of 3000
  CHECK(balancedness(m, 1, loads().layers[1]) >
        2 * balancedness(contiguous_map(loads(), m.shape), 1, loads().layers[1]));
  SECTION("a layer without experts has them in order, as SGLang's trivial location") {
    for (std::size_t p = 0; p < 24; ++p) CHECK(m.physical_to_logical[0][p] == static_cast<std::int64_t>(p) % 16);
  }
}

TEST_CASE("A map that an engine would refuse has an error") {
  ExpertMap m = map();
  const std::int64_t only = m.physical_to_logical[1][0];
  std::replace(m.physical_to_logical[1].begin(), m.physical_to_logical[1].end(), only, (only + 1) % 16);
  CHECK(map_error(m) == "layer 1 lacks expert " + std::to_string(only));
  m.physical_to_logical[1][0] = 16;
  CHECK(map_error(m) == "layer 1 has an expert 16");
  m = map();
  m.physical_to_logical[2].pop_back();
  CHECK(map_error(m) == "layer 2 has 23 physical experts");
}

TEST_CASE("Redundant experts are counted in all, and must divide") {
  const auto error = [](ExpertMapShape shape) { return error_of([&] { (void)balanced_map(loads(), shape); }); };
  CHECK(error({.gpus = 8, .nodes = 1, .redundant = 3}) ==
        "--redundant: 16 experts and 3 redundant ones do not divide among 8 GPUs; 0 or 8 do");
  CHECK(error({.gpus = 8, .nodes = 3, .redundant = 8, .groups = 5}) ==
        "--nodes: 3 does not divide the 8 GPUs\n--groups: 5 does not divide the 16 experts");
}

TEST_CASE("SGLang loads the map: the rules of ExpertLocationMetadata") {
  const ExpertMap m = map();
  const Json file = Json::parse(expert_map_text(m, ExpertMapFormat::Sglang));
  REQUIRE(file.size() == 1);  // each key is an argument of init_by_mapping
  const Json& rows = file.at("physical_to_logical_map");
  CHECK(rows.size() == 3);  // [layers of the model, physical experts]
  for (const Json& row : rows) {
    CHECK(row.size() == 16 + 8);
    CHECK(row.size() % 8 == 0);
    std::set<std::int64_t> experts;
    for (const Json& e : row) experts.insert(e.get<std::int64_t>());
    CHECK(experts.size() == 16);  // every logical expert has a physical one
    CHECK(*experts.begin() == 0);
    CHECK(*experts.rbegin() == 15);
  }
  CHECK(how_to_load(m, ExpertMapFormat::Sglang, "map.json").find("--ep-num-redundant-experts 8") != std::string::npos);
}

TEST_CASE("EPLB's tables, TensorRT-LLM's and vLLM Ascend's files say the same map") {
  const ExpertMap m = map();
  SECTION("eplb: tables are inverse to each other") {
    const Json file = Json::parse(expert_map_text(m, ExpertMapFormat::Eplb));
    for (std::size_t l = 0; l < 3; ++l) {
      CHECK(file["phy2log"][l] == Json(m.physical_to_logical[l]));
      for (std::size_t e = 0; e < 16; ++e) {
        const auto count = file["logcnt"][l][e].get<std::size_t>();
        for (std::size_t i = 0; i < file["log2phy"][l][e].size(); ++i) {
          const auto p = file["log2phy"][l][e][i].get<std::int64_t>();
          CHECK((p == -1) == (i >= count));
          if (p >= 0) CHECK(file["phy2log"][l][static_cast<std::size_t>(p)] == e);
        }
      }
    }
  }
  SECTION("trtllm: MoE layers by their number, num_slots of each") {
    const Node file = parse_yaml(expert_map_text(m, ExpertMapFormat::TrtLlm), "map.yaml");
    CHECK(file.find("num_slots")->scalar == "24");
    const Node& layers = *file.find("initial_global_assignments");
    REQUIRE(layers.entries.size() == 2);
    CHECK(layers.entries[0].key == "1");
    CHECK(layers.entries[1].value.items.size() == 24);
  }
  SECTION("vllm-ascend: experts by device") {
    const Json file = Json::parse(expert_map_text(m, ExpertMapFormat::VllmAscend));
    CHECK(file["moe_layer_count"] == 2);
    REQUIRE(file["layer_list"][1]["device_list"].size() == 8);
    CHECK(file["layer_list"][1]["device_list"][7]["device_expert"][2] == m.physical_to_logical[2][23]);
  }
  SECTION("vllm: redundant experts, and the tensors of its state") {
    const Json file = Json::parse(expert_map_text(m, ExpertMapFormat::Vllm));
    CHECK(file["eplb_config"]["num_redundant_experts"] == 8);
    CHECK(file["physical_to_logical_map"].size() == 3);
  }
}

TEST_CASE("A map gains where loads are uneven, and costs memory and migration") {
  Inputs inputs = read_inputs(
      load_inputs("dgx_h100", "moonlight_16b_a3b", "default", {"workload.mode=forward", "workload.global_batch=16"}));
  const Cluster cluster = build_cluster_of("dgx_h100", inputs.cluster, 16);
  ExpertLoads made{{}, "made"};
  for (std::int64_t l = 0; l < inputs.model.num_moe_layers(); ++l) {
    std::vector<std::int64_t> row(64, 10);
    row[static_cast<std::size_t>(l)] = 400;
    made.layers.push_back(row);
  }
  const ExpertLoads by_layer = by_layer_of(made, inputs.model, "loads.json");
  CHECK(std::ssize(by_layer.layers) == inputs.model.num_layers());
  CHECK_FALSE(by_layer.has_experts(0));  // the dense layer
  const ExpertMapShape shape{.gpus = 16, .nodes = 2, .redundant = 16};
  const BalancePayoff payoff =
      balance_payoff(balanced_map(by_layer, shape), by_layer, inputs.model, inputs.workload, cluster, 4096);
  CHECK(payoff.gain() > Seconds(0));
  CHECK(payoff.migration > Seconds(0));
  REQUIRE(payoff.break_even());
  CHECK(*payoff.break_even() == Approx(payoff.migration / payoff.gain()));
  // One more expert a GPU and MoE layer: three matrices of 2048 x 1408 in bf16.
  CHECK(payoff.redundant_memory.value() == Approx(26.0 * 3 * 2048 * 1408 * 2));
  // Latents of 512 + 64 values in bf16, in each of 27 layers.
  CHECK(payoff.kv_cache_per_token.value() == Approx(27.0 * 576 * 2));
  SECTION("states of recurrences do not grow with the sequence; indexers keep keys of their own") {
    ModelSpec hybrid = inputs.model;
    auto& latent = std::get<LatentAttention>(hybrid.attention);
    latent.q_lora_rank = 64;
    latent.indexer = Indexer{.num_heads = 8, .head_dim = 128, .top_k = 64};
    hybrid.layers.front().pattern.front().mixer =
        GatedDeltaNet{.num_key_heads = 2, .num_value_heads = 4, .key_head_dim = 64, .value_head_dim = 64};
    const BalancePayoff other =
        balance_payoff(balanced_map(by_layer, shape), by_layer, hybrid, inputs.workload, cluster, 4096);
    const auto rest = static_cast<double>(27 - hybrid.layers.front().repeat);
    CHECK(other.kv_cache_per_token.value() == Approx(rest * (576 + 128) * 2));
  }
  SECTION("layers and experts must be the model's") {
    made.layers.pop_back();
    CHECK_THAT(error_of([&] { (void)by_layer_of(made, inputs.model, "loads.json"); }),
               Catch::Contains("loads.json: has 25 layers, moonlight_16b_a3b has 27, 26 of them with experts"));
  }
}

}  // namespace moeplan::tests::expert_map_test
