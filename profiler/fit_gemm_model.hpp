// Fits the numbers of a GemmModel to measured products.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "model/operators/attention_model.hpp"
#include "model/operators/gemm_model.hpp"

namespace moeplan::profiler {

struct MeasuredProduct {
  GemmShape shape;
  Seconds time;
};

/// The model with the least mean |ln(predicted / measured)|, found by a pattern search over the logarithms of the
/// numbers, one after the other, from the numbers of `start`. Numbers that are 0 in `start` stay 0. Products below 1e8
/// FLOPs count 0.15, since what they measure is the launch. Deterministic.
[[nodiscard]] GemmModel fit_gemm_model(const GemmModel& start, std::int64_t num_sms,
                                       std::span<const MeasuredProduct> products);

/// Whether measurements of a shape are held out of the fit, to be judged: one third of the shapes, by their hash.
[[nodiscard]] bool is_held_out(const GemmShape& shape);
[[nodiscard]] bool is_held_out(const AttentionShape& shape);

}  // namespace moeplan::profiler
