#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "model/costs/model_flops.hpp"
#include "model/costs/scan_kernels.hpp"
#include "model/transformer/hf_config.hpp"

namespace moeplan::tests::hf_hybrid_families_test {

namespace fs = std::filesystem;

namespace {

const fs::path kConfigs = fs::path(MOEPLAN_SOURCE_DIR) / "../shared/data/hf_configs";

ModelSpec model_of(const std::string& json) { return model_from_hf_config(parse_json(json, "config.json"), "m"); }

std::string error_of(const std::string& json) {
  try {
    static_cast<void>(model_of(json));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

std::string with(std::string json, const std::string& from, const std::string& to) {
  const auto at = json.find(from);
  REQUIRE(at != std::string::npos);
  return json.replace(at, from.size(), to);
}

const std::string kNemotron = R"({"model_type": "nemotron_h", "vocab_size": 100, "hidden_size": 64,
  "hybrid_override_pattern": "ME*EM-", "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "mamba_num_heads": 8, "mamba_head_dim": 16, "ssm_state_size": 32, "n_groups": 2, "conv_kernel": 4,
  "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 24,
  "moe_shared_expert_intermediate_size": 48, "intermediate_size": 40, "moe_latent_size": 16,
  "time_step_limit": [0.0, Infinity]})";

const std::string kQwen = R"({"model_type": "qwen3_next", "vocab_size": 100, "hidden_size": 64,
  "num_hidden_layers": 8, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
  "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16,
  "linear_conv_kernel_dim": 4, "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 24,
  "shared_expert_intermediate_size": 32})";

const std::string kGlm = R"({"model_type": "glm_moe_dsa", "vocab_size": 100, "hidden_size": 64,
  "num_hidden_layers": 5, "first_k_dense_replace": 1, "num_attention_heads": 4, "q_lora_rank": 24,
  "kv_lora_rank": 16, "qk_nope_head_dim": 12, "qk_rope_head_dim": 4, "v_head_dim": 8, "index_n_heads": 2,
  "index_head_dim": 8, "index_topk": 32, "indexer_types": ["full", "full", "shared", "full", "shared"],
  "intermediate_size": 96, "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1,
  "moe_intermediate_size": 24, "num_nextn_predict_layers": 1})";

const std::string kDeepseekV4 = R"({"model_type": "deepseek_v4", "vocab_size": 100, "hidden_size": 64,
  "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 16, "qk_rope_head_dim": 4,
  "q_lora_rank": 24, "o_groups": 2, "o_lora_rank": 8, "index_n_heads": 2, "index_head_dim": 8, "index_topk": 6,
  "sliding_window": 8, "num_hash_layers": 1, "hc_mult": 4, "compress_ratios": [0, 4, 128, 4, 0],
  "n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1, "moe_intermediate_size": 24,
  "swiglu_limit": 10.0, "num_nextn_predict_layers": 1, "tie_word_embeddings": false})";

std::int64_t mixer_of_layer(const ModelSpec& m, std::size_t run, std::size_t layer) {
  return mixer_parameters(m, mixer_of(m, m.layers[run].pattern[layer]));
}

struct Published {
  const char* file;
  double total, active;  // billions, as the model's name or card says them
  std::int64_t layers;
  std::int64_t moe_layers;
};

}  // namespace

