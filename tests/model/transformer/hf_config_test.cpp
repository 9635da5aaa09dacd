#include "model/transformer/hf_config.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <numeric>

namespace moeplan::tests::hf_config_test {

namespace fs = std::filesystem;

namespace {

const fs::path kConfigs = fs::path(MOEPLAN_SOURCE_DIR) / "../shared/data/hf_configs";

ModelSpec model_of(const std::string& json) { return model_from_hf_config(parse_json(json, "config.json"), "m"); }

std::string error_of(const Node& document) {
  try {
    static_cast<void>(model_from_hf_config(document, "m"));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}
std::string error_of(const std::string& json) { return error_of(parse_json(json, "config.json")); }

/// Sums the elements of tensors, as the public modelling code creates them.
struct Tensors {
  std::int64_t total = 0;
  Tensors& add(std::int64_t times, std::vector<std::int64_t> shape) {
    total += times * std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
    return *this;
  }
};

/// q, k, v, o of `layers` layers without biases.
Tensors& add_heads(Tensors& t, std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv,
                   std::int64_t dim) {
  return t.add(layers, {hidden, heads * dim}).add(2 * layers, {hidden, kv * dim}).add(layers, {heads * dim, hidden});
}

/// A small configuration of a family, which tests change.
const std::string kMixtral = R"({"model_type": "mixtral", "vocab_size": 100, "hidden_size": 64,
  "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 8, "num_key_value_heads": 2,
  "num_local_experts": 4, "num_experts_per_tok": 2})";

std::string with(std::string json, const std::string& from, const std::string& to) {
  const auto at = json.find(from);
  REQUIRE(at != std::string::npos);
  return json.replace(at, from.size(), to);
}

struct Published {
  const char* file;
  std::int64_t total;
  double active;  // as the model card or report says it, 0: says nothing that can be compared
  std::int64_t layers;
  std::int64_t moe_layers;
};

}  // namespace

