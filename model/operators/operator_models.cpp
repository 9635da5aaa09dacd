#include "model/operators/operator_models.hpp"

#include "model/text/origins.hpp"

namespace moeplan {

namespace {

/// The first model for which `is_asked` holds and whose library `source` names.
template <class Model, class Asked>
const Model* first_of(const std::vector<Model>& models, std::string_view source, Asked is_asked) {
  for (const Model& m : models) {
    if (is_asked(m) && source.find(m.library) != std::string_view::npos) return &m;
  }
  return nullptr;
}

}  // namespace

OperatorModels read_operator_models(const Node& document) {
  Diagnostics wrong;
  MapReader file(document, "", wrong);
  read_origins(file);
  OperatorModels models{
      .gpu = file.text("gpu"), .num_sms = file.integer("num_sms", 1, 65536), .gemm = {}, .attention = {}};
  for (const auto& [entry, path] : file.list_or_empty("gemm")) {
    models.gemm.push_back(read_gemm_model({*entry, path, wrong}));
  }
  for (const auto& [entry, path] : file.list_or_empty("attention")) {
    models.attention.push_back(read_attention_model({*entry, path, wrong}));
  }
  check_origins(file);
  file.finish();
  wrong.throw_if_any();
  return models;
}

const GemmModel* find_gemm_model(const OperatorModels& models, MathFormat format, std::string_view source) {
  return first_of(models.gemm, source, [&](const GemmModel& m) { return m.format == format; });
}

const AttentionModel* find_attention_model(const OperatorModels& models, MathFormat format, bool is_backward,
                                           std::string_view source) {
  return first_of(models.attention, source,
                  [&](const AttentionModel& m) { return m.format == format && m.is_backward == is_backward; });
}

}  // namespace moeplan