TEST_CASE("Public configurations of hybrid and sparse models have the published numbers of parameters") {
  if (!fs::exists(kConfigs)) {
    WARN("skipped: " << kConfigs << " is not there");
    return;
  }
  // Model cards: GLM-5 744B-A40B; Qwen3.6-35B-A3B; DeepSeek-V4-Flash 284B-A13B; Nemotron 3 Nano 31.6B-A3.6B with
  // embeddings, Super 120.6B-A12.7B, Ultra 550B-A55B.
  const std::vector<Published> all{{"zai-org--GLM-5.2", 744, 40, 78, 75},
                                   {"nvidia--Qwen3.6-35B-A3B-NVFP4", 35, 3, 40, 40},
                                   {"deepseek-ai--DeepSeek-V4-Flash", 284, 13, 43, 43},
                                   {"nvidia--NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", 31.6, 3.6, 52, 23},
                                   {"nvidia--NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4", 31.6, 3.6, 52, 23},
                                   {"nvidia--NVIDIA-Nemotron-3-Super-120B-A12B-FP8", 120.6, 12.7, 88, 40},
                                   {"nvidia--NVIDIA-Nemotron-3-Ultra-550B-A55B-BF16", 550, 55, 108, 48}};
  for (const Published& p : all) {
    const ModelSpec m = model_from_hf_config(load_document(kConfigs / fmt::format("{}_config.json", p.file)), p.file);
    const ParameterCounts n = count_parameters(m);
    INFO(p.file << " total " << n.total << " active " << n.active);
    CHECK(static_cast<double>(n.total) * 1e-9 == Approx(p.total).epsilon(0.01));
    CHECK(static_cast<double>(n.active) * 1e-9 ==
          Approx(p.active).epsilon(0.2));  // cards round, some to whole billions
    CHECK(m.num_layers() == p.layers);
    CHECK(m.num_moe_layers() == p.moe_layers);
    CHECK(read_model(model_document(m)) == m);
  }
}

TEST_CASE("Every public configuration of the collection loads") {
  if (!fs::exists(kConfigs)) {
    WARN("skipped: " << kConfigs << " is not there");
    return;
  }
  int loaded = 0;
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    const std::string file = entry.path().filename();
    if (!file.ends_with("_config.json")) continue;  // others are lists of facts
    INFO(file);
    CHECK_NOTHROW(model_from_hf_config(load_document(entry.path()), "m"));
    ++loaded;
  }
  CHECK(loaded > 0);
}

TEST_CASE("Nemotron-H's layers are one part each, its experts may work on a latent of the tokens") {
  const ModelSpec m = model_of(kNemotron);
  CHECK(m.num_layers() == 6);
  CHECK(m.num_moe_layers() == 2);
  CHECK(row_columns(m) == 16);
  const std::int64_t inner = 8 * 16, conv = inner + 2 * 2 * 32;
  const std::int64_t mamba =
      64 * (inner + conv + 8) + conv * 4 + conv + 3 * 8 + inner + inner * 64;  // in, conv, its bias, A D dt, norm, out
  const std::int64_t attention = 64 * (4 + 2 * 2) * 16 + 4 * 16 * 64;
  const std::int64_t moe = 8 * 64 + 8 + 2 * 64 * 16 + 8 * 2 * 16 * 24 + 2 * 64 * 48;  // router, latent, experts, shared
  const std::int64_t dense = 2 * 64 * 40;
  CHECK(count_parameters(m).total == 2 * mamba + attention + 2 * moe + dense + 6 * 64 + 64 + 2 * 100 * 64);
  CHECK(count_parameters(m).active == count_parameters(m).total - 2 * (8 - 2) * 2 * 16 * 24);
  CHECK(read_model(model_document(m)) == m);
  SECTION("biases of its projections") {
    const ModelSpec biased = model_of(with(kNemotron, R"("conv_kernel": 4)", R"("conv_kernel": 4, "use_bias": true)"));
    CHECK(count_parameters(biased).total == count_parameters(m).total + 2 * (inner + conv + 8 + 64));
  }
  SECTION("a list of words says the same as a pattern") {
    const ModelSpec listed =
        model_of(with(kNemotron, R"("hybrid_override_pattern": "ME*EM-")",
                      R"("layers_block_type": ["mamba", "moe", "attention", "moe", "mamba", "mlp"])"));
    CHECK(listed == m);
  }
  SECTION("other letters are refused at their key") {
    CHECK(
        error_of(with(kNemotron, "ME*EM-", "MEX")).find("hybrid_override_pattern: has the letter \"X\"; expected M") !=
        std::string::npos);
    CHECK(
        error_of(with(kNemotron, R"("hybrid_override_pattern": "ME*EM-")", R"("layers_block_type": ["mamba", "rnn"])"))
            .find("layers_block_type[1]: \"rnn\" is not modelled; expected mamba") != std::string::npos);
  }
}

