#include "model/operators/operator_models.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "model/text/origins.hpp"

namespace moeplan {

namespace {

/// The first model for which `is_asked` holds and whose library `source` names; any library without a source.
template <class Model, class Asked>
const Model* first_of(const std::vector<Model>& models, std::string_view source, Asked is_asked) {
  for (const Model& m : models) {
    const bool is_named = source.empty() || source.find(m.library) != std::string_view::npos;
    if (is_named && is_asked(m)) return &m;
  }
  return nullptr;
}

/// Reads the layers, whose products must be among the grouped ones.
void read_fused_moe_models(MapReader& file, OperatorModels& models) {
  for (const auto& [entry, path] : file.list_or_empty("fused_moe")) {
    MapReader map(*entry, path, file.diagnostics());
    const FusedMoeModel layer = read_fused_moe_model(map);
    std::vector<std::string> known;
    for (const GroupedGemmModel& g : models.grouped_gemm) {
      if (g.format == layer.format) known.push_back(g.library);
    }
    if (std::find(known.begin(), known.end(), layer.products) == known.end()) {
      map.complain("products", fmt::format("{} is no library of grouped_gemm in the same format{}",
                                           in_quotes(layer.products), suggestion(layer.products, known)));
    }
    models.fused_moe.push_back(layer);
  }
}

}  // namespace

OperatorModels read_operator_models(MapReader file) {
  Diagnostics& wrong = file.diagnostics();
  read_origins(file);
  OperatorModels models{.gpu = file.text("gpu"),
                        .num_sms = file.integer("num_sms", 1, 65536),
                        .gemm = {},
                        .attention = {},
                        .grouped_gemm = {},
                        .fused_moe = {},
                        .kernels = {},
                        .training = {},
                        .measured_on = {}};
  for (const auto& [entry, path] : file.list_or_empty("gemm")) {
    models.gemm.push_back(read_gemm_model({*entry, path, wrong}));
  }
  for (const auto& [entry, path] : file.list_or_empty("attention")) {
    models.attention.push_back(read_attention_model({*entry, path, wrong}));
  }
  for (const auto& [entry, path] : file.list_or_empty("grouped_gemm")) {
    models.grouped_gemm.push_back(read_grouped_gemm_model({*entry, path, wrong}));
  }
  read_fused_moe_models(file, models);
  for (const auto& [entry, path] : file.list_or_empty("kernels")) {
    models.kernels.push_back(read_kernel_model({*entry, path, wrong}));
  }
  if (file.has("measured_on")) {
    models.measured_on = read_reference_rates(file.map("measured_on"), models.num_sms);
  }
  if (file.has("training")) models.training = read_training_model(file.map("training"));
  check_origins(file);
  file.finish();
  return models;
}

OperatorModels read_operator_models(const Node& document) {
  Diagnostics wrong;
  const OperatorModels models = read_operator_models(MapReader(document, "", wrong));
  wrong.throw_if_any();
  return models;
}

void scale(OperatorModels& models, const RateFactors& factors) {
  for (GemmModel& m : models.gemm) scale(m, factors);
  for (GroupedGemmModel& m : models.grouped_gemm) scale(m, factors);
  for (AttentionModel& m : models.attention) scale(m, factors);
  for (FusedMoeModel& m : models.fused_moe) scale(m, factors);
  for (KernelModel& m : models.kernels) scale(m, factors);
}

const GemmModel* find_gemm_model(const OperatorModels& models, MathFormat format, std::string_view source) {
  return first_of(models.gemm, source, [&](const GemmModel& m) { return m.format == format; });
}

const GroupedGemmModel* find_grouped_gemm_model(const OperatorModels& models, MathFormat format,
                                                std::string_view source) {
  return first_of(models.grouped_gemm, source, [&](const GroupedGemmModel& m) { return m.format == format; });
}

const FusedMoeModel* find_fused_moe_model(const OperatorModels& models, MathFormat format, std::string_view source) {
  return first_of(models.fused_moe, source, [&](const FusedMoeModel& m) { return m.format == format; });
}

const GroupedGemmModel& products_of(const OperatorModels& models, const FusedMoeModel& layer) {
  const auto it = std::find_if(models.grouped_gemm.begin(), models.grouped_gemm.end(), [&](const GroupedGemmModel& g) {
    return g.format == layer.format && g.library == layer.products;
  });
  assert(it != models.grouped_gemm.end() && "the reader checks the products of a layer");
  return *it;
}

const KernelModel* find_kernel_model(const OperatorModels& models, std::string_view kernel,
                                     std::string_view implementation, bool is_backward) {
  const auto it = std::find_if(models.kernels.begin(), models.kernels.end(), [&](const KernelModel& m) {
    return m.kernel == kernel && (implementation.empty() || m.implementation == implementation) &&
           m.is_backward == is_backward;
  });
  return it == models.kernels.end() ? nullptr : &*it;
}

const AttentionModel* find_attention_model(const OperatorModels& models, MathFormat format, bool is_backward,
                                           std::string_view source) {
  return first_of(models.attention, source,
                  [&](const AttentionModel& m) { return m.format == format && m.is_backward == is_backward; });
}

const AttentionModel* training_attention_model(const OperatorModels& models, bool is_backward, MathFormat format) {
  if (!models.training) return nullptr;
  if (format != MathFormat::Bf16) {
    const AttentionModel* backward = find_attention_model(models, format, true, "");
    const auto* own = backward ? find_attention_model(models, format, is_backward, backward->library) : nullptr;
    if (own) return own;
  }
  const std::string& library = models.training->attention_of(is_backward).library;
  return library.empty() ? nullptr : find_attention_model(models, MathFormat::Bf16, is_backward, library);
}

std::optional<AttentionCost> training_attention_cost(const OperatorModels& models, const AttentionShape& shape,
                                                     MathFormat format) {
  const AttentionModel* model = training_attention_model(models, shape.is_backward, format);
  if (!model) return std::nullopt;
  return attention_cost(*model, models.num_sms, shape, models.training->attention_of(shape.is_backward).slowdown);
}

std::optional<GemmCost> training_gemm_cost(const OperatorModels& models, MathFormat format, const GemmShape& shape,
                                           GemmCall call) {
  const GemmModel* model = find_gemm_model(models, format, "");
  if (!model) return std::nullopt;
  if (models.training) call.slowdown *= models.training->gemm.of(call.phase, format);
  return gemm_cost(*model, models.num_sms, shape, call);
}

std::optional<GroupedGemmCost> training_grouped_gemm_cost(const OperatorModels& models, MathFormat format,
                                                          std::span<const GemmShape> products, GemmCall call,
                                                          std::int64_t sources) {
  const GemmModel* model = find_gemm_model(models, format, "");
  if (!model) return std::nullopt;
  if (models.training) {
    const auto empty = std::count_if(products.begin(), products.end(), is_empty);
    const bool is_alone = std::ssize(products) - empty == 1;  // beside no other expert's
    const TrainingModel& training = *models.training;
    call.slowdown *= (is_alone ? training.gemm : training.grouped_gemm).of(call.phase, format);
  }
  if (sources > 1 && call.phase != GemmPhase::Wgrad)
    return batched_products_cost(*model, models.num_sms, products, sources, call);
  return separate_products_cost(*model, models.num_sms, products, call);
}

}  // namespace moeplan
