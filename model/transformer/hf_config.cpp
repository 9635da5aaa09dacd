#include "model/transformer/hf_config.hpp"

#include <fmt/format.h>

#include <array>

#include "model/transformer/hf_families.hpp"

namespace moeplan {

namespace {

using hf::Family;

/// A known family that is not modelled, with the reason.
struct Refusal {
  std::string_view model_type;
  std::string_view reason;
};
constexpr std::string_view kStateSpace = "its state-space layers are not modelled";
constexpr std::string_view kLinear = "its linear-attention layers are not modelled";
constexpr std::string_view kDense = "it is a dense model, without experts";
constexpr std::array kRefusals{
    Refusal{"jamba", kStateSpace},
    Refusal{"granitemoehybrid", kStateSpace},
    Refusal{"minimax", kLinear},
    Refusal{"minimax_text_01", kLinear},
    Refusal{"kimi_linear", kLinear},
    Refusal{"lfm2_moe", "its convolution layers are not modelled"},
    Refusal{"longcat_flash", "its zero-computation experts and doubled layers are not modelled"},
    Refusal{"arctic", "its dense FFN parallel to the experts is not modelled"},
    Refusal{"hunyuan", "attention shared across layers is not modelled"},
    Refusal{"switch_transformers", "encoder-decoder models are not modelled"},
    Refusal{"nllb-moe", "encoder-decoder models are not modelled"},
    Refusal{"ernie4_5_vl_moe", "its two sets of experts, for text and for images, are not modelled"},
    Refusal{"llama", kDense},
    Refusal{"mistral", kDense},
    Refusal{"qwen2", kDense},
    Refusal{"qwen3", kDense},
    Refusal{"gemma2", kDense},
    Refusal{"gemma3", kDense},
    Refusal{"phi3", kDense},
    Refusal{"gpt2", kDense},
    Refusal{"bert", kDense}};

std::string scalar_of(const Node& map, std::string_view key) {
  const Node* value = map.find(key);
  return value && value->kind == Node::Kind::Scalar ? value->scalar : "";
}

/// The first of `architectures`, or "".
std::string architecture_of(const Node& map) {
  const Node* list = map.find("architectures");
  if (!list || list->kind != Node::Kind::List || list->items.empty()) return "";
  return list->items.front().scalar;
}

const Family* family_named(std::string_view model_type, std::string_view architecture) {
  for (const Family& f : hf::families()) {
    const bool same_architecture = !architecture.empty() && f.architecture == architecture;
    if (!model_type.empty() ? f.model_type == model_type : same_architecture) return &f;
  }
  return nullptr;
}

/// MiniMax-M2's first public files say "minimax", which is also the type of MiniMax-Text-01.
std::string model_type_of(const Node& map) {
  const std::string type = scalar_of(map, "model_type");
  return type == "minimax" && architecture_of(map) == "MiniMaxM2ForCausalLM" ? "minimax_m2" : type;
}

[[noreturn]] void refuse(const Node& document, const std::string& model_type) {
  const Node* written = document.find("model_type");
  const Location where = written ? written->where : document.where;
  for (const Refusal& r : kRefusals) {
    if (r.model_type == model_type) {
      throw InputError({where, "model_type", fmt::format("{} is not supported: {}", in_quotes(model_type), r.reason)});
    }
  }
  std::vector<std::string> known;
  for (const Family& f : hf::families()) known.emplace_back(f.model_type);
  const std::string nearest = nearest_name(model_type, known);
  throw InputError(
      {where, "model_type",
       fmt::format("{} is not known{}; known are {}",
                   model_type.empty() ? "the family of the model" : in_quotes(model_type),
                   nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest), fmt::join(known, ", "))});
}

}  // namespace

bool is_hf_config(const Node& document) {
  return document.kind == Node::Kind::Map && (document.find("model_type") || document.find("architectures"));
}

namespace {

/// `approximations`: null where unknown families are refused.
ModelSpec read_hf_config(const Node& document, const std::string& name, std::vector<std::string>* approximations) {
  if (document.kind != Node::Kind::Map) throw InputError({document.where, "", "expected a map of keys"});
  // For a multimodal model, the language model in text_config is planned.
  const Node* text = document.find("text_config");
  const bool nested = text && text->kind == Node::Kind::Map && !text->entries.empty();
  const std::string outer_type = model_type_of(document);
  const Family* family = family_named(outer_type, architecture_of(document));
  Node config = document;
  std::string path;
  if (!family && nested) {
    path = "text_config";
    config = *text;
    const std::string inner_type = model_type_of(config);
    family = family_named(inner_type, architecture_of(config));
    // A text_config without its own type: llama4 -> llama4_text.
    if (!family && inner_type.empty()) family = family_named(outer_type + "_text", "");
    if (!family && !approximations) refuse(document, inner_type.empty() ? outer_type : inner_type);
    if (const Node* tied = document.find("tie_word_embeddings"); tied && !config.find("tie_word_embeddings")) {
      config.set("tie_word_embeddings", *tied);
    }
  }
  if (!family && !approximations) refuse(document, outer_type);
  Diagnostics diagnostics;
  MapReader reader(config, path, diagnostics);
  if (!family) {
    approximations->push_back(
        fmt::format("the family {} is unknown or not modelled: its model is assumed from its keys",
                    in_quotes(path.empty() ? outer_type : model_type_of(config))));
  }
  ModelSpec model = family ? family->read(reader) : hf::approximate(reader, *approximations);
  reader.report_misspelt();
  diagnostics.throw_if_any();
  model.name = name;
  if (const std::string error = size_error(model); !error.empty()) throw InputError({document.where, "", error});
  return model;
}

}  // namespace

ModelSpec model_from_hf_config(const Node& document, const std::string& name) {
  return read_hf_config(document, name, nullptr);
}

ModelSpec approximate_hf_config(const Node& document, const std::string& name,
                                std::vector<std::string>& approximations) {
  return read_hf_config(document, name, &approximations);
}

}  // namespace moeplan
