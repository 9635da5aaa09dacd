#include "model/transformer/model_spec.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "model/transformer/hf_config.hpp"

namespace moeplan::tests::model_spec_test {

namespace fs = std::filesystem;

namespace {

const fs::path kModels = fs::path(MOEPLAN_SOURCE_DIR) / "configs/models";
const fs::path kHfConfigs = fs::path(MOEPLAN_SOURCE_DIR) / "../shared/data/hf_configs";

const std::string kSmall = R"(name: small_moe
vocab_size: 100
hidden_size: 64
attention: {num_heads: 8}
layers: [{ffn: dense}, {repeat: 2, pattern: [{ffn: moe, attention_window: 16}, {ffn: moe}]}]
ffns:
  dense: {hidden_size: 256}
  moe: {num_experts: 8, top_k: 2, expert: {hidden_size: 32}}
)";

std::string with(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

std::string error_of(const std::string& yaml) {
  try {
    static_cast<void>(read_model(parse_yaml(yaml, "m.yaml")));
  } catch (const InputError& e) {
    return e.what();
  }
  return "";
}

ModelSpec config(const std::string& name) { return read_model(load_document(kModels / (name + ".yaml"))); }

Moe the_moe(const ModelSpec& m) { return std::get<Moe>(m.layers.back().pattern.back().ffn); }

/// Weights of all routed experts, without biases: what the papers count as the MoE part.
double expert_weights(const ModelSpec& m) {
  const Moe moe = the_moe(m);
  return 2.0 * static_cast<double>(m.num_moe_layers() * moe.num_experts * m.hidden_size * moe.expert.hidden_size);
}

}  // namespace

TEST_CASE("A model file needs few keys, and the others have the documented defaults") {
  const ModelSpec m = read_model(parse_yaml(kSmall, "m.yaml"));
  CHECK(m.name == "small_moe");
  CHECK(m.causal);
  CHECK(m.norm == Norm::Rms);
  CHECK(m.norms_per_layer == 2);
  CHECK(m.final_norm);
  CHECK_FALSE(m.tied_embeddings);
  CHECK(m.num_mtp_layers == 0);
  CHECK(m.num_layers() == 1 + 2 * 2);
  CHECK(m.num_moe_layers() == 4);
  CHECK(m.layers[1].pattern[0].attention_window == 16);
  CHECK(m.layers[1].pattern[1].attention_window == 0);
  const auto attention = std::get<HeadAttention>(m.attention);
  CHECK(attention.num_kv_heads == 8);
  CHECK(attention.head_dim == 64 / 8);
  CHECK(std::get<Ffn>(m.layers[0].pattern[0].ffn).gated);
  CHECK(the_moe(m).shared.hidden_size == 0);
}

TEST_CASE("Layers of a model without attention have no mixer") {
  const std::string without = with(with(kSmall, "{num_heads: 8}", "{kind: none}"), ", attention_window: 16", "");
  const ModelSpec m = read_model(parse_yaml(without, "m.yaml"));
  for (const RepeatedLayers& run : m.layers) {
    for (const LayerSpec& layer : run.pattern) CHECK_FALSE(has_mixer(layer));
  }
  CHECK(read_model(model_document(m)) == m);
}

TEST_CASE("Parameters are counted tensor by tensor") {
  const ModelSpec m = read_model(parse_yaml(kSmall, "m.yaml"));
  const std::int64_t attention = 4 * 64 * 64;
  const std::int64_t dense = 3 * 64 * 256;
  const std::int64_t expert = 3 * 64 * 32;
  const std::int64_t router = 8 * 64;
  const std::int64_t norms = (5 * 2 + 1) * 64;
  const std::int64_t embeddings = 2 * 100 * 64;
  SECTION("of the parts") {
    CHECK(mixer_parameters(m, m.attention) == attention);
    CHECK(ffn_parameters({256, true, false}, 64) == dense);
    CHECK(ffn_parameters({256, false, true}, 64) == 2 * 64 * 256 + 256 + 64);
    CHECK(ffn_parameters({256, true, true}, 64) == 3 * 64 * 256 + 2 * 256 + 64);
    CHECK(ffn_parameters({0, true, true}, 64) == 0);
    CHECK(router_parameters(the_moe(m), 64) == router);
    Moe gate = the_moe(m);
    gate.router_bias = gate.shared_gate = true;
    CHECK(router_parameters(gate, 64) == router + 8 + 64);
  }
  SECTION("of the whole, where active counts top_k experts") {
    const ParameterCounts n = count_parameters(m);
    CHECK(n.total == 5 * attention + dense + 4 * (router + 8 * expert) + norms + embeddings);
    CHECK(n.active == n.total - 4 * (8 - 2) * expert);
    CHECK(n.active_without_embeddings == n.active - embeddings);
    CHECK(n.mtp == 0);
  }
  SECTION("tied embeddings count once, multi-token prediction apart") {
    const ModelSpec tied = read_model(parse_yaml(kSmall + "tied_embeddings: true\nnum_mtp_layers: 2\n", "m.yaml"));
    CHECK(count_parameters(tied).total == count_parameters(m).total - 100 * 64);
    CHECK(count_parameters(tied).active_without_embeddings == count_parameters(m).active_without_embeddings);
    CHECK(count_parameters(tied).mtp == 2 * (attention + router + 8 * expert + 2 * 64 + 2 * 64 * 64 + 3 * 64));
  }
  SECTION("attention may have biases, norms, sinks") {
    const auto count = [](const std::string& keys) {
      const ModelSpec model =
          read_model(parse_yaml(with(kSmall, "num_heads: 8", "num_heads: 8, num_kv_heads: 2" + keys), "m.yaml"));
      return mixer_parameters(model, model.attention);
    };
    const std::int64_t plain = 64 * (64 + 2 * 16) + 64 * 64;
    CHECK(count("") == plain);
    CHECK(count(", bias: true") == plain + 64 + 2 * 16 + 64);
    CHECK(count(", bias: true, output_bias: false") == plain + 64 + 2 * 16);
    CHECK(count(", qk_norm: true") == plain + 2 * 8);
    CHECK(count(", qk_norm: true, qk_norm_whole: true") == plain + 64 + 16);
    CHECK(count(", sinks: true") == plain + 8);
    CHECK(count(", head_dim: 16") == 2 * plain);
    CHECK(count(", v_head_dim: 4") == 64 * (64 + 16 + 8) + 32 * 64);
    CHECK(count(", output_gate: heads") == plain + 64 * 8);
    CHECK(count(", output_gate: values") == plain + 64 * 64);
  }
}

TEST_CASE("A wrong model file is refused at its line and key") {
  const std::vector<std::array<std::string, 3>> changes{
      {"num_heads: 8", "num_heads: 7", "m.yaml:4:24: attention.num_heads: 7 does not divide hidden_size, which is 64"},
      {"num_heads: 8", "num_heads: 8, num_kv_heads: 3", "num_kv_heads: 3 does not divide num_heads, which is 8"},
      {"num_heads: 8", "num_heads: 8, qk_norm_whole: true", "says how qk_norm is done, and there is none"},
      {"num_heads: 8", "num_heds: 8", "attention.num_heds: unknown key; did you mean \"num_heads\"?"},
      {"num_heads: 8", "kind: latent, num_heads: 8", "attention.kv_lora_rank: missing key"},
      {"num_heads: 8", "kind: laten, num_heads: 8", "did you mean \"latent\"?"},
      {"top_k: 2", "top_k: 9", "m.yaml:8:32: ffns.moe.top_k: 9 is more than num_experts, which is 8"},
      {"num_experts: 8", "num_experts: 0", "ffns.moe.num_experts: 0 is out of range; expected 1 to 65536"},
      {"top_k: 2", "top_k: 2, expert_groups: 3", "ffns.moe.expert_groups: 3 groups do not divide the 8 experts"},
      {"top_k: 2", "top_k: 2, expert_groups: 4, groups_per_token: 5",
       "ffns.moe.groups_per_token: 5 is more than expert_groups, which is 4"},
      {"top_k: 2", "top_k: 2, expert_groups: 8, groups_per_token: 1",
       "ffns.moe.groups_per_token: 1 groups hold 1 experts, and a token selects 2"},
      {"top_k: 2", "top_k: 2, shared_gate: true", "is the gate of a shared expert, and there is none"},
      {"{ffn: dense}", "{ffn: dens}", "layers[0].ffn: \"dens\" is no key of ffns; did you mean \"dense\"?"},
      {"{ffn: dense}", "{repeat: 1}", "layers[0].ffn: missing key"},
      {"{ffn: dense}", "{ffn: moe}", "ffns.dense: no layer names it"},
      {"{ffn: dense}", "{ffn: dense, pattern: []}", "layers[0].pattern: expected at least one layer"},
      {"{ffn: dense}", "{ffn: dense, repeat: 9999}", "layers: are more than 10000"},
      {"hidden_size: 64", "hidden_size: 1e18", "hidden_size: "},
      {"hidden_size: 64", "hidden_size: -1", "hidden_size: -1 is out of range"},
      {"vocab_size: 100", "vocab: 100", "vocab: unknown key; did you mean \"vocab_size\"?"},
      {"vocab_size: 100", "vocab_size: 100\norigins: {vocab_size: a book}",
       "expected a text that begins with measured:"},
      {"vocab_size: 100", "vocab_size: 100\norigins: {vocab_size: \"assumed: \"}",
       "origins.vocab_size: expected a text"},
      {"vocab_size: 100", "vocab_size: 100\norigins: here", "origins: expected a map"},
  };
  for (const auto& [from, to, message] : changes) {
    INFO(to);
    CHECK_THAT(error_of(with(kSmall, from, to)), Catch::Contains(message));
  }
  SECTION("a list of no layers") {
    CHECK_THAT(
        error_of(
            with(kSmall, "[{ffn: dense}, {repeat: 2, pattern: [{ffn: moe, attention_window: 16}, {ffn: moe}]}]", "[]")),
        Catch::Contains("layers: expected at least one layer"));
  }
  SECTION("a model too large as a whole") {
    std::string huge = with(with(kSmall, "hidden_size: 64", "hidden_size: 1048576"), "repeat: 2", "repeat: 4999");
    huge = with(with(huge, "num_experts: 8", "num_experts: 65536"), "{hidden_size: 32}", "{hidden_size: 1048576}");
    CHECK_THAT(error_of(huge), Catch::Contains("parameters; expected at most 1e+16"));
  }
  SECTION("origins that say where from are accepted") {
    CHECK(error_of(kSmall + "origins: {\"\": \"published: a report\", vocab_size: \"assumed: round\"}\n").empty());
  }
  SECTION("no document at all") { CHECK_THAT(error_of(""), Catch::Contains("is empty; expected a map of keys")); }
}

TEST_CASE("What model_document writes, read_model reads as the same model") {
  rc::prop("for any model", [] {
    const auto number = [](std::int64_t least, std::int64_t most) { return *rc::gen::inRange(least, most + 1); };
    const auto flag = [] { return *rc::gen::arbitrary<bool>(); };
    const auto ffn = [&](std::int64_t least) {
      const bool gated = flag();
      return Ffn{number(least, 512), gated, flag(), gated && flag()};
    };
    const auto one_in_three = [&] { return number(0, 2) == 0; };
    const auto indexer = [&] {
      return flag() ? std::optional(Indexer{number(1, 8), number(1, 64), number(1, 99), flag()}) : std::nullopt;
    };
    const auto mixer = [&]() -> TokenMixer {
      const std::int64_t some = number(1, 4), size = number(1, 64);
      switch (number(0, 4)) {
        case 0: return LatentAttention{some, size, size, size, number(0, 64), size, indexer()};
        case 1: {
          const std::int64_t compression = flag() ? 4 : 0;
          return CompressedAttention{some * 2, size, 1,           size,
                                     2,        size, compression, compression > 0 ? indexer() : std::nullopt};
        }
        case 2: return GatedDeltaNet{some, some * 2, size, size, number(1, 4)};
        case 3: return Mamba2{some * 2, size, size, some, number(1, 4), number(1, 256), flag(), flag()};
        default: return NoMixer{};
      }
    };
    ModelSpec m{};
    m.name = "m";
    m.residual_streams = number(1, 4);
    m.vocab_size = number(1, 1000);
    m.hidden_size = number(1, 512);
    m.position_embeddings = number(0, 100);
    m.token_types = number(0, 2);
    m.embedding_norm = flag();
    m.tied_embeddings = flag();
    m.lm_head_bias = flag();
    m.causal = flag();
    m.norm = flag() ? Norm::Rms : Norm::Layer;
    m.norms_per_layer = number(0, 4);
    m.final_norm = flag();
    m.num_mtp_layers = number(0, 3);
    if (flag()) {
      HeadAttention a{};
      a.num_kv_heads = number(1, 8);
      a.num_heads = a.num_kv_heads * number(1, 8);
      a.head_dim = number(1, 64);
      a.bias = flag();
      a.output_bias = flag();
      a.qk_norm = flag();
      a.qk_norm_whole = a.qk_norm && flag();
      a.sinks = flag();
      m.attention = a;
    } else {
      m.attention =
          LatentAttention{number(1, 8), number(0, 64), number(1, 64), number(1, 64), number(0, 64), number(1, 64)};
    }
    for (std::int64_t i = number(1, 3); i > 0; --i) {
      RepeatedLayers run{number(1, 5), {}};
      for (std::int64_t j = number(1, 3); j > 0; --j) {
        LayerSpec layer{number(0, 2) * 64, ffn(0)};
        if (one_in_three()) layer.mixer = mixer();
        if (layer.mixer && mixer_word(*layer.mixer) != "attention") layer.attention_window = 0;
        if (flag()) {
          const std::int64_t experts = number(1, 16);
          Moe moe{experts, number(1, experts), ffn(1), ffn(0), false, flag()};
          moe.shared_gate = moe.shared.hidden_size > 0 && flag();
          moe.latent_size = number(0, 1) * 16;
          layer.ffn = moe;
        }
        run.pattern.push_back(layer);
      }
      m.layers.push_back(run);
    }
    RC_ASSERT(read_model(parse_yaml(to_yaml(model_document(m)), "m.yaml")) == m);
    const ParameterCounts n = count_parameters(m);
    RC_ASSERT(n.active <= n.total);
    RC_ASSERT(n.active_without_embeddings < n.active);
  });
}

TEST_CASE("Every file of configs/models is a model that is named as its file and says where its numbers are from") {
  int files = 0;
  for (const auto& entry : fs::directory_iterator(kModels)) {
    INFO(entry.path());
    const Node document = load_document(entry.path());
    const ModelSpec m = read_model(document);
    CHECK(m.name == entry.path().stem());
    CHECK(m.num_moe_layers() > 0);
    REQUIRE(document.find("origins"));
    CHECK(document.find("origins")->find(""));
    CHECK(read_model(model_document(m)) == m);
    ++files;
  }
  CHECK(files >= 20);
}

TEST_CASE("Our own files of public models equal their Hugging Face configurations") {
  if (!fs::exists(kHfConfigs)) {
    WARN("skipped: " << kHfConfigs << " is not there");
    return;
  }
  const auto imported = [](const char* file, const char* name) {
    return model_from_hf_config(load_document(kHfConfigs / file), name);
  };
  CHECK(config("mixtral_8x7b") == imported("mistralai--Mixtral-8x7B-v0.1_config.json", "mixtral_8x7b"));
  CHECK(config("deepseek_v3") == imported("deepseek-ai--DeepSeek-V3_config.json", "deepseek_v3"));
}

TEST_CASE("DeepSeek-V3's multi-token-prediction layer has the published number of parameters") {
  // README_WEIGHTS of the release: 11.5e9 that are not shared with the main model.
  CHECK(static_cast<double>(count_parameters(config("deepseek_v3")).mtp) == Approx(11.5e9).epsilon(0.01));
}

TEST_CASE("The papers' models have the papers' sizes") {
  const auto size = [](const std::string& name) {
    const ModelSpec m = config(name);
    // All experts, and no embeddings: what FasterMoE's table 2 counts.
    const Moe moe = the_moe(m);
    const std::int64_t idle = m.num_moe_layers() * (moe.num_experts - moe.top_k);
    return static_cast<double>(count_parameters(m).active_without_embeddings +
                               idle * ffn_parameters(moe.expert, m.hidden_size));
  };
  SECTION("FasterMoE, table 2, to its three digits") {
    CHECK(size("fastermoe_moe_gpt_s") == Approx(0.86e9).epsilon(0.005));
    CHECK(size("fastermoe_moe_gpt") == Approx(3.42e9).epsilon(0.005));
    CHECK(size("fastermoe_moe_gpt_l") == Approx(13.7e9).epsilon(0.005));
    CHECK(size("fastermoe_moe_bert_deep") == Approx(1.71e9).epsilon(0.005));
    CHECK(size("fastermoe_moe_bert_deep_l") == Approx(27.4e9).epsilon(0.005));
    CHECK(size("fastermoe_moe_bert_wide") == Approx(3.27e9).epsilon(0.005));
    CHECK(size("fastermoe_moe_bert_wide_l") == Approx(13.1e9).epsilon(0.005));
  }
  SECTION("ScheMoE, table 5, parameters of the experts") {
    CHECK(expert_weights(config("schemoe_transformer_moe")) == Approx(403e6).epsilon(0.005));
    CHECK(expert_weights(config("schemoe_ct_moe_24")) == Approx(403e6).epsilon(0.005));
    CHECK(expert_weights(config("schemoe_bert_large_moe")) == Approx(6442e6).epsilon(0.005));
    CHECK(expert_weights(config("schemoe_gpt2_tiny_moe")) == Approx(0.5e6).epsilon(0.05));  // "1M"
  }
  SECTION("Parm's models are GPT-2 and BERT-Base, because with the dense FFN they have these models' sizes") {
    const auto dense_size = [](const std::string& name) {
      ModelSpec m = config(name);
      CHECK(m.num_moe_layers() == m.num_layers());
      for (RepeatedLayers& run : m.layers) run.pattern[0].ffn = the_moe(m).expert;
      return count_parameters(m).total;
    };
    CHECK(dense_size("gpt2_moe") == 124'439'808);  // the released weights of GPT-2 small
    CHECK(dense_size("bert_moe") ==
          108'891'648);  // the released weights of BERT-Base (uncased), without pooler and heads
    CHECK(the_moe(config("gpt2_moe")).num_experts == 8);
    CHECK(the_moe(config("gpt2_moe_2_experts")).num_experts == 2);
    CHECK(the_moe(config("bert_moe_2_experts")).num_experts == 2);
  }
}

}  // namespace moeplan::tests::model_spec_test
