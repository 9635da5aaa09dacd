#include "profiler/scores/operator_prediction.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/reader.hpp"
#include "profiler/scores/held_out.hpp"

namespace moeplan::profiler {

namespace {

Prediction no_figures(const OperatorRow& row) {
  return refused(fmt::format("configs/operators/{}.yaml has no {} figures in {} of {}", row.gpu,
                             row.phase == "forward" ? row.kind : row.kind + " " + row.phase, row.format,
                             in_quotes(row.source)));
}

/// How the source of a row of kind grouped_gemm begins whose products are single ones on several streams.
constexpr std::string_view kSeparate = "separate products";

/// How the source of a row begins whose products read operands in their format: quantising them is not in its time.
constexpr std::string_view kQuantised = "quantised operands";

/// Whether the row was measured as a training step runs: the model of training answers it.
bool is_training(const OperatorRow& row, const OperatorModels& models) {
  return models.training && row.source.find(models.training->library) != std::string::npos;
}

/// Whether the row is one of the few weight gradients, all of them, that gave the model its factor `wgrad`.
template <class Model>
bool restates_wgrad(const Model& model, GemmPhase phase) {
  return phase == GemmPhase::Wgrad && model.wgrad != 1;
}
/// The same, or of those that gave it `accumulate`.
bool restates_wgrad(const GemmModel& model, GemmPhase phase) {
  return phase == GemmPhase::Wgrad && (model.wgrad != 1 || model.accumulate);
}

Prediction gemm_prediction(const OperatorRow& row, MathFormat format, const OperatorModels& models) {
  const auto phase = named<GemmPhase>(kGemmPhaseNames, row.phase);
  const bool trains = is_training(row, models);
  const GemmModel* model = find_gemm_model(models, format, row.source);
  if (!model && trains) model = find_gemm_model(models, format, "");
  if (!model || !phase) return no_figures(row);
  if (std::min({row.m, row.n, row.k}) == 0) return refused("m, n and k are needed");
  const GemmShape shape = gemm_shape(row);
  const GemmCost cost = trains ? *training_gemm_cost(models, format, shape, {.phase = *phase, .quantises = false})
                               : gemm_cost(*model, models.num_sms, shape,
                                           {.phase = *phase, .quantises = !row.source.starts_with(kQuantised)});
  const bool restates_fp8 = trains && format == MathFormat::Fp8 && models.training->gemm.fp8;
  return {.time = cost.time(),
          .reason = "",
          .library = trains ? models.training->library : model->library,
          .is_fitted = restates_wgrad(*model, *phase) || restates_fp8 || !is_held_out(shape)};
}

Prediction grouped_prediction(const OperatorRow& row, MathFormat format, const OperatorModels& models) {
  const auto phase = named<GemmPhase>(kGemmPhaseNames, row.phase);
  if (!phase) return no_figures(row);
  const std::vector<GemmShape> products = grouped_shapes(row);
  if (products.empty() || row.n == 0 || (*phase == GemmPhase::Wgrad ? row.m : row.k) == 0) {
    return refused("groups, rows, n and k (of weight gradients: m) are needed");
  }
  if (const GroupedGemmModel* model = find_grouped_gemm_model(models, format, row.source)) {
    return {.time = grouped_gemm_cost(*model, models.num_sms, products, {.phase = *phase}).time(),
            .reason = "",
            .library = model->library,
            .is_fitted = model->fits_all || restates_wgrad(*model, *phase) || !is_held_out(row)};
  }
  if (row.source.starts_with(kSeparate)) {
    if (const GemmModel* model = find_gemm_model(models, format, row.source)) {
      return {.time = separate_products_cost(*model, models.num_sms, products, {.phase = *phase}).time(),
              .reason = "",
              .library = model->library,
              .is_fitted = restates_wgrad(*model, *phase)};
    }
  }
  const auto separate = is_training(row, models) ? training_grouped_gemm_cost(models, format, products,
                                                                              {.phase = *phase, .quantises = false})
                                                 : std::nullopt;
  if (!separate) return no_figures(row);
  return {.time = separate->time(), .reason = "", .library = models.training->library, .is_fitted = true};
}

Prediction attention_prediction(const OperatorRow& row, MathFormat format, const OperatorModels& models) {
  const AttentionShape shape = attention_shape(row);
  const AttentionModel* model = find_attention_model(models, format, shape.is_backward, row.source);
  const bool trains = !model && format == MathFormat::Bf16 && is_training(row, models);
  if (trains) model = training_attention_model(models, shape.is_backward);
  if (!model || (row.phase != "forward" && row.phase != "backward")) return no_figures(row);
  if (std::min({shape.batch, shape.sequence_length, shape.query_heads, shape.kv_heads, shape.head_dim}) == 0) {
    return refused("batch, sequence_length, query_heads, kv_heads and head_dim are needed");
  }
  return {.time = trains ? training_attention_cost(models, shape)->time()
                         : attention_call_time(*model, models.num_sms, shape),
          .reason = "",
          .library = trains ? models.training->library : model->library,
          .is_fitted = model->fits_all || !is_held_out(shape)};
}

Prediction layer_prediction(const OperatorRow& row, MathFormat format, const OperatorModels& models) {
  const FusedMoeModel* model = find_fused_moe_model(models, format, row.source);
  if (!model || row.phase != "forward") return no_figures(row);
  const FusedMoeShape shape = layer_shape(row);
  if (std::min({shape.hidden, shape.expert_hidden, shape.experts, shape.top_k, shape.ep, shape.tp, shape.tokens}) ==
      0) {
    return refused("hidden, expert_hidden, experts, top_k, ep, tp and tokens are needed");
  }
  const auto loads = expert_loads(row);
  if (!loads)
    return refused("loads is no list of rows, nor \"balanced\" or \"random\", or experts are fewer than top_k");
  return {.time = fused_moe_cost(*model, products_of(models, *model), models.num_sms, shape, *loads).time(),
          .reason = "",
          .library = model->library,
          .is_fitted = model->fits_all || !is_held_out(row)};
}

Prediction kernel_prediction(const OperatorRow& row, const OperatorModels& models) {
  const auto [kernel, implementation] = kernel_name(row);
  const KernelModel* model =
      implementation.empty() ? nullptr : find_kernel_model(models, kernel, implementation, row.phase == "backward");
  if (!model || (row.phase != "forward" && row.phase != "backward")) return no_figures(row);
  const double elements = kernel_elements(row);
  if (elements <= 0) return refused("m and n, or batch, sequence_length, heads and head_dim are needed");
  return {.time = kernel_cost(*model, elements).time(),
          .reason = "",
          .library = fmt::format("{}:{}", kernel, implementation),
          .is_fitted = model->fits_all || !is_held_out(row)};
}

}  // namespace

Prediction prediction_of(const OperatorRow& row, const OperatorModels& models) {
  if (row.kind == "kernel") return kernel_prediction(row, models);
  const auto format = named<MathFormat>(kMathFormatNames, row.format);
  if (!format) return refused(fmt::format("{} is no format of products", in_quotes(row.format)));
  if (row.kind == "gemm") return gemm_prediction(row, *format, models);
  if (row.kind == "grouped_gemm") return grouped_prediction(row, *format, models);
  if (row.kind == "attention") return attention_prediction(row, *format, models);
  if (row.kind == "fused_moe") return layer_prediction(row, *format, models);
  return refused(fmt::format("{} is no kind of operator", in_quotes(row.kind)));
}

}  // namespace moeplan::profiler