TEST_CASE("Public configurations have the published numbers of parameters") {
  if (!fs::exists(kConfigs)) {
    WARN("skipped: " << kConfigs << " is not there");
    return;
  }
  // Totals are those of the weight files' index (metadata.total_parameters or the sum of shapes). A fraction-free match
  // is asked for.
  const std::vector<Published> all{
      {"mistralai--Mixtral-8x7B-v0.1", 46'702'792'704, 12.9e9, 32, 32},
      {"mistralai--Mixtral-8x22B-v0.1", 140'620'634'112, 39.1e9, 56, 56},
      {"deepseek-ai--DeepSeek-V3", 671'026'419'200, 37.0e9, 61, 58},
      {"deepseek-ai--DeepSeek-V2-Lite", 15'706'484'224, 2.66e9, 27, 26},
      {"Qwen--Qwen3-30B-A3B", 30'532'122'624, 3.35e9, 48, 48},
      {"Qwen--Qwen3-235B-A22B", 235'093'634'560, 22.2e9, 94, 94},
      {"openai--gpt-oss-20b", 20'914'757'184, 0, 24, 24},
      {"openai--gpt-oss-120b", 116'829'156'672, 0, 36, 36},
      {"moonshotai--Kimi-K2-Instruct", 1'026'408'232'448, 32.9e9, 61, 60},
      {"meta-llama--Llama-4-Scout-17B-16E-Instruct", 107'769'861'120, 17.2e9, 48, 48},
  };
  for (const Published& p : all) {
    const Node document = load_document(kConfigs / fmt::format("{}_config.json", p.file));
    REQUIRE(is_hf_config(document));
    const ModelSpec m = model_from_hf_config(document, p.file);
    const ParameterCounts n = count_parameters(m);
    INFO(p.file << " total " << n.total << " active " << n.active);
    CHECK(n.total == p.total);
    if (p.active > 0) CHECK(static_cast<double>(n.active) == Approx(p.active).epsilon(0.02));
    CHECK(m.name == p.file);
    CHECK(m.num_layers() == p.layers);
    CHECK(m.num_moe_layers() == p.moe_layers);
    CHECK(m.layers.size() <= 2);
    CHECK(read_model(model_document(m)) == m);
  }
}

TEST_CASE("A family counts exactly the tensors that its public modelling code creates") {
  SECTION("Qwen1.5-MoE-A2.7B has biases on q, k, v only and a gated shared expert") {
    const ModelSpec m = model_of(R"({"architectures": ["Qwen2MoeForCausalLM"], "model_type": "qwen2_moe",
      "decoder_sparse_step": 1, "hidden_size": 2048, "intermediate_size": 5632, "max_window_layers": 21,
      "moe_intermediate_size": 1408, "num_attention_heads": 16, "num_experts": 60, "num_experts_per_tok": 4,
      "num_hidden_layers": 24, "num_key_value_heads": 16, "shared_expert_intermediate_size": 5632,
      "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": false, "vocab_size": 151936})");
    Tensors t;
    add_heads(t, 24, 2048, 16, 16, 128).add(24 * 3, {2048}).add(24 * 2 + 1, {2048}).add(2, {151936, 2048});
    t.add(24, {60, 2048}).add(24 * 60 * 3, {2048, 1408}).add(24 * 3, {2048, 5632}).add(24, {1, 2048});
    CHECK(count_parameters(m).total == t.total);
    CHECK(t.total == 14'315'784'192);  // published: 14.3e9, the weight files' index
    CHECK(m.layers.size() == 1);
  }
  SECTION("OLMoE-1B-7B norms the whole q and k") {
    const ModelSpec m = model_of(R"({"model_type": "olmoe", "attention_bias": false, "hidden_size": 2048,
      "intermediate_size": 1024, "num_attention_heads": 16, "num_experts": 64, "num_experts_per_tok": 8,
      "num_hidden_layers": 16, "num_key_value_heads": 16, "tie_word_embeddings": false, "vocab_size": 50304})");
    Tensors t;
    add_heads(t, 16, 2048, 16, 16, 128).add(16 * 4 + 1, {2048}).add(2, {50304, 2048});
    t.add(16, {64, 2048}).add(16 * 64 * 3, {2048, 1024});
    CHECK(count_parameters(m).total == t.total);
    CHECK(t.total == 6'919'161'856);  // published: 6.92e9, the weight files' index
  }
  SECTION("Phi-3.5-MoE has layer norms, attention biases and a biased output projection") {
    const ModelSpec m = model_of(R"({"model_type": "phimoe", "attention_bias": true, "hidden_size": 4096,
      "intermediate_size": 6400, "lm_head_bias": true, "num_attention_heads": 32, "num_experts_per_tok": 2,
      "num_hidden_layers": 32, "num_key_value_heads": 8, "num_local_experts": 16, "sliding_window": 131072,
      "tie_word_embeddings": false, "vocab_size": 32064})");
    Tensors t;
    add_heads(t, 32, 4096, 32, 8, 128).add(32 * 2, {4096}).add(32 * 2, {1024}).add(2 * (32 * 2 + 1), {4096});
    t.add(32, {16, 4096}).add(32 * 16 * 3, {4096, 6400}).add(2, {32064, 4096}).add(1, {32064});
    CHECK(count_parameters(m).total == t.total);
    CHECK(t.total == 41'873'153'344);  // published: 41.9e9, the weight files' index
    CHECK(m.layers[0].pattern[0].attention_window == 131072);
  }
  SECTION("DBRX has its own key names") {
    const ModelSpec m = model_of(R"({"model_type": "dbrx", "d_model": 6144, "n_heads": 48, "n_layers": 40,
      "vocab_size": 100352, "tie_word_embeddings": false, "attn_config": {"kv_n_heads": 8, "model_type": ""},
      "ffn_config": {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 4}})");
    Tensors t;
    add_heads(t, 40, 6144, 48, 8, 128).add(40 * 2 + 1, {6144}).add(2, {100352, 6144});
    t.add(40, {16, 6144}).add(40 * 16 * 3, {10752, 6144});
    CHECK(count_parameters(m).total == t.total);
    CHECK(t.total == 131'596'523'520);  // published: 132e9, the weight files' index
  }
  SECTION("DeepSeekMoE 16B has plain attention, a dense first layer and two shared experts") {
    const ModelSpec m = model_of(R"({"model_type": "deepseek", "first_k_dense_replace": 1, "hidden_size": 2048,
      "intermediate_size": 10944, "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64,
      "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6, "num_hidden_layers": 28,
      "num_key_value_heads": 16, "tie_word_embeddings": false, "vocab_size": 102400})");
    Tensors t;
    add_heads(t, 28, 2048, 16, 16, 128).add(28 * 2 + 1, {2048}).add(2, {102400, 2048}).add(3, {2048, 10944});
    t.add(27, {64, 2048}).add(27 * 66 * 3, {2048, 1408});
    CHECK(count_parameters(m).total == t.total);
    CHECK(t.total == 16'375'728'128);  // published: 16.4e9, the weight files' index
  }
  SECTION("DeepSeek-V2 and V3 limit a token's experts to some groups, unless the method is greedy") {
    const auto moe_of = [&](const std::string& type, const std::string& more) {
      const ModelSpec m = model_of(R"({"model_type": ")" + type + R"(", "first_k_dense_replace": 1, "hidden_size": 2048,
        "intermediate_size": 10944, "kv_lora_rank": 512, "moe_intermediate_size": 1408, "moe_layer_freq": 1,
        "n_routed_experts": 160, "n_shared_experts": 2, "num_attention_heads": 16, "num_experts_per_tok": 6,
        "num_hidden_layers": 4, "num_key_value_heads": 16, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64, "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 102400, )" +
                                   more + "}");
      return std::get<Moe>(m.layers.back().pattern.front().ffn);
    };
    const Moe limited =
        moe_of("deepseek_v2", R"("n_group": 8, "topk_group": 3, "topk_method": "group_limited_greedy")");
    CHECK(limited.expert_groups == 8);
    CHECK(limited.groups_per_token == 3);
    CHECK(moe_of("deepseek_v2", R"("n_group": 8, "topk_group": 3, "topk_method": "greedy")").expert_groups == 1);
    CHECK(moe_of("deepseek_v3", R"("n_group": 8, "topk_group": 4, "topk_method": "noaux_tc")").groups_per_token == 4);
    CHECK(moe_of("deepseek_v3", R"("n_group": 1, "topk_group": 1)").expert_groups == 1);
    CHECK_THROWS_WITH(moe_of("deepseek_v3", R"("n_group": 7, "topk_group": 4)"),
                      Catch::Contains("n_group: 7 groups do not divide the 160 experts"));
    CHECK_THROWS_WITH(moe_of("deepseek_v3", R"("n_group": 80, "topk_group": 2)"),
                      Catch::Contains("topk_group: 2 groups hold 4 experts, and a token selects 6"));
  }
  SECTION("GLM-4.5-Air has biased q, k, v, correction biases and an MTP layer that is counted apart") {
    const ModelSpec m = model_of(R"({"model_type": "glm4_moe", "attention_bias": true, "use_qk_norm": false,
      "head_dim": 128, "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "n_group": 1, "n_routed_experts": 128, "n_shared_experts": 1, "num_attention_heads": 96,
      "num_experts_per_tok": 8, "first_k_dense_replace": 1, "num_hidden_layers": 46, "num_key_value_heads": 8,
      "num_nextn_predict_layers": 1, "tie_word_embeddings": false, "vocab_size": 151552})");
    Tensors layer;
    add_heads(layer, 1, 4096, 96, 8, 128).add(1, {96 * 128}).add(2, {8 * 128}).add(2, {4096});
    Tensors experts;
    experts.add(1, {128, 4096}).add(1, {128}).add(129 * 3, {4096, 1408});
    Tensors t;
    t.add(46, {layer.total}).add(45, {experts.total}).add(3, {4096, 10944}).add(1, {4096}).add(2, {151552, 4096});
    CHECK(count_parameters(m).total == t.total);
    Tensors mtp;
    mtp.add(1, {layer.total}).add(1, {experts.total}).add(2, {4096, 4096}).add(3, {4096});
    CHECK(count_parameters(m).mtp == mtp.total);
    CHECK(static_cast<double>(t.total) == Approx(106.85e9).epsilon(1e-3));  // published: 106e9, 12e9 active
  }
  SECTION("Llama 4 Maverick alternates dense and MoE layers, of which every fourth sees all tokens") {
    const ModelSpec m = model_of(R"({"model_type": "llama4", "text_config": {"attention_bias": false,
      "attention_chunk_size": 8192, "head_dim": 128, "hidden_size": 5120, "interleave_moe_layer_step": 2,
      "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_attention_heads": 40,
      "num_experts_per_tok": 1, "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": 128,
      "use_qk_norm": false, "vocab_size": 202048}})");
    Tensors t;
    add_heads(t, 48, 5120, 40, 8, 128).add(48 * 2 + 1, {5120}).add(2, {202048, 5120}).add(24 * 3, {5120, 16384});
    t.add(24, {128, 5120}).add(24 * 129 * 3, {5120, 8192});
    CHECK(count_parameters(m).total == t.total);
    CHECK(static_cast<double>(t.total) == Approx(400.7e9).epsilon(1e-3));  // published: 400e9 with the vision tower
    REQUIRE(m.layers.size() == 1);
    CHECK(m.layers[0].repeat == 12);
    const auto& pattern = m.layers[0].pattern;
    REQUIRE(pattern.size() == 4);
    CHECK(std::holds_alternative<Ffn>(pattern[0].ffn));
    CHECK(std::holds_alternative<Moe>(pattern[1].ffn));
    CHECK(pattern[2].attention_window == 8192);
    CHECK(pattern[3].attention_window == 0);
  }
  SECTION("ERNIE 4.5 21B ties its embeddings where the file does not say") {
    const ModelSpec m = model_of(R"({"model_type": "ernie4_5_moe", "hidden_size": 2560, "intermediate_size": 12288,
      "moe_intermediate_size": 1536, "moe_k": 6, "moe_num_experts": 64, "moe_num_shared_experts": 2,
      "moe_layer_start_index": 1, "moe_layer_end_index": -1, "moe_layer_interval": 1, "num_attention_heads": 20,
      "num_hidden_layers": 28, "num_key_value_heads": 4, "use_bias": false, "vocab_size": 103424})");
    Tensors t;
    add_heads(t, 28, 2560, 20, 4, 128).add(28 * 2 + 1, {2560}).add(1, {103424, 2560}).add(3, {2560, 12288});
    t.add(27, {64, 2560}).add(27, {64}).add(27 * 66 * 3, {2560, 1536});
    CHECK(count_parameters(m).total == t.total);
    CHECK(static_cast<double>(t.total) == Approx(21.8e9).epsilon(5e-3));  // published: 21e9
  }
  SECTION("Hunyuan-A13B writes one number a layer") {
    std::string json = R"({"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072,
      "head_dim": 128, "num_attention_heads": 32, "num_hidden_layers": 2, "num_key_value_heads": 8,
      "num_experts": 64, "moe_topk": [8, 8], "num_shared_expert": [1, 1], "moe_intermediate_size": [3072, 3072],
      "tie_word_embeddings": true, "use_qk_norm": true, "vocab_size": 128167})";
    Tensors t;
    add_heads(t, 2, 4096, 32, 8, 128).add(4, {128}).add(5, {4096}).add(1, {128167, 4096});
    t.add(2, {64, 4096}).add(2 * 65 * 3, {4096, 3072});
    CHECK(count_parameters(model_of(json)).total == t.total);
    CHECK_THAT(error_of(with(json, "[8, 8]", "[8, 4]")), Catch::Contains("moe_topk: differs from layer to layer"));
    CHECK_THAT(error_of(with(json, "\"use_qk_norm\"", "\"use_cla\": true, \"use_qk_norm\"")),
               Catch::Contains("use_cla: attention shared across layers is not modelled"));
  }
  SECTION("MiniMax-M2 is known by its architecture where its model_type is ambiguous") {
    const std::string json = R"({"architectures": ["MiniMaxM2ForCausalLM"], "model_type": "minimax", "head_dim": 128,
      "hidden_size": 3072, "intermediate_size": 1536, "num_attention_heads": 48, "num_experts_per_tok": 8,
      "num_hidden_layers": 62, "num_key_value_heads": 8, "num_local_experts": 256, "use_qk_norm": true,
      "use_routing_bias": true, "tie_word_embeddings": false, "vocab_size": 200064})";
    Tensors t;
    add_heads(t, 62, 3072, 48, 8, 128).add(62, {56 * 128}).add(62 * 2 + 1, {3072}).add(2, {200064, 3072});
    t.add(62, {256, 3072}).add(62, {256}).add(62 * 256 * 3, {3072, 1536});
    CHECK(count_parameters(model_of(json)).total == t.total);
    CHECK(static_cast<double>(t.total) == Approx(228.7e9).epsilon(1e-3));  // published: 230e9, 10e9 active
    CHECK_THAT(error_of(with(json, "MiniMaxM2ForCausalLM", "MiniMaxText01ForCausalLM")),
               Catch::Contains("linear-attention layers are not modelled"));
  }
  SECTION("Granite's shared MLP counts only where it is") {
    const std::string json = R"({"model_type": "granitemoe", "hidden_size": 1024, "intermediate_size": 512,
      "num_attention_heads": 16, "num_experts_per_tok": 8, "num_hidden_layers": 24, "num_key_value_heads": 8,
      "num_local_experts": 32, "tie_word_embeddings": true, "vocab_size": 49155})";
    Tensors t;
    add_heads(t, 24, 1024, 16, 8, 64).add(24 * 2 + 1, {1024}).add(1, {49155, 1024}).add(24, {32, 1024});
    t.add(24 * 32 * 3, {1024, 512});
    CHECK(count_parameters(model_of(json)).total == t.total);
    CHECK(static_cast<double>(t.total) == Approx(1.334e9).epsilon(1e-3));  // published: 1.3e9, granite-3.0-1b-a400m
    const std::string shared = with(with(json, "granitemoe", "granitemoeshared"), "\"hidden_size\"",
                                    "\"shared_intermediate_size\": 256, \"hidden_size\"");
    CHECK(count_parameters(model_of(shared)).total == t.total + 24 * 3 * 1024 * 256);
  }
  SECTION("dots.llm1 has normed q and k and a correction bias, because its parts are Qwen3's and DeepSeek-V3's") {
    const ModelSpec m = model_of(R"({"model_type": "dots1", "attention_bias": false, "first_k_dense_replace": 1,
      "head_dim": 128, "hidden_size": 4096, "intermediate_size": 10944, "moe_intermediate_size": 1408,
      "moe_layer_freq": 1, "n_routed_experts": 128, "n_shared_experts": 2, "num_attention_heads": 32,
      "num_experts_per_tok": 6, "num_hidden_layers": 62, "num_key_value_heads": 32, "sliding_window": null,
      "tie_word_embeddings": false, "vocab_size": 152064})");
    Tensors t;
    add_heads(t, 62, 4096, 32, 32, 128).add(62 * 2, {128}).add(62 * 2 + 1, {4096}).add(2, {152064, 4096});
    t.add(3, {4096, 10944}).add(61, {128, 4096}).add(61, {128}).add(61 * 130 * 3, {4096, 1408});
    CHECK(count_parameters(m).total == t.total);
    CHECK(static_cast<double>(t.total) == Approx(142.8e9).epsilon(1e-3));  // published: 142e9, 14e9 active
  }
}