TEST_CASE("Qwen3-Next has Gated DeltaNet in three of four layers and gated attention in the fourth") {
  const ModelSpec m = model_of(kQwen);
  REQUIRE(m.layers.size() == 1);
  REQUIRE(m.layers[0].pattern.size() == 4);
  const std::int64_t keys = 2 * 8, values = 4 * 16, conv = 2 * keys + values;
  const std::int64_t delta = 64 * (conv + values) + 64 * 2 * 4 + conv * 4 + 2 * 4 + 16 + values * 64;
  const std::int64_t attention = 64 * (2 * 4 + 2 * 2) * 16 + 4 * 16 * 64 + 2 * 16;  // queries and their gate
  CHECK(mixer_of_layer(m, 0, 0) == delta);
  CHECK(mixer_of_layer(m, 0, 3) == attention);
  const std::int64_t moe = 8 * 64 + 64 + 8 * 3 * 64 * 24 + 3 * 64 * 32;
  CHECK(count_parameters(m).total == 6 * delta + 2 * attention + 8 * (moe + 2 * 64) + 64 + 2 * 100 * 64);
  CHECK(read_model(model_document(m)) == m);
}

TEST_CASE("GLM-5's layers share the selection of keys of the layer before") {
  const ModelSpec m = model_of(kGlm);
  const std::int64_t latent = 64 * 24 + 24 + 24 * 4 * 16 + 64 * (16 + 4) + 16 + 16 * 4 * (12 + 8) + 4 * 8 * 64;
  const std::int64_t indexer = 24 * 2 * 8 + 64 * 8 + 2 * 8 + 64 * 2;
  const std::int64_t dense = 3 * 64 * 96, moe = 8 * 64 + 8 + 9 * 3 * 64 * 24;
  CHECK(count_parameters(m).total == 5 * (latent + 2 * 64) + 3 * indexer + dense + 4 * moe + 64 + 2 * 100 * 64);
  CHECK(count_parameters(m).mtp == latent + indexer + 2 * 64 + moe + 2 * 64 * 64 + 3 * 64);
  CHECK(error_of(with(kGlm, R"(["full", "full",)", R"(["shared", "full",)"))
            .find("indexer_types: the first layer has no preceding layer") != std::string::npos);
  CHECK(error_of(with(kGlm, R"("shared", "full", "shared")", R"("shared", "fll", "shared")"))
            .find("indexer_types[3]: \"fll\" is not modelled; expected full, shared; did you mean \"full\"?") !=
        std::string::npos);
}

TEST_CASE("DeepSeek-V4's attention is counted tensor by tensor") {
  const ModelSpec m = model_of(kDeepseekV4);
  CHECK(m.residual_streams == 4);
  const std::int64_t plain = 64 * 24 + 24 + 24 * 4 * 16 + 64 * 16 + 16 + 4 + 4 * 16 * 8 + 2 * 8 * 64;
  const std::int64_t heavy = plain + 2 * 64 * 16 + 128 * 16 + 16;
  const std::int64_t sparse = plain + 2 * 64 * 32 + 4 * 32 + 16 + (2 * 64 * 16 + 4 * 16 + 8 + 24 * 2 * 8 + 64 * 2);
  const std::int64_t moe = 8 * 64 + 9 * 3 * 64 * 24;
  const std::int64_t streams = 2 * (24 * 4 * 64 + 24 + 3), last = 4 * 4 * 64 + 4 + 1;
  const std::int64_t total = plain + heavy + 2 * sparse + 4 * (moe + streams + 2 * 64) + 3 * 8;  // no bias where hashed
  CHECK(count_parameters(m).total == total + last + 64 + 2 * 100 * 64);
  CHECK(count_parameters(m).mtp == plain + moe + 8 + streams + 2 * 64 + 2 * 64 * 64 + 3 * 64);
  CHECK(read_model(model_document(m)) == m);
  CHECK(error_of(with(kDeepseekV4, "[0, 4, 128, 4, 0]", "[0, 4, 64, 4, 0]"))
            .find("compress_ratios[2]: expected 0, 4 or 128, got \"64\"") != std::string::npos);
}

