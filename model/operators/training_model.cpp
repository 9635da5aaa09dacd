#include "model/operators/training_model.hpp"

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

GroupedGemmCost separate_products_cost(const GemmModel& model, std::int64_t num_sms,
                                       std::span<const GemmShape> products, const GemmCall& call) {
  GroupedGemmCost sum{};
  GemmShape last{};
  GemmCost one{};
  for (const GemmShape& shape : products) {
    if (shape.m == 0 || shape.n == 0 || shape.k == 0) continue;
    if (!(shape == last)) one = gemm_cost(model, num_sms, shape, call);
    last = shape;
    sum.launch = one.launch;
    sum.math += one.math;
    sum.memory += one.memory + one.quantisation;
    sum.overlapped += one.overlapped + one.extra + one.quantisation;
    sum.tile_rows = one.tile_rows;
    sum.tile_columns = one.tile_columns;
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
