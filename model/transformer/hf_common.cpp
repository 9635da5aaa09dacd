// Helpers shared by the families of hf_families.cpp.
#include <fmt/format.h>

#include <algorithm>

#include "model/transformer/hf_families.hpp"

namespace moeplan::hf {

using L = ModelLimits;

std::int64_t size(MapReader& config, std::string_view key) { return config.integer(key, 1, L::kHiddenSize); }

std::int64_t num_layers(MapReader& config) { return config.integer("num_hidden_layers", 1, L::kLayers); }

ModelSpec decoder(MapReader& config, bool tied) {
  ModelSpec m{};
  m.vocab_size = config.integer("vocab_size", 1, L::kVocabSize);
  m.hidden_size = size(config, "hidden_size");
  m.tied_embeddings = config.boolean_or("tie_word_embeddings", tied);
  m.causal = true;
  m.norm = Norm::Rms;
  m.norms_per_layer = 2;
  m.final_norm = true;
  return m;
}

void check_divides(MapReader& r, std::string_view key, std::int64_t value, std::string_view of, std::int64_t number) {
  if (number % value == 0 || !r.is_sound(key) || !r.is_sound(of)) return;
  r.complain(key, fmt::format("{} does not divide {}, which is {}", value, of, number));
}

HeadAttention head_attention(MapReader& config, std::int64_t hidden_size) {
  HeadAttention a{};
  a.num_heads = config.integer("num_attention_heads", 1, L::kHeads);
  a.num_kv_heads = config.integer_or("num_key_value_heads", a.num_heads, 1, L::kHeads);
  check_divides(config, "num_key_value_heads", a.num_kv_heads, "num_attention_heads", a.num_heads);
  if (config.has("head_dim")) {
    a.head_dim = size(config, "head_dim");
  } else if (hidden_size % a.num_heads == 0) {
    a.head_dim = hidden_size / a.num_heads;
  } else {
    a.head_dim = 1;
    config.complain(
        "num_attention_heads",
        fmt::format("{} does not divide hidden_size, which is {}, and there is no head_dim", a.num_heads, hidden_size));
  }
  return a;
}

LatentAttention latent_attention(MapReader& config) {
  LatentAttention a{};
  a.num_heads = config.integer("num_attention_heads", 1, L::kHeads);
  if (!config.node().find("q_lora_rank")) {
    config.complain("q_lora_rank", "missing key; expected a number, or null where queries are not compressed");
  }
  a.q_lora_rank = config.integer_or("q_lora_rank", 0, 0, L::kHiddenSize);
  a.kv_lora_rank = size(config, "kv_lora_rank");
  a.qk_nope_head_dim = size(config, "qk_nope_head_dim");
  a.qk_rope_head_dim = size(config, "qk_rope_head_dim");
  a.v_head_dim = size(config, "v_head_dim");
  if (config.boolean_or("attention_bias", false)) {
    config.complain("attention_bias", "biases in latent attention are not modelled; expected false");
  }
  return a;
}

Moe routed_experts(MapReader& config, std::string_view experts_key, std::string_view top_k_key,
                   std::int64_t expert_size) {
  Moe moe{};
  moe.num_experts = uniform_integer(config, experts_key, 1, L::kExperts);
  moe.top_k = uniform_integer(config, top_k_key, 1, L::kExperts);
  if (config.is_sound(experts_key) && moe.top_k > moe.num_experts) {
    config.complain(top_k_key, fmt::format("{} is more than {}, which is {}", moe.top_k, experts_key, moe.num_experts));
  }
  moe.expert = {.hidden_size = expert_size, .gated = true, .bias = false};
  moe.shared = {.hidden_size = 0, .gated = true, .bias = false};
  return moe;
}

std::int64_t uniform_integer(MapReader& config, std::string_view key, std::int64_t least, std::int64_t most) {
  const Node* value = config.find(key);
  if (!value || value->kind != Node::Kind::List) return config.integer(key, least, most);
  const auto& items = value->items;
  if (items.empty()) {
    config.complain(key, "is an empty list; expected a number, or one a layer");
    return least;
  }
  if (std::any_of(items.begin(), items.end(), [&](const Node& n) { return !n.same_content(items.front()); })) {
    config.complain(key, "differs from layer to layer, which is not modelled; expected the same everywhere");
    return least;
  }
  Node one = Node::map();
  one.set(std::string(key), items.front());
  return MapReader(one, config.path(), config.diagnostics()).integer(key, least, most);
}

std::vector<std::int64_t> layer_indices(MapReader& config, std::string_view key, std::int64_t layers) {
  std::vector<std::int64_t> indices;
  for (const auto& [node, path] : config.list_or_empty(key)) {
    const auto parsed = parse_integer(node->scalar);
    const auto* index = std::get_if<long long>(&parsed);
    if (node->kind == Node::Kind::Scalar && index && *index >= 0 && *index < layers) {
      indices.push_back(*index);
    } else {
      config.diagnostics().add(node->where, path, fmt::format("expected the index of a layer, 0 to {}", layers - 1));
      break;
    }
  }
  return indices;
}

std::vector<std::int64_t> windows(MapReader& config, std::vector<std::int64_t> fallback, std::int64_t window) {
  if (!config.has("layer_types")) return fallback;
  const auto types = config.list("layer_types");
  if (types.size() < fallback.size()) {
    config.complain("layer_types",
                    fmt::format("has {} elements; expected one for each of {} layers", types.size(), fallback.size()));
    return fallback;
  }
  for (std::size_t i = 0; i < fallback.size(); ++i) {
    const auto& [node, path] = types[i];
    if (node->scalar == "full_attention") {
      fallback[i] = 0;
    } else if (node->scalar == "sliding_attention" || node->scalar == "chunked_attention") {
      fallback[i] = window;
    } else {
      config.diagnostics().add(node->where, path,
                               fmt::format("{} is not modelled; expected full_attention, sliding_attention or "
                                           "chunked_attention",
                                           in_quotes(node->scalar)));
      break;
    }
  }
  return fallback;
}

Ffn gated(std::int64_t hidden_size) { return {.hidden_size = hidden_size, .gated = true, .bias = false}; }

Ffn dense_part(MapReader& config, std::string_view key, const std::vector<bool>& is_moe) {
  const bool any = std::find(is_moe.begin(), is_moe.end(), false) != is_moe.end();
  return any ? gated(size(config, key)) : gated(0);
}

Ffn shared_experts(MapReader& config, std::string_view key, std::int64_t count, std::int64_t each) {
  if (count * each > L::kHiddenSize) config.complain(key, fmt::format("{} experts of {} are too many", count, each));
  return gated(count * each);
}

std::vector<std::int64_t> same_window(std::int64_t layers, std::int64_t window) {
  return std::vector<std::int64_t>(static_cast<std::size_t>(layers), window);
}

std::vector<bool> all_moe(std::int64_t layers) { return std::vector<bool>(static_cast<std::size_t>(layers), true); }

Moe deepseek_moe(MapReader& config, bool router_bias) {
  Moe moe = routed_experts(config, "n_routed_experts", "num_experts_per_tok", size(config, "moe_intermediate_size"));
  moe.shared = shared_experts(config, "n_shared_experts", config.integer_or("n_shared_experts", 0, 0, 1024),
                              moe.expert.hidden_size);
  moe.router_bias = router_bias;
  // V2's "greedy" ignores groups, although the file may define some.
  if (config.text_or("topk_method", "") != "greedy")
    read_expert_groups(config, moe, "n_routed_experts", "n_group", "topk_group");
  return moe;
}

std::vector<bool> deepseek_moe_layers(MapReader& config, std::int64_t layers) {
  const std::int64_t dense = config.integer("first_k_dense_replace", 0, L::kLayers);
  const std::int64_t step = config.integer_or("moe_layer_freq", 1, 1, L::kLayers);
  return moe_where(layers, [&](std::int64_t i) { return i >= dense && i % step == 0; });
}

void set_mtp(MapReader& config, ModelSpec& model) {
  model.num_mtp_layers = config.integer_or("num_nextn_predict_layers", 0, 0, L::kMtpLayers);
}

std::vector<RepeatedLayers> folded(const std::vector<LayerSpec>& layers) {
  constexpr std::size_t kLongestPattern = 64;
  const std::size_t n = layers.size();
  // same[p - 1][i]: number of layers from i on that equal the layer p positions later.
  std::vector<std::vector<std::size_t>> same(std::min(kLongestPattern, n), std::vector<std::size_t>(n + 1, 0));
  for (std::size_t p = 1; p <= same.size(); ++p) {
    for (std::size_t i = n - p; i-- > 0;) same[p - 1][i] = layers[i] == layers[i + p] ? same[p - 1][i + 1] + 1 : 0;
  }
  std::vector<RepeatedLayers> runs;
  for (std::size_t i = 0; i < n;) {
    std::size_t length = 1;
    std::size_t repeats = 1 + same[0][i];
    for (std::size_t p = 2; p <= same.size(); ++p) {
      const std::size_t times = 1 + same[p - 1][i] / p;
      if (times > 1 && times * p > repeats * length) {
        length = p;
        repeats = times;
      }
    }
    const auto first = layers.begin() + static_cast<std::ptrdiff_t>(i);
    runs.push_back({.repeat = static_cast<std::int64_t>(repeats),
                    .pattern = {first, first + static_cast<std::ptrdiff_t>(length)}});
    i += length * repeats;
  }
  return runs;
}

std::vector<RepeatedLayers> layer_strategies(std::span<const std::int64_t> windows, const std::vector<bool>& is_moe,
                                             const Ffn& dense, const Moe& moe) {
  std::vector<LayerSpec> layers;
  for (std::size_t i = 0; i < windows.size(); ++i) {
    layers.push_back({.attention_window = windows[i], .ffn = dense});
    if (is_moe[i]) layers.back().ffn = moe;
  }
  return folded(layers);
}

}  // namespace moeplan::hf
