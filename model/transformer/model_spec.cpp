#include "model/transformer/model_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "model/text/origins.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

namespace {

using L = ModelLimits;

constexpr std::array<std::pair<Norm, std::string_view>, 2> kNormNames{{{Norm::Rms, "rms"}, {Norm::Layer, "layer"}}};

enum class AttentionKind { Heads, Latent };
constexpr std::array<std::pair<AttentionKind, std::string_view>, 2> kAttentionNames{
    {{AttentionKind::Heads, "heads"}, {AttentionKind::Latent, "latent"}}};

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
  return a;
}

LatentAttention read_latent(MapReader& r) {
  LatentAttention a{};
  a.num_heads = r.integer("num_heads", 1, L::kHeads);
  a.q_lora_rank = r.integer_or("q_lora_rank", 0, 0, L::kHiddenSize);
  a.kv_lora_rank = r.integer("kv_lora_rank", 1, L::kHiddenSize);
  a.qk_nope_head_dim = r.integer("qk_nope_head_dim", 1, L::kHiddenSize);
  a.qk_rope_head_dim = r.integer("qk_rope_head_dim", 0, L::kHiddenSize);
  a.v_head_dim = r.integer("v_head_dim", 1, L::kHiddenSize);
  return a;
}

std::variant<HeadAttention, LatentAttention> read_attention(MapReader r, std::int64_t hidden_size) {
  const auto kind = r.choice_or<AttentionKind>("kind", AttentionKind::Heads, kAttentionNames);
  std::variant<HeadAttention, LatentAttention> attention;
  if (kind == AttentionKind::Heads) {
    attention = read_heads(r, hidden_size);
  } else {
    attention = read_latent(r);
  }
  r.finish();
  return attention;
}

Ffn read_ffn(MapReader r, std::int64_t least_size) {
  Ffn ffn{};
  ffn.hidden_size = r.integer("hidden_size", least_size, L::kHiddenSize);
  ffn.gated = r.boolean_or("gated", true);
  ffn.bias = r.boolean_or("bias", false);
  ffn.clamped = r.boolean_or("clamped", false);
  if (ffn.clamped && !ffn.gated) r.complain("clamped", "limits the halves of a gated projection, and this has none");
  r.finish();
  return ffn;
}

}  // namespace

void read_expert_groups(MapReader& r, Moe& moe, std::string_view groups_key, std::string_view groups_per_token_key) {
  moe.expert_groups = r.integer_or(groups_key, 1, 1, L::kExperts);
  moe.groups_per_token = r.integer_or(groups_per_token_key, moe.expert_groups, 1, L::kExperts);
  if (moe.num_experts % moe.expert_groups != 0) {
    r.complain(groups_key, fmt::format("{} groups do not divide the {} experts", moe.expert_groups, moe.num_experts));
    return;
  }
  if (moe.groups_per_token > moe.expert_groups) {
    r.complain(groups_per_token_key,
               fmt::format("{} is more than {}, which is {}", moe.groups_per_token, groups_key, moe.expert_groups));
    return;
  }
  const std::int64_t within = moe.groups_per_token * (moe.num_experts / moe.expert_groups);
  const bool limits = within < moe.num_experts;  // without a limit, top_k is checked against all experts
  if (limits && moe.top_k > within) {
    r.complain(groups_per_token_key, fmt::format("{} groups hold {} experts, and a token selects {}",
                                                 moe.groups_per_token, within, moe.top_k));
  }
}

namespace {

Moe read_moe(MapReader r) {
  Moe moe{};
  moe.num_experts = r.integer("num_experts", 1, L::kExperts);
  moe.top_k = r.integer("top_k", 1, L::kExperts);
  if (moe.top_k > moe.num_experts) {
    r.complain("top_k", fmt::format("{} is more than num_experts, which is {}", moe.top_k, moe.num_experts));
  }
  moe.expert = read_ffn(r.map("expert"), 1);
  moe.shared = r.has("shared") ? read_ffn(r.map("shared"), 0) : Ffn{0, moe.expert.gated, false};
  moe.shared_gate = r.boolean_or("shared_gate", false);
  if (moe.shared_gate && moe.shared.hidden_size == 0) {
    r.complain("shared_gate", "is the gate of a shared expert, and there is none");
  }
  moe.router_bias = r.boolean_or("router_bias", false);
  read_expert_groups(r, moe, "expert_groups", "groups_per_token");
  r.finish();
  return moe;
}

/// The named feed-forward parts of a file, and which of them its layers use.
class FfnTable {
 public:
  explicit FfnTable(MapReader ffns) : ffns_(std::move(ffns)) {
    for (const Entry& e : ffns_.node().entries) {
      MapReader part = ffns_.map(e.key);
      names_.push_back(e.key);
      used_.push_back(false);
      if (part.has("num_experts") || part.has("top_k") || part.has("expert")) {
        parts_.emplace_back(read_moe(std::move(part)));
      } else {
        parts_.emplace_back(read_ffn(std::move(part), 0));
      }
    }
  }