TEST_CASE("Layers of a configuration follow its keys") {
  const std::string qwen = R"({"model_type": "qwen3_moe", "vocab_size": 100, "hidden_size": 64, "head_dim": 16,
    "intermediate_size": 96, "moe_intermediate_size": 32, "num_hidden_layers": 8, "num_attention_heads": 8,
    "num_key_value_heads": 2, "num_experts": 4, "num_experts_per_tok": 2, "decoder_sparse_step": 2,
    "mlp_only_layers": [1], "tie_word_embeddings": false})";
  SECTION("experts are in layers 3, 5, 7, because the step is 2 and layer 1 is named as dense") {
    const ModelSpec m = model_of(qwen);
    CHECK(m.num_layers() == 8);
    CHECK(m.num_moe_layers() == 3);
    REQUIRE(m.layers.size() == 3);  // {dense} x 3, {moe, dense} x 2, {moe}
    CHECK(m.layers[0].repeat == 3);
    CHECK(m.layers[1].repeat == 2);
    CHECK(m.layers[1].pattern.size() == 2);
    CHECK(std::holds_alternative<Moe>(m.layers[2].pattern[0].ffn));
  }
  SECTION("gpt-oss alternates windows, because its layer_types say so or by default") {
    const std::string json = R"({"model_type": "gpt_oss", "vocab_size": 100, "hidden_size": 64, "head_dim": 16,
      "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
      "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 128)";
    const ModelSpec by_default = model_of(json + "}");
    REQUIRE(by_default.layers.size() == 1);
    CHECK(by_default.layers[0].repeat == 2);
    CHECK(by_default.layers[0].pattern[0].attention_window == 128);
    CHECK(by_default.layers[0].pattern[1].attention_window == 0);
    CHECK(std::get<Moe>(by_default.layers[0].pattern[0].ffn).expert.clamped);
    CHECK(std::get<HeadAttention>(by_default.attention).scaled_rotary);
    const std::string full = R"("full_attention")";
    const ModelSpec said = model_of(json + ", \"layer_types\": [" + full + "," + full + "," + full + "," + full + "]}");
    CHECK(said.layers[0].repeat == 4);
    CHECK(said.layers[0].pattern[0].attention_window == 0);
    CHECK_THAT(error_of(json + R"(, "layer_types": ["full_attention"]})"),
               Catch::Contains("layer_types: has 1 elements; expected one for each of 4 layers"));
    CHECK_THAT(error_of(json + R"(, "layer_types": ["linear_attention", "a", "b", "c"]})"),
               Catch::Contains("layer_types[0]: \"linear_attention\" is not modelled"));
  }
  SECTION("an index of a layer that is not there is an error") {
    CHECK_THAT(error_of(with(qwen, "[1]", "[8]")),
               Catch::Contains("mlp_only_layers[0]: expected the index of a layer"));
    CHECK_THAT(error_of(with(qwen, "[1]", "[\"x\"]")), Catch::Contains("expected the index of a layer, 0 to 7"));
  }
  SECTION("an output projection is tied if the file says so") {
    const std::int64_t untied = count_parameters(model_of(qwen)).total;
    const std::int64_t tied = count_parameters(model_of(with(qwen, "embeddings\": false", "embeddings\": true"))).total;
    CHECK(untied - tied == 100 * 64);
  }
  SECTION("latent attention without compressed queries is asked for by null") {
    const std::string json = R"({"model_type": "deepseek_v2", "vocab_size": 100, "hidden_size": 64,
      "intermediate_size": 96, "moe_intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
      "n_routed_experts": 4, "n_shared_experts": null, "num_experts_per_tok": 2, "first_k_dense_replace": 0,
      "q_lora_rank": null, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8})";
    const ModelSpec m = model_of(json);
    Tensors t;
    t.add(1, {4 * 12, 64}).add(1, {16 + 4, 64}).add(1, {16}).add(1, {4 * 16, 16}).add(1, {64, 4 * 8});
    CHECK(mixer_parameters(m, m.attention) == t.total);
    CHECK_THAT(error_of(with(json, "\"q_lora_rank\": null,", "")), Catch::Contains("q_lora_rank: missing key"));
    CHECK_THAT(error_of(with(json, "\"q_lora_rank\"", "\"attention_bias\": true, \"q_lora_rank\"")),
               Catch::Contains("biases in latent attention are not modelled"));
  }
}

