// Token mixers in model files.
#include <fmt/format.h>

#include <array>

#include "model/text/reader.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/transformer/token_mixer.hpp"

namespace moeplan {

namespace {

using L = ModelLimits;

enum class MixerKind { Heads, Latent, Compressed, DeltaNet, Mamba2, None };
constexpr std::array<std::pair<MixerKind, std::string_view>, 6> kMixerNames{{{MixerKind::Heads, "heads"},
                                                                             {MixerKind::Latent, "latent"},
                                                                             {MixerKind::Compressed, "compressed"},
                                                                             {MixerKind::DeltaNet, "delta_net"},
                                                                             {MixerKind::Mamba2, "mamba2"},
                                                                             {MixerKind::None, "none"}}};

constexpr std::array<std::pair<OutputGate, std::string_view>, 3> kOutputGateNames{
    {{OutputGate::None, "none"}, {OutputGate::Heads, "heads"}, {OutputGate::Values, "values"}}};

std::int64_t size_in(MapReader& r, std::string_view key) { return r.integer(key, 1, L::kHiddenSize); }

HeadAttention read_heads(MapReader& r, std::int64_t hidden_size) {
  HeadAttention a{};
  a.num_heads = r.integer("num_heads", 1, L::kHeads);
  a.num_kv_heads = r.integer_or("num_kv_heads", a.num_heads, 1, L::kHeads);
  if (a.num_heads % a.num_kv_heads != 0) {
    r.complain("num_kv_heads", fmt::format("{} does not divide num_heads, which is {}", a.num_kv_heads, a.num_heads));
  }
  const bool divides = hidden_size % a.num_heads == 0;
  if (!r.has("head_dim") && !divides) {
    r.complain("num_heads", fmt::format("{} does not divide hidden_size, which is {}; write head_dim too", a.num_heads,
                                        hidden_size));
  }
  a.head_dim = r.integer_or("head_dim", divides ? hidden_size / a.num_heads : 1, 1, L::kHiddenSize);
  a.bias = r.boolean_or("bias", false);
  a.output_bias = r.boolean_or("output_bias", a.bias);
  a.qk_norm = r.boolean_or("qk_norm", false);
  a.qk_norm_whole = r.boolean_or("qk_norm_whole", false);
  if (a.qk_norm_whole && !a.qk_norm) r.complain("qk_norm_whole", "says how qk_norm is done, and there is none");
  a.sinks = r.boolean_or("sinks", false);
  a.scaled_rotary = r.boolean_or("scaled_rotary", false);
  a.v_head_dim = r.integer_or("v_head_dim", 0, 1, L::kHiddenSize);
  a.output_gate = r.choice_or<OutputGate>("output_gate", OutputGate::None, kOutputGateNames);
  return a;
}

std::optional<Indexer> read_indexer(MapReader& attention) {
  if (!attention.has("indexer")) return std::nullopt;
  MapReader r = attention.map("indexer");
  Indexer indexer{.num_heads = r.integer("num_heads", 1, L::kHeads),
                  .head_dim = size_in(r, "head_dim"),
                  .top_k = r.integer("top_k", 1),
                  .is_shared = r.boolean_or("shared", false)};
  r.finish();
  return indexer;
}

LatentAttention read_latent(MapReader& r) {
  LatentAttention a{};
  a.num_heads = r.integer("num_heads", 1, L::kHeads);
  a.q_lora_rank = r.integer_or("q_lora_rank", 0, 0, L::kHiddenSize);
  a.kv_lora_rank = size_in(r, "kv_lora_rank");
  a.qk_nope_head_dim = size_in(r, "qk_nope_head_dim");
  a.qk_rope_head_dim = r.integer("qk_rope_head_dim", 0, L::kHiddenSize);
  a.v_head_dim = size_in(r, "v_head_dim");
  a.indexer = read_indexer(r);
  if (a.indexer && a.q_lora_rank == 0) r.complain("indexer", "reads compressed queries, and there is no q_lora_rank");
  return a;
}

CompressedAttention read_compressed(MapReader& r) {
  CompressedAttention a{};
  a.num_heads = r.integer("num_heads", 1, L::kHeads);
  a.head_dim = size_in(r, "head_dim");
  a.rope_head_dim = r.integer("rope_head_dim", 0, a.head_dim);
  a.q_lora_rank = size_in(r, "q_lora_rank");
  a.output_groups = r.integer("output_groups", 1, L::kHeads);
  if (a.num_heads % a.output_groups != 0) {
    r.complain("output_groups", fmt::format("{} does not divide num_heads, which is {}", a.output_groups, a.num_heads));
  }
  a.output_rank = size_in(r, "output_rank");
  a.compression = r.integer_or("compression", 0, 0, L::kHiddenSize);
  a.indexer = read_indexer(r);
  if (a.indexer && a.compression == 0) r.complain("indexer", "selects compressed entries, and there is no compression");
  return a;
}

GatedDeltaNet read_delta_net(MapReader& r) {
  GatedDeltaNet d{};
  d.num_key_heads = r.integer("num_key_heads", 1, L::kHeads);
  d.num_value_heads = r.integer("num_value_heads", 1, L::kHeads);
  if (d.num_value_heads % d.num_key_heads != 0) {
    r.complain("num_key_heads",
               fmt::format("{} does not divide num_value_heads, which is {}", d.num_key_heads, d.num_value_heads));
  }
  d.key_head_dim = size_in(r, "key_head_dim");
  d.value_head_dim = size_in(r, "value_head_dim");
  d.conv_kernel = r.integer_or("conv_kernel", 4, 1, L::kHiddenSize);
  return d;
}

Mamba2 read_mamba2(MapReader& r) {
  Mamba2 m{};
  m.num_heads = r.integer("num_heads", 1, L::kHeads);
  m.head_dim = size_in(r, "head_dim");
  m.state_size = size_in(r, "state_size");
  m.num_groups = r.integer("num_groups", 1, L::kHeads);
  if (m.num_heads % m.num_groups != 0) {
    r.complain("num_groups", fmt::format("{} does not divide num_heads, which is {}", m.num_groups, m.num_heads));
  }
  m.conv_kernel = r.integer_or("conv_kernel", 4, 1, L::kHiddenSize);
  m.chunk = r.integer_or("chunk", 128, 1, L::kHiddenSize);
  m.conv_bias = r.boolean_or("conv_bias", true);
  m.bias = r.boolean_or("bias", false);
  return m;
}

Node map_of(MixerKind kind) {
  Node n = Node::map();
  n.set("kind", Node::text(std::string(name_of<MixerKind>(kMixerNames, kind))));
  return n;
}

void set_indexer(Node& n, const std::optional<Indexer>& indexer) {
  if (!indexer) return;
  Node i = Node::map();
  i.set("num_heads", Node::integer(indexer->num_heads));
  i.set("head_dim", Node::integer(indexer->head_dim));
  i.set("top_k", Node::integer(indexer->top_k));
  i.set("shared", Node::boolean(indexer->is_shared));
  n.set("indexer", std::move(i));
}

Node document_of(const HeadAttention& a) {
  Node n = map_of(MixerKind::Heads);
  n.set("num_heads", Node::integer(a.num_heads));
  n.set("num_kv_heads", Node::integer(a.num_kv_heads));
  n.set("head_dim", Node::integer(a.head_dim));
  n.set("bias", Node::boolean(a.bias));
  n.set("output_bias", Node::boolean(a.output_bias));
  n.set("qk_norm", Node::boolean(a.qk_norm));
  n.set("qk_norm_whole", Node::boolean(a.qk_norm_whole));
  n.set("sinks", Node::boolean(a.sinks));
  n.set("scaled_rotary", Node::boolean(a.scaled_rotary));
  if (a.v_head_dim > 0) n.set("v_head_dim", Node::integer(a.v_head_dim));
  if (a.output_gate != OutputGate::None) {
    n.set("output_gate", Node::text(std::string(name_of<OutputGate>(kOutputGateNames, a.output_gate))));
  }
  return n;
}

Node document_of(const LatentAttention& a) {
  Node n = map_of(MixerKind::Latent);
  n.set("num_heads", Node::integer(a.num_heads));
  n.set("q_lora_rank", Node::integer(a.q_lora_rank));
  n.set("kv_lora_rank", Node::integer(a.kv_lora_rank));
  n.set("qk_nope_head_dim", Node::integer(a.qk_nope_head_dim));
  n.set("qk_rope_head_dim", Node::integer(a.qk_rope_head_dim));
  n.set("v_head_dim", Node::integer(a.v_head_dim));
  set_indexer(n, a.indexer);
  return n;
}

Node document_of(const CompressedAttention& a) {
  Node n = map_of(MixerKind::Compressed);
  n.set("num_heads", Node::integer(a.num_heads));
  n.set("head_dim", Node::integer(a.head_dim));
  n.set("rope_head_dim", Node::integer(a.rope_head_dim));
  n.set("q_lora_rank", Node::integer(a.q_lora_rank));
  n.set("output_groups", Node::integer(a.output_groups));
  n.set("output_rank", Node::integer(a.output_rank));
  n.set("compression", Node::integer(a.compression));
  set_indexer(n, a.indexer);
  return n;
}

Node document_of(const GatedDeltaNet& d) {
  Node n = map_of(MixerKind::DeltaNet);
  n.set("num_key_heads", Node::integer(d.num_key_heads));
  n.set("num_value_heads", Node::integer(d.num_value_heads));
  n.set("key_head_dim", Node::integer(d.key_head_dim));
  n.set("value_head_dim", Node::integer(d.value_head_dim));
  n.set("conv_kernel", Node::integer(d.conv_kernel));
  return n;
}

Node document_of(const Mamba2& m) {
  Node n = map_of(MixerKind::Mamba2);
  n.set("num_heads", Node::integer(m.num_heads));
  n.set("head_dim", Node::integer(m.head_dim));
  n.set("state_size", Node::integer(m.state_size));
  n.set("num_groups", Node::integer(m.num_groups));
  n.set("conv_kernel", Node::integer(m.conv_kernel));
  n.set("chunk", Node::integer(m.chunk));
  n.set("conv_bias", Node::boolean(m.conv_bias));
  n.set("bias", Node::boolean(m.bias));
  return n;
}

Node document_of(const NoMixer&) { return map_of(MixerKind::None); }

}  // namespace

TokenMixer read_token_mixer(MapReader r, std::int64_t hidden_size) {
  TokenMixer mixer;
  switch (r.choice_or<MixerKind>("kind", MixerKind::Heads, kMixerNames)) {
    case MixerKind::Heads: mixer = read_heads(r, hidden_size); break;
    case MixerKind::Latent: mixer = read_latent(r); break;
    case MixerKind::Compressed: mixer = read_compressed(r); break;
    case MixerKind::DeltaNet: mixer = read_delta_net(r); break;
    case MixerKind::Mamba2: mixer = read_mamba2(r); break;
    case MixerKind::None: mixer = NoMixer{}; break;
  }
  r.finish();
  return mixer;
}

Node token_mixer_document(const TokenMixer& mixer) {
  return std::visit([](const auto& m) { return document_of(m); }, mixer);
}

std::string_view mixer_word(const TokenMixer& mixer) {
  if (std::holds_alternative<GatedDeltaNet>(mixer)) return "delta_net";
  if (std::holds_alternative<Mamba2>(mixer)) return "mamba2";
  return std::holds_alternative<NoMixer>(mixer) ? "none" : "attention";
}

}  // namespace moeplan