  std::variant<Ffn, Moe> named_by(MapReader& layer) {
    const std::string name = layer.text("ffn");
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it != names_.end()) {
      const auto i = static_cast<std::size_t>(it - names_.begin());
      used_[i] = true;
      return parts_[i];
    }
    if (layer.has("ffn")) {
      layer.complain("ffn", fmt::format("{} is no key of ffns{}", in_quotes(name), suggestion(name, names_)));
    }
    return Ffn{};
  }

  void report_unused() {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!used_[i]) ffns_.complain(names_[i], "no layer names it");
    }
  }

 private:
  MapReader ffns_;
  std::vector<std::string> names_;
  std::vector<std::variant<Ffn, Moe>> parts_;
  std::vector<bool> used_;
};

LayerSpec read_layer(MapReader& r, FfnTable& ffns) {
  return {.attention_window = r.integer_or("attention_window", 0, 0), .ffn = ffns.named_by(r)};
}

std::vector<RepeatedLayers> read_layers(MapReader& document, FfnTable& ffns) {
  std::vector<RepeatedLayers> runs;
  std::int64_t layers = 0;
  const auto list = document.list("layers");
  if (list.empty() && document.has("layers")) document.complain("layers", "expected at least one layer");
  for (const auto& [node, path] : list) {
    MapReader r(*node, path, document.diagnostics());
    RepeatedLayers run{.repeat = r.integer_or("repeat", 1, 1, L::kLayers), .pattern = {}};
    if (r.has("pattern")) {
      const auto pattern = r.list("pattern");
      if (pattern.empty()) r.complain("pattern", "expected at least one layer");
      layers += run.repeat * static_cast<std::int64_t>(std::min<std::size_t>(pattern.size(), L::kLayers + 1));
      if (layers > L::kLayers) break;
      for (const auto& [element, element_path] : pattern) {
        MapReader layer(*element, element_path, document.diagnostics());
        run.pattern.push_back(read_layer(layer, ffns));
        layer.finish();
      }
    } else {
      layers += run.repeat;
      if (layers > L::kLayers) break;
      run.pattern.push_back(read_layer(r, ffns));
    }
    r.finish();
    runs.push_back(std::move(run));
  }
  if (layers > L::kLayers) document.complain("layers", fmt::format("are more than {}", L::kLayers));
  return runs;
}

}  // namespace

ModelSpec read_model(const Node& document) {
  Diagnostics diagnostics;
  MapReader r(document, "", diagnostics);
  ModelSpec m{};
  m.name = r.text("name");
  m.vocab_size = r.integer("vocab_size", 1, L::kVocabSize);
  m.hidden_size = r.integer("hidden_size", 1, L::kHiddenSize);
  m.position_embeddings = r.integer_or("position_embeddings", 0, 0, L::kVocabSize);
  m.token_types = r.integer_or("token_types", 0, 0, L::kVocabSize);
  m.embedding_norm = r.boolean_or("embedding_norm", false);
  m.tied_embeddings = r.boolean_or("tied_embeddings", false);
  m.lm_head_bias = r.boolean_or("lm_head_bias", false);
  m.causal = r.boolean_or("causal", true);
  m.norm = r.choice_or<Norm>("norm", Norm::Rms, kNormNames);
  m.norms_per_layer = r.integer_or("norms_per_layer", 2, 0, L::kNormsPerLayer);
  m.final_norm = r.boolean_or("final_norm", true);
  m.num_mtp_layers = r.integer_or("num_mtp_layers", 0, 0, L::kMtpLayers);
  for (const auto& [id, path] : r.list_or_empty("hugging_face")) {
    if (id->kind != Node::Kind::Scalar) diagnostics.add(id->where, path, "expected an id such as ORGANISATION/MODEL");
  }
  m.attention = read_attention(r.map("attention"), m.hidden_size);
  FfnTable ffns(r.map("ffns"));
  m.layers = read_layers(r, ffns);
  if (diagnostics.empty()) ffns.report_unused();
  read_origins(r);
  r.finish();
  diagnostics.throw_if_any();
  if (const std::string error = size_error(m); !error.empty()) throw InputError({document.where, "", error});
  return m;
}

