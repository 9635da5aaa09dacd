#include "model/transformer/model_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "model/text/origins.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

namespace {

using L = ModelLimits;

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

void read_expert_groups(MapReader& r, Moe& moe, std::string_view experts_key, std::string_view groups_key,
                        std::string_view groups_per_token_key) {
  moe.expert_groups = r.integer_or(groups_key, 1, 1, L::kExperts);
  moe.groups_per_token = r.integer_or(groups_per_token_key, moe.expert_groups, 1, L::kExperts);
  if (!r.is_sound(experts_key) || !r.is_sound(groups_key)) return;
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
  if (r.is_sound("num_experts") && moe.top_k > moe.num_experts) {
    r.complain("top_k", fmt::format("{} is more than num_experts, which is {}", moe.top_k, moe.num_experts));
  }
  moe.expert = read_ffn(r.map("expert"), 1);
  moe.shared = r.has("shared") ? read_ffn(r.map("shared"), 0) : Ffn{0, moe.expert.gated, false};
  moe.shared_gate = r.boolean_or("shared_gate", false);
  if (moe.shared_gate && moe.shared.hidden_size == 0) {
    r.complain("shared_gate", "is the gate of a shared expert, and there is none");
  }
  moe.router_bias = r.boolean_or("router_bias", false);
  read_expert_groups(r, moe, "num_experts", "expert_groups", "groups_per_token");
  moe.latent_size = r.integer_or("latent_size", 0, 0, L::kHiddenSize);
  r.finish();
  return moe;
}

/// The named parts of a file, feed-forward parts or token mixers, and which of them its layers use.
template <class Part>
class PartTable {
 public:
  /// `read` turns the map of a part into it.
  template <class Read>
  PartTable(std::string key, MapReader parts, Read read) : key_(std::move(key)), map_(std::move(parts)) {
    for (const Entry& e : map_.node().entries) {
      names_.push_back(e.key);
      used_.push_back(false);
      parts_.emplace_back(read(map_.map(e.key)));
    }
  }

  /// The part that `layer` names under this key, required; an empty part where that is an error.
  Part named_by(MapReader& layer, std::string_view key) {
    const std::string name = layer.text(key);
    const auto it = std::find(names_.begin(), names_.end(), name);
    if (it != names_.end()) {
      const auto i = static_cast<std::size_t>(it - names_.begin());
      used_[i] = true;
      return parts_[i];
    }
    if (layer.has(key)) {
      layer.complain(key, fmt::format("{} is no key of {}{}", in_quotes(name), key_, suggestion(name, names_)));
    }
    return Part{};
  }

  void report_unused() {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (!used_[i]) map_.complain(names_[i], "no layer names it");
    }
  }

 private:
  std::string key_;
  MapReader map_;
  std::vector<std::string> names_;
  std::vector<Part> parts_;
  std::vector<bool> used_;
};

std::variant<Ffn, Moe> read_ffn_or_moe(MapReader part) {
  if (part.has("num_experts") || part.has("top_k") || part.has("expert")) return read_moe(std::move(part));
  return read_ffn(std::move(part), 0);
}

/// The parts that layers name.
struct LayerParts {
  PartTable<std::variant<Ffn, Moe>> ffns;
  PartTable<TokenMixer> mixers;
  const TokenMixer& attention;  // of layers that name no mixer
};

LayerSpec read_layer(MapReader& r, LayerParts& parts) {
  LayerSpec layer{.attention_window = r.integer_or("attention_window", 0, 0), .ffn = parts.ffns.named_by(r, "ffn")};
  if (r.has("mixer")) layer.mixer = parts.mixers.named_by(r, "mixer");
  if (!layer.mixer && std::holds_alternative<NoMixer>(parts.attention)) layer.mixer = NoMixer{};
  const std::string_view word = mixer_word(layer.mixer ? *layer.mixer : parts.attention);
  if (layer.attention_window > 0 && word != "attention") {
    r.complain("attention_window", fmt::format("is of attention, and the layer's mixer is {}", word));
  }
  return layer;
}