TEST_CASE("A configuration that cannot be answered for is refused by name") {
  REQUIRE_NOTHROW(model_of(kMixtral));
  SECTION("an unknown family names the nearest and the known ones") {
    const std::string error = error_of(with(kMixtral, "mixtral", "mixtrel"));
    CHECK_THAT(error, Catch::Contains("model_type: \"mixtrel\" is not known; did you mean \"mixtral\"?"));
    CHECK_THAT(error, Catch::Contains("deepseek_v3"));
    CHECK_THAT(error, Catch::StartsWith("config.json:1:"));
    CHECK_THAT(error_of(R"({"vocab_size": 1})"), Catch::Contains("the family of the model is not known"));
  }
  SECTION("a family whose layers are not modelled says why") {
    CHECK_THAT(error_of(R"({"model_type": "jamba"})"), Catch::Contains("state-space layers are not modelled"));
    CHECK_THAT(error_of(R"({"model_type": "minimax"})"), Catch::Contains("linear-attention"));
    CHECK_THAT(error_of(R"({"model_type": "llama"})"), Catch::Contains("dense model, without experts"));
  }
  SECTION("every missing key is named, because all diagnostics are collected") {
    const std::string error = error_of(R"({"model_type": "mixtral"})");
    for (const char* key : {"vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
                            "num_attention_heads", "num_local_experts", "num_experts_per_tok"}) {
      CHECK_THAT(error, Catch::Contains(fmt::format("{}: missing key", key)));
    }
  }
  SECTION("a value is not compared with one that is missing") {
    CHECK_THAT(error_of(with(kMixtral, "num_attention_heads", "heads")), !Catch::Contains("does not divide"));
  }
  SECTION("a misspelt key is named in place of the missing one, and keys without a meaning here stay ignored") {
    CHECK(error_of(with(kMixtral, "\"hidden_size\"", "\"unused\": 1, \"hiden_size\"")) ==
          "config.json:1:59: hiden_size: unknown key; did you mean \"hidden_size\"?");
  }
  SECTION("so is one that a slip makes of an optional key that is not there") {
    for (const char* slip :
         {"num_key_value_head", "num_key_value_heads_", "num_key_valeu_heads", "nun_key_value_heads"}) {
      CHECK_THAT(error_of(with(kMixtral, "\"num_key_value_heads\"", fmt::format("\"{}\"", slip))),
                 Catch::Contains(fmt::format("{}: unknown key; did you mean \"num_key_value_heads\"?", slip)));
    }
    const std::string beside = fmt::format("\"num_key_value_heads\": 2, \"num_key_value_head\"");
    CHECK_NOTHROW(model_of(with(kMixtral, "\"num_key_value_heads\"", beside)));
    CHECK_NOTHROW(model_of(with(kMixtral, "\"num_key_value_heads\"", "\"num_kv_heads\"")));
  }
  SECTION("impossible values name their key") {
    const std::vector<std::array<std::string, 3>> changes{
        {"\"hidden_size\": 64", "\"hidden_size\": 1e18", "hidden_size: "},
        {"\"hidden_size\": 64", "\"hidden_size\": 1000000000000000000", "hidden_size: "},
        {"\"hidden_size\": 64", "\"hidden_size\": 99999999999999999999999", "hidden_size: "},
        {"\"hidden_size\": 64", "\"hidden_size\": -64", "hidden_size: "},
        {"\"hidden_size\": 64", "\"hidden_size\": [64]", "hidden_size: "},
        {"\"hidden_size\": 64", "\"hidden_size\": \"big\"", "hidden_size: "},
        {"\"hidden_size\": 64", "\"hidden_size\": 63", "num_attention_heads: 8 does not divide hidden_size"},
        {"\"num_local_experts\": 4", "\"num_local_experts\": 0", "num_local_experts: 0 is out of range"},
        {"\"num_local_experts\": 4", "\"num_local_experts\": []", "num_local_experts: is an empty list"},
        {"\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 5", "num_experts_per_tok: 5 is more than"},
        {"\"num_key_value_heads\": 2", "\"num_key_value_heads\": 3", "num_key_value_heads: 3 does not divide"},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 1000000", "num_hidden_layers: "},
        {"\"num_hidden_layers\": 3", "\"num_hidden_layers\": 3.5", "num_hidden_layers: "},
        {"\"vocab_size\": 100", "\"vocab_size\": null", "vocab_size: has no value"},
    };
    for (const auto& [from, to, message] : changes) {
      INFO(to);
      CHECK_THAT(error_of(with(kMixtral, from, to)), Catch::Contains(message));
    }
  }
  SECTION("nothing is compared with a number that could not be read") {
    const std::string error = error_of(with(kMixtral, "\"num_local_experts\": 4", "\"num_local_experts\": \"many\""));
    CHECK_THAT(error, Catch::Contains("num_local_experts: \"many\" is a text"));
    CHECK_THAT(error, !Catch::Contains("num_experts_per_tok"));
  }
  SECTION("a model beyond all bounds is refused as a whole, although each of its numbers is allowed") {
    std::string json = with(kMixtral, "\"hidden_size\": 64", "\"hidden_size\": 1048576");
    json = with(with(json, "_size\": 96", "_size\": 1048576"), "_layers\": 3", "_layers\": 10000");
    CHECK_THAT(error_of(with(json, "experts\": 4", "experts\": 65536")),
               Catch::Contains("parameters; expected at most"));
  }
  SECTION("what is no map is refused") {
    CHECK_THAT(error_of("[1]"), Catch::Contains("expected a map"));
    CHECK_FALSE(is_hf_config(parse_json("[1]", "x")));
    CHECK_FALSE(is_hf_config(parse_json(R"({"name": "m"})", "x")));
  }
}

TEST_CASE("A configuration with any of its values damaged gives a model or an InputError", "[slow]") {
  if (!fs::exists(kConfigs)) {
    WARN("skipped: " << kConfigs << " is not there");
    return;
  }
  for (const auto& entry : fs::directory_iterator(kConfigs)) {
    Node original;
    try {
      original = load_document(entry.path());
    } catch (const InputError& error) {
      WARN("left out: " << error.what());  // "Infinity", which Python writes and JSON does not know
      continue;
    }
    const Node* text = original.find("text_config");
    for (const Entry& e : (text ? *text : original).entries) {
      for (const char* value : {"0", "-1", "1e18", "true", "null", "[]", "[1, a]", "{}", "9223372036854775807", "x"}) {
        Node damaged = original;
        override_value(damaged, (text ? "text_config." : "") + e.key, value, "test");
        INFO(entry.path() << " " << e.key << " " << value);
        try {
          const ParameterCounts n = count_parameters(model_from_hf_config(damaged, "m"));
          CHECK(n.active_without_embeddings > 0);
          CHECK(n.total >= n.active);
        } catch (const InputError& error) {
          CHECK_FALSE(error.diagnostics().empty());
        }
      }
    }
  }
}

}  // namespace moeplan::tests::hf_config_test