namespace {

Node attention_document(const HeadAttention& a) {
  Node n = Node::map();
  n.set("kind", Node::text("heads"));
  n.set("num_heads", Node::integer(a.num_heads));
  n.set("num_kv_heads", Node::integer(a.num_kv_heads));
  n.set("head_dim", Node::integer(a.head_dim));
  n.set("bias", Node::boolean(a.bias));
  n.set("output_bias", Node::boolean(a.output_bias));
  n.set("qk_norm", Node::boolean(a.qk_norm));
  n.set("qk_norm_whole", Node::boolean(a.qk_norm_whole));
  n.set("sinks", Node::boolean(a.sinks));
  return n;
}

Node attention_document(const LatentAttention& a) {
  Node n = Node::map();
  n.set("kind", Node::text("latent"));
  n.set("num_heads", Node::integer(a.num_heads));
  n.set("q_lora_rank", Node::integer(a.q_lora_rank));
  n.set("kv_lora_rank", Node::integer(a.kv_lora_rank));
  n.set("qk_nope_head_dim", Node::integer(a.qk_nope_head_dim));
  n.set("qk_rope_head_dim", Node::integer(a.qk_rope_head_dim));
  n.set("v_head_dim", Node::integer(a.v_head_dim));
  return n;
}

Node ffn_document(const Ffn& ffn) {
  Node n = Node::map();
  n.set("hidden_size", Node::integer(ffn.hidden_size));
  n.set("gated", Node::boolean(ffn.gated));
  n.set("bias", Node::boolean(ffn.bias));
  n.set("clamped", Node::boolean(ffn.clamped));
  return n;
}

Node ffn_document(const Moe& moe) {
  Node n = Node::map();
  n.set("num_experts", Node::integer(moe.num_experts));
  n.set("top_k", Node::integer(moe.top_k));
  n.set("expert", ffn_document(moe.expert));
  n.set("shared", ffn_document(moe.shared));
  n.set("shared_gate", Node::boolean(moe.shared_gate));
  n.set("router_bias", Node::boolean(moe.router_bias));
  n.set("expert_groups", Node::integer(moe.expert_groups));
  n.set("groups_per_token", Node::integer(moe.groups_per_token));
  return n;
}

/// The distinct feed-forward parts of a model: "dense", "dense_2", ..., "moe", "moe_2", ... in order of appearance.
class FfnNames {
 public:
  std::string name(const std::variant<Ffn, Moe>& ffn) {
    for (const auto& [known, name] : names_) {
      if (known == ffn) return name;
    }
    const bool is_moe = std::holds_alternative<Moe>(ffn);
    int& count = is_moe ? moes_ : denses_;
    ++count;
    std::string name = is_moe ? "moe" : "dense";
    if (count > 1) name += fmt::format("_{}", count);
    names_.emplace_back(ffn, name);
    document_.set(name, std::visit([](const auto& f) { return ffn_document(f); }, ffn));
    return name;
  }
  [[nodiscard]] const Node& document() const { return document_; }

 private:
  std::vector<std::pair<std::variant<Ffn, Moe>, std::string>> names_;
  Node document_ = Node::map();
  int moes_ = 0;
  int denses_ = 0;
};

}  // namespace

Node model_document(const ModelSpec& m) {
  Node n = Node::map();
  n.set("name", Node::text(m.name));
  n.set("vocab_size", Node::integer(m.vocab_size));
  n.set("hidden_size", Node::integer(m.hidden_size));
  n.set("position_embeddings", Node::integer(m.position_embeddings));
  n.set("token_types", Node::integer(m.token_types));
  n.set("embedding_norm", Node::boolean(m.embedding_norm));
  n.set("tied_embeddings", Node::boolean(m.tied_embeddings));
  n.set("lm_head_bias", Node::boolean(m.lm_head_bias));
  n.set("causal", Node::boolean(m.causal));
  n.set("norm", Node::text(std::string(name_of<Norm>(kNormNames, m.norm))));
  n.set("norms_per_layer", Node::integer(m.norms_per_layer));
  n.set("final_norm", Node::boolean(m.final_norm));
  n.set("num_mtp_layers", Node::integer(m.num_mtp_layers));
  n.set("attention", std::visit([](const auto& a) { return attention_document(a); }, m.attention));
  FfnNames names;
  Node layers = Node::list();
  for (const RepeatedLayers& run : m.layers) {
    Node pattern = Node::list();
    for (const LayerSpec& layer : run.pattern) {
      Node element = Node::map();
      element.set("ffn", Node::text(names.name(layer.ffn)));
      element.set("attention_window", Node::integer(layer.attention_window));
      pattern.items.push_back(std::move(element));
    }
    Node entry = Node::map();
    entry.set("repeat", Node::integer(run.repeat));
    entry.set("pattern", std::move(pattern));
    layers.items.push_back(std::move(entry));
  }
  n.set("layers", std::move(layers));
  n.set("ffns", names.document());
  return n;
}

}  // namespace moeplan