std::vector<RepeatedLayers> read_layers(MapReader& document, LayerParts& parts) {
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
        run.pattern.push_back(read_layer(layer, parts));
        layer.finish();
      }
    } else {
      layers += run.repeat;
      if (layers > L::kLayers) break;
      run.pattern.push_back(read_layer(r, parts));
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
  for (const auto& [text, path] : r.list_or_empty("approximations")) {
    if (text->kind != Node::Kind::Scalar) diagnostics.add(text->where, path, "expected a sentence");
  }
  m.residual_streams = r.integer_or("residual_streams", 1, 1, L::kResidualStreams);
  m.attention = read_token_mixer(r.map("attention"), m.hidden_size);
  const auto read_mixer = [&](MapReader mixer) { return read_token_mixer(std::move(mixer), m.hidden_size); };
  const Node no_mixers = Node::map();
  LayerParts parts{
      {"ffns", r.map("ffns"), read_ffn_or_moe},
      {"mixers", r.has("mixers") ? r.map("mixers") : MapReader(no_mixers, "mixers", diagnostics), read_mixer},
      m.attention};
  m.layers = read_layers(r, parts);
  if (r.has("mtp_layer")) {
    MapReader layer = r.map("mtp_layer");
    m.mtp_layer = read_layer(layer, parts);
    layer.finish();
  }
  if (diagnostics.empty()) {
    parts.ffns.report_unused();
    parts.mixers.report_unused();
  }
  read_origins(r);
  r.finish();
  diagnostics.throw_if_any();
  if (const std::string error = size_error(m); !error.empty()) throw InputError({document.where, "", error});
  return m;
}

namespace {

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
  if (moe.latent_size > 0) n.set("latent_size", Node::integer(moe.latent_size));
  return n;
}

/// The distinct parts of a model, named by a word each: "moe", "moe_2", ... in order of appearance.
template <class Part>
class PartNames {
 public:
  template <class Write>
  std::string name(const Part& part, std::string_view word, Write write) {
    for (const auto& [known, name] : names_) {
      if (known == part) return name;
    }
    const int count = ++count_[std::string(word)];
    std::string name(word);
    if (count > 1) name += fmt::format("_{}", count);
    names_.emplace_back(part, name);
    document_.set(name, write(part));
    return name;
  }
  [[nodiscard]] const Node& document() const { return document_; }
  [[nodiscard]] bool empty() const { return names_.empty(); }

 private:
  std::vector<std::pair<Part, std::string>> names_;
  Node document_ = Node::map();
  std::map<std::string, int> count_;
};

/// The documents of layers, and those of the parts that they name.
struct LayerDocuments {
  PartNames<std::variant<Ffn, Moe>> ffns;
  PartNames<TokenMixer> mixers;

  Node document(const LayerSpec& layer) {
    Node n = Node::map();
    const bool is_moe = std::holds_alternative<Moe>(layer.ffn);
    n.set("ffn", Node::text(ffns.name(layer.ffn, is_moe ? "moe" : "dense", [](const std::variant<Ffn, Moe>& part) {
            return std::visit([](const auto& f) { return ffn_document(f); }, part);
          })));
    n.set("attention_window", Node::integer(layer.attention_window));
    if (layer.mixer)
      n.set("mixer", Node::text(mixers.name(*layer.mixer, mixer_word(*layer.mixer), token_mixer_document)));
    return n;
  }
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
  if (m.residual_streams > 1) n.set("residual_streams", Node::integer(m.residual_streams));
  n.set("attention", token_mixer_document(m.attention));
  LayerDocuments parts;
  Node layers = Node::list();
  for (const RepeatedLayers& run : m.layers) {
    Node pattern = Node::list();
    for (const LayerSpec& layer : run.pattern) pattern.items.push_back(parts.document(layer));
    Node entry = Node::map();
    entry.set("repeat", Node::integer(run.repeat));
    entry.set("pattern", std::move(pattern));
    layers.items.push_back(std::move(entry));
  }
  n.set("layers", std::move(layers));
  if (m.mtp_layer) n.set("mtp_layer", parts.document(*m.mtp_layer));
  n.set("ffns", parts.ffns.document());
  if (!parts.mixers.empty()) n.set("mixers", parts.mixers.document());
  return n;
}

}  // namespace moeplan
