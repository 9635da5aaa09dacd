#include "planner/runs/run_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>

#include "planner/plan/inputs.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::runs {

namespace {

std::vector<LayerSpec> layers_of(const ModelSpec& model) {
  std::vector<LayerSpec> out;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) out.insert(out.end(), run.pattern.begin(), run.pattern.end());
  }
  return out;
}

std::vector<RepeatedLayers> folded(const std::vector<LayerSpec>& layers) {
  std::vector<RepeatedLayers> out;
  for (const LayerSpec& layer : layers) {
    if (!out.empty() && out.back().pattern.front() == layer) {
      ++out.back().repeat;
    } else {
      out.push_back({1, {layer}});
    }
  }
  return out;
}

[[noreturn]] void fail(const std::string& field, std::string message) {
  throw InputError({{}, "model_overrides", field + ": " + std::move(message)});
}

void keep_layers(ModelSpec& model, std::int64_t count) {
  std::vector<LayerSpec> layers = layers_of(model);
  if (count < 1 || count > ModelLimits::kLayers) fail("num_hidden_layers", fmt::format("{} is out of range", count));
  layers.resize(static_cast<std::size_t>(count), layers.back());
  model.layers = folded(layers);
}

/// The first `count` layers get the model's dense FFN, the others its MoE FFN.
void replace_first(ModelSpec& model, std::int64_t count) {
  std::vector<LayerSpec> layers = layers_of(model);
  const auto is_moe = [](const LayerSpec& l) { return std::holds_alternative<Moe>(l.ffn); };
  const auto moe = std::find_if(layers.begin(), layers.end(), is_moe);
  const auto dense = std::find_if_not(layers.begin(), layers.end(), is_moe);
  if (moe == layers.end() || (count > 0 && dense == layers.end()))
    fail("first_k_dense_replace", "the model has no layers of both kinds");
  const std::variant<Ffn, Moe> moe_ffn = moe->ffn, first = count > 0 ? dense->ffn : moe->ffn;
  for (std::size_t i = 0; i < layers.size(); ++i)
    layers[i].ffn = static_cast<std::int64_t>(i) < count ? first : moe_ffn;
  model.layers = folded(layers);
}

void for_each_moe(ModelSpec& model, const std::function<void(Moe&)>& change) {
  for (RepeatedLayers& run : model.layers) {
    for (LayerSpec& layer : run.pattern) {
      if (Moe* moe = std::get_if<Moe>(&layer.ffn)) change(*moe);
    }
  }
}

struct Field {
  std::string name;
  std::function<void(ModelSpec&, std::int64_t)> set;
};

/// In the order of application: the kinds of layers are known before their number is cut.
std::vector<Field> known_fields() {
  const auto experts = [](ModelSpec& m, std::int64_t v) { for_each_moe(m, [&](Moe& moe) { moe.num_experts = v; }); };
  return {
      {"first_k_dense_replace", replace_first},
      {"num_hidden_layers", keep_layers},
      {"num_nextn_predict_layers", [](ModelSpec& m, std::int64_t v) { m.num_mtp_layers = v; }},
      {"vocab_size", [](ModelSpec& m, std::int64_t v) { m.vocab_size = v; }},
      {"n_routed_experts", experts},
      {"num_experts", experts},
      {"num_local_experts", experts},
      {"num_experts_per_tok", [](ModelSpec& m, std::int64_t v) { for_each_moe(m, [&](Moe& moe) { moe.top_k = v; }); }},
      {"moe_intermediate_size",
       [](ModelSpec& m, std::int64_t v) { for_each_moe(m, [&](Moe& moe) { moe.expert.hidden_size = v; }); }}};
}

}  // namespace

ModelSpec named_model(const std::string& name, const std::map<std::string, std::string>& by_id) {
  if (const auto shipped = by_id.find(name); shipped != by_id.end())
    return read_model(planner::load_model_document(planner::find_config("models", shipped->second)));
  std::error_code ignored;
  if (name.find('/') == std::string::npos || std::filesystem::exists(name, ignored))
    return read_model(planner::load_model_document(planner::find_config("models", name)));
  std::vector<std::string> known;
  for (const auto& [id, file] : by_id) known.push_back(id);
  const std::string nearest = nearest_name(name, known);
  throw InputError({{},
                    "model",
                    fmt::format("{} is no file and no Hugging Face id of configs/models{}", in_quotes(name),
                                nearest.empty() ? "" : fmt::format("; did you mean {}?", in_quotes(nearest)))});
}

ModelSpec with_overrides(ModelSpec model, const std::string& overrides) {
  const std::vector<Field> fields = known_fields();
  std::map<std::string, std::int64_t> values;
  for (const std::string_view part : profiler::split(overrides, ';')) {
    const std::string_view text = profiler::trimmed(part);
    if (text.empty()) continue;
    const std::size_t equals = text.find('=');
    const std::string name(text.substr(0, equals));
    const auto value =
        equals == std::string_view::npos ? std::nullopt : profiler::whole_number(text.substr(equals + 1));
    if (std::none_of(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; })) {
      std::vector<std::string> names;
      for (const Field& f : fields) names.push_back(f.name);
      fail(in_quotes(name), "is no field that can be changed" + suggestion(name, names));
    }
    if (!value) fail(in_quotes(text), "expected FIELD=NUMBER");
    values[name] = *value;
  }
  for (const Field& field : fields) {
    if (const auto it = values.find(field.name); it != values.end()) field.set(model, it->second);
  }
  return read_model(model_document(model));  // checks the numbers
}

ModelSpec recognised(const ModelSpec& model) {
  for (const std::string& name : planner::config_names("models")) {
    const ModelSpec shipped = read_model(planner::load_model_document(planner::find_config("models", name)));
    ModelSpec same = model;
    same.name = shipped.name;
    same.layers = folded(layers_of(model)) == folded(layers_of(shipped)) ? shipped.layers : model.layers;
    if (model.num_mtp_layers == 0) same.num_mtp_layers = shipped.num_mtp_layers;
    if (same == shipped) return shipped;
  }
  return model;
}

}  // namespace moeplan::runs
