// Fits the numbers of a GemmModel to measured products.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

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

}  // namespace moeplan::profiler