TEST_CASE("Layers with a window may have heads of their own") {
  SECTION("MiMo-V2-Flash, 309B-A15B") {
    std::string pattern, experts;
    for (int i = 0; i < 48; ++i) {
      pattern += fmt::format("{}{}", i > 0 ? ", " : "", i == 0 || i % 6 == 5 ? 0 : 1);
      experts += fmt::format("{}{}", i > 0 ? ", " : "", i > 0 ? 1 : 0);
    }
    const ModelSpec m = model_of(fmt::format(
        R"({{"model_type": "mimo_v2_flash", "vocab_size": 152576, "hidden_size": 4096, "num_hidden_layers": 48,
        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 192, "v_head_dim": 128,
        "swa_num_attention_heads": 64, "swa_num_key_value_heads": 8, "swa_head_dim": 192, "swa_v_head_dim": 128,
        "sliding_window": 128, "add_swa_attention_sink_bias": true, "hybrid_layer_pattern": [{}],
        "moe_layer_freq": [{}], "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": null,
        "moe_intermediate_size": 2048, "intermediate_size": 16384}})",
        pattern, experts));
    const auto attention = [](std::int64_t kv) {
      return std::int64_t{4096} * (64 * 192 + kv * (192 + 128)) + std::int64_t{64 * 128} * 4096;
    };
    const std::int64_t moe = 256 * 4096 + 256 + std::int64_t{256 * 3} * 4096 * 2048;
    const std::int64_t total = 9 * attention(4) + 39 * (attention(8) + 64) + std::int64_t{3} * 4096 * 16384 + 47 * moe +
                               (48 * 2 + 1) * 4096 + std::int64_t{2} * 152576 * 4096;
    CHECK(count_parameters(m).total == total);
    CHECK(static_cast<double>(total) == Approx(309e9).epsilon(0.01));
    CHECK(static_cast<double>(count_parameters(m).active) == Approx(15e9).epsilon(0.05));
    CHECK(read_model(model_document(m)) == m);
  }
  SECTION("Step-3.5-Flash, 196B-A11B") {
    std::string types, experts;
    for (int i = 0; i < 45; ++i) {
      types += fmt::format("{}\"{}\"", i > 0 ? ", " : "", i % 4 == 0 ? "full_attention" : "sliding_attention");
      if (i >= 3) experts += fmt::format("{}{}", i > 3 ? "," : "", i);
    }
    const std::string json = fmt::format(
        R"({{"model_type": "step3p5", "vocab_size": 128896, "hidden_size": 4096, "num_hidden_layers": 45,
        "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "intermediate_size": 11264,
        "attention_other_setting": {{"num_attention_heads": 96, "num_attention_groups": 8}}, "sliding_window": 512,
        "layer_types": [{}], "moe_layers_enum": "{}", "moe_num_experts": 288, "moe_top_k": 8,
        "moe_intermediate_size": 1280, "share_expert_dim": 1280}})",
        types, experts);
    const ModelSpec m = model_of(json);
    const auto attention = [](std::int64_t heads) {
      return std::int64_t{4096} * ((heads + 2 * 8) * 128 + heads) + heads * 128 * 4096 + 2 * 128;
    };
    const std::int64_t moe = 288 * 4096 + 288 + std::int64_t{289 * 3} * 4096 * 1280;
    const std::int64_t total = 12 * attention(64) + 33 * attention(96) + 3 * std::int64_t{3} * 4096 * 11264 + 42 * moe +
                               (45 * 2 + 1) * 4096 + std::int64_t{2} * 128896 * 4096;
    CHECK(count_parameters(m).total == total);
    CHECK(static_cast<double>(total) == Approx(196e9).epsilon(0.01));
    CHECK(static_cast<double>(count_parameters(m).active) == Approx(11e9).epsilon(0.1));
    CHECK(error_of(with(json, "\"3,4,", "\"3,x,")).find("moe_layers_enum: expected indices of layers") !=
          std::string::npos);
  }
}

