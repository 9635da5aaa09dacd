// Families whose layers with a window have other heads than those with full attention. The comments list the tensors as
// those of hf_families.cpp.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/transformer/hf_families.hpp"

namespace moeplan::hf {

namespace {

using L = ModelLimits;

/// Heads under keys of their own, as `prefix` + num_attention_heads.
HeadAttention prefixed_heads(MapReader& r, const std::string& prefix) {
  HeadAttention a{};
  a.num_heads = r.integer(prefix + "num_attention_heads", 1, L::kHeads);
  a.num_kv_heads = r.integer(prefix + "num_key_value_heads", 1, L::kHeads);
  check_divides(r, prefix + "num_key_value_heads", a.num_kv_heads, prefix + "num_attention_heads", a.num_heads);
  a.head_dim = size(r, prefix + "head_dim");
  a.v_head_dim = size(r, prefix + "v_head_dim");
  return a;
}

/// Whether each layer is marked by a 1 in a list of zeros and ones, which has an element for each of `layers` layers.
std::vector<bool> marked(MapReader& r, std::string_view key, std::int64_t layers) {
  std::vector<bool> out(static_cast<std::size_t>(layers), false);
  const auto list = r.list(key);
  if (std::ssize(list) < layers) {
    r.complain(key, fmt::format("has {} elements; expected one for each of {} layers", list.size(), layers));
    return out;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const auto& [node, path] = list[i];
    if (node->scalar != "0" && node->scalar != "1")
      r.diagnostics().add(node->where, path, fmt::format("expected 0 or 1, got {}", in_quotes(node->scalar)));
    out[i] = node->scalar == "1";
  }
  return out;
}

}  // namespace

/// MiMoV2ForCausalLM and MiMoV2FlashForCausalLM. Full attention where hybrid_layer_pattern is 0, a window and heads
/// under keys with swa_ where it is 1; values narrower than keys; sinks by add_swa_attention_sink_bias and
/// add_full_attention_sink_bias; experts where moe_layer_freq is 1, with e_score_correction_bias (noaux_tc). Its layers
/// of multi-token prediction are not described by the file and not counted.
ModelSpec mimo_v2(MapReader& r) {
  ModelSpec m = decoder(r, false);
  HeadAttention full = prefixed_heads(r, ""), near = prefixed_heads(r, "swa_");
  full.bias = near.bias = r.boolean_or("attention_bias", false);
  full.sinks = r.boolean_or("add_full_attention_sink_bias", false);
  near.sinks = r.boolean_or("add_swa_attention_sink_bias", false);
  m.attention = full;
  const std::int64_t n = num_layers(r);
  const std::int64_t window = r.integer(r.has("sliding_window") ? "sliding_window" : "sliding_window_size", 1);
  const Moe moe = deepseek_moe(r, r.text_or("topk_method", "noaux_tc") == "noaux_tc");
  const std::vector<bool> is_near = marked(r, "hybrid_layer_pattern", n), is_moe = marked(r, "moe_layer_freq", n);
  const Ffn dense = dense_part(r, "intermediate_size", is_moe);
  std::vector<LayerSpec> layers;
  for (std::size_t i = 0; i < is_moe.size(); ++i) {
    LayerSpec layer{.attention_window = is_near[i] ? window : 0, .ffn = dense};
    if (is_moe[i]) layer.ffn = moe;
    if (is_near[i]) layer.mixer = near;
    layers.push_back(std::move(layer));
  }
  m.layers = folded(layers);
  return m;
}

/// Step3p5ForCausalLM. Layers by layer_types (more may be listed, for multi-token prediction); those with a window have
/// the heads of attention_other_setting; norms of queries and keys of head_dim; a gate a head
/// (use_head_wise_attn_gate); experts in the layers of moe_layers_enum ("3,4,5"), with a router bias
/// (use_moe_router_bias) and a shared expert of share_expert_dim.
ModelSpec step3p5(MapReader& r) {
  ModelSpec m = decoder(r, false);
  const bool is_gated = r.boolean_or("use_head_wise_attn_gate", true);
  const auto heads = [&](MapReader& from, std::int64_t head_dim) {
    HeadAttention a{};
    a.num_heads = from.integer("num_attention_heads", 1, L::kHeads);
    a.num_kv_heads = from.integer("num_attention_groups", 1, L::kHeads);
    check_divides(from, "num_attention_groups", a.num_kv_heads, "num_attention_heads", a.num_heads);
    a.head_dim = head_dim;
    a.qk_norm = true;
    if (is_gated) a.output_gate = OutputGate::Heads;
    return a;
  };
  const std::int64_t head_dim = size(r, "head_dim");
  const HeadAttention full = heads(r, head_dim);
  m.attention = full;
  HeadAttention near = full;
  if (r.has("attention_other_setting")) {
    MapReader other = r.map("attention_other_setting");
    near = heads(other, other.integer_or("head_dim", head_dim, 1, L::kHiddenSize));
  }
  const std::int64_t n = num_layers(r);
  std::vector<bool> is_moe(static_cast<std::size_t>(n), false);
  std::string list = r.text("moe_layers_enum") + ",";
  for (std::size_t comma = list.find(','); comma != std::string::npos; comma = list.find(',')) {
    const auto parsed = parse_integer(list.substr(0, comma));
    const auto* index = std::get_if<long long>(&parsed);
    list.erase(0, comma + 1);
    if (!index || *index < 0) {
      r.complain("moe_layers_enum", "expected indices of layers with commas between them");
      break;
    }
    if (*index < n) is_moe[static_cast<std::size_t>(*index)] = true;
  }
  Moe moe = routed_experts(r, "moe_num_experts", "moe_top_k", size(r, "moe_intermediate_size"));
  moe.shared = gated(r.integer_or("share_expert_dim", 0, 0, L::kHiddenSize));
  moe.router_bias = r.boolean_or("use_moe_router_bias", true);
  const std::int64_t window = r.integer_or("sliding_window", 0, 0);
  const std::vector<std::int64_t> seen = windows(r, same_window(n, 0), window);
  const Ffn dense = dense_part(r, "intermediate_size", is_moe);
  std::vector<LayerSpec> layers;
  for (std::size_t i = 0; i < is_moe.size(); ++i) {
    LayerSpec layer{.attention_window = seen[i], .ffn = dense};
    if (is_moe[i]) layer.ffn = moe;
    if (seen[i] > 0 && near != full) layer.mixer = near;
    layers.push_back(std::move(layer));
  }
  m.layers = folded(layers);
  set_mtp(r, m);
  return m;
}

}  // namespace moeplan::hf
