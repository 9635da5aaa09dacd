#include "model/operators/training_model.hpp"

#include <map>

namespace moeplan {

namespace {

constexpr double kLeast = 0.1, kMost = 10;  // factors

PhaseFactors phase_factors(MapReader map) {
  PhaseFactors factors{.forward = map.number("forward", kLeast, kMost),
                       .dgrad = map.number("dgrad", kLeast, kMost),
                       .wgrad = map.number("wgrad", kLeast, kMost),
                       .fp8 = {}};
  if (map.has("fp8")) factors.fp8 = map.number("fp8", kLeast, kMost);
  map.finish();
  return factors;
}

TrainingAttention training_attention(MapReader& training, std::string_view key) {
  if (!training.has(key)) return {};
  MapReader map = training.map(key);
  TrainingAttention attention{.library = map.text("library"), .slowdown = map.number_or("slowdown", 1, kLeast, kMost)};
  map.finish();
  return attention;
}

}  // namespace

namespace {

void add(const GemmCost& one, GroupedGemmCost& sum) {
  sum.launch = one.launch;
  sum.math += one.math;
  sum.memory += one.memory + one.quantisation;
  sum.overlapped += one.overlapped + one.extra + one.quantisation;
  sum.tile_rows = one.tile_rows;
  sum.tile_columns = one.tile_columns;
}

}  // namespace

GroupedGemmCost separate_products_cost(const GemmModel& model, std::int64_t num_sms,
                                       std::span<const GemmShape> products, const GemmCall& call) {
  GroupedGemmCost sum{};
  GemmShape last{};
  GemmCost one{};
  for (const GemmShape& shape : products) {
    if (is_empty(shape)) continue;
    if (!(shape == last)) one = gemm_cost(model, num_sms, shape, call);
    last = shape;
    add(one, sum);
  }
  return sum;
}

GroupedGemmCost batched_products_cost(const GemmModel& model, std::int64_t num_sms, std::span<const GemmShape> products,
                                      std::int64_t sources, const GemmCall& call) {
  GroupedGemmCost sum{};
  for (; !products.empty(); products = products.subspan(static_cast<std::size_t>(sources))) {
    const auto of_expert = products.first(static_cast<std::size_t>(sources));
    std::map<std::int64_t, std::int64_t> batches;  // by rows
    for (const GemmShape& shape : of_expert) ++batches[shape.m];
    for (const auto& [rows, batch] : batches) {
      const GemmShape shape{rows, of_expert.front().n, of_expert.front().k};
      if (!is_empty(shape)) add(batched_gemm_cost(model, num_sms, shape, batch, call), sum);
    }
  }
  return sum;
}

TrainingModel read_training_model(MapReader map) {
  TrainingModel m{.library = map.text("library"),
                  .gemm = phase_factors(map.map("gemm")),
                  .grouped_gemm = phase_factors(map.map("grouped_gemm")),
                  .attention = training_attention(map, "attention"),
                  .attention_backward = training_attention(map, "attention_backward")};
  map.finish();
  return m;
}

}  // namespace moeplan