TEST_CASE("FLOPs of hybrid models follow from their keys and chunks") {
  SECTION("sparse attention sees the selected keys, the indexer scores all") {
    ModelSpec m = model_of(kGlm);
    m.layers = {{1, {m.layers[0].pattern[0]}}};
    const double weights = static_cast<double>(count_parameters(m).active_without_embeddings) + 100 * 64;
    // Of 128 tokens the i-th selects min(i, 32): 32 - 32 * 32 / (2 * 128) = 28 on average.
    const double attention = 28.0 * 4 * (2 * 16 + 4), scores = 64.0 * 2 * 8;
    CHECK(forward_flops_per_token(m, 128) == Approx(2 * (weights + attention + scores)));
    CHECK(selected_keys(128, 32, true) == 28);
    CHECK(selected_keys(128, 32, false) == 32);
    CHECK(selected_keys(16, 32, true) == 8);
  }
  SECTION("a recurrence's products do not depend on the sequence") {
    const Mamba2 mamba{.num_heads = 8, .head_dim = 16, .state_size = 32, .num_groups = 2, .chunk = 128};
    // States, scores, outputs from states and from the half of the chunk before.
    const double expected = 8 * 16 * 32 + 2 * 128 * 32 + 8 * 16 * (32 + 64);
    CHECK(multiply_adds(scan_kernels(mamba, 1).forward) == expected);
    CHECK(multiply_adds(scan_kernels(mamba, 2).forward) == expected / 2);
    const GatedDeltaNet delta{.num_key_heads = 2, .num_value_heads = 4, .key_head_dim = 8, .value_head_dim = 16};
    // Pairs, inverse, w and u, states, outputs; chunks of 64.
    const double products = 4 * (64 * 8 + 64 * 64 / 3.0 + 64 * (8 + 16) + 2 * 8 * 16 + (8 * 16 + 64 * 8 + 64 * 16));
    CHECK(multiply_adds(scan_kernels(delta, 1).forward) == Approx(products).margin(4));
  }
  SECTION("compressed attention sees its window and the selected entries before it") {
    const CompressedAttention a{.num_heads = 4,
                                .head_dim = 16,
                                .rope_head_dim = 4,
                                .q_lora_rank = 24,
                                .output_groups = 2,
                                .output_rank = 8,
                                .compression = 4,
                                .indexer = Indexer{.num_heads = 2, .head_dim = 8, .top_k = 6}};
    const CompressedKeys keys = compressed_keys(a, {.attention_window = 8, .ffn = Ffn{}}, true, 64);
    CHECK(keys.near == 8 - 8 * 8 / (2 * 64.0));
    CHECK(keys.entries == 16);
    CHECK(keys.scored == 8);
    CHECK(keys.far == 6 - 6 * 6 / (2 * 16.0));
  }
}

TEST_CASE("Infinity and NaN in a JSON file are numbers that no key of ours may have") {
  const Node n = parse_json(R"({"a": [0.0, Infinity], "b": -Infinity, "c": "Infinity", "d": NaN})", "c.json");
  CHECK(n.find("a")->items[1].scalar == "Infinity");
  CHECK_FALSE(n.find("a")->items[1].is_string);
  CHECK(n.find("b")->scalar == "-Infinity");
  CHECK(n.find("c")->is_string);
  CHECK(n.find("d")->scalar == "NaN");
  CHECK(n.find("d")->where.column == 62);
  CHECK(error_of(with(kQwen, R"("hidden_size": 64)", R"("hidden_size": Infinity)"))
            .find("hidden_size: \"Infinity\" is ") != std::string::npos);
}

TEST_CASE("A value is not compared with one that is misspelt or wrong") {
  CHECK(error_of(with(kNemotron, "\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3"))
            .find("num_key_value_heads: 3 does not divide num_attention_heads, which is 4") != std::string::npos);
  for (const auto& [from, to] : {std::pair{"num_attention_heads\": 4", "num_attention_heads\": \"4x\""},
                                 std::pair{"num_attention_heads", "num_atention_heads"}}) {
    const std::string error = error_of(with(kNemotron, from, to));
    CHECK(error.find("tention_heads: ") != std::string::npos);
    CHECK(error.find("does not divide") == std::string::npos);
  }
}

}  // namespace moeplan::tests::hf_hybrid_families_test
