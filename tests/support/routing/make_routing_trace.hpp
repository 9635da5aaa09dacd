// Synthetic routing traces, in which the popularity of experts changes from iteration to iteration.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "model/workload/routing_trace.hpp"

namespace moeplan::tests {

/// How popularities change over time. MODELS section 11; rotating and burst follow W6 and W7 of Megatron-LM PR 7488.
enum class RoutingMotion {
  Steady,    // constant popularities
  Rotating,  // every `period` iterations each expert takes over the popularity of the expert `step` before it
  Burst,     // in the last `burst_length` of every `period` iterations, one expert, drawn anew each time, is
             // `burst_factor` times as popular
  Walk,      // the logarithm of every popularity changes by sigma N(0, 1) per iteration
};
inline constexpr std::array<std::pair<RoutingMotion, std::string_view>, 4> kRoutingMotionNames{
    {{RoutingMotion::Steady, "steady"},
     {RoutingMotion::Rotating, "rotating"},
     {RoutingMotion::Burst, "burst"},
     {RoutingMotion::Walk, "walk"}}};

struct TraceScenario {
  RoutingScenario routing;  // of the first iteration; every layer has its own seed
  RoutingMotion motion = RoutingMotion::Steady;
  std::int64_t iterations = 1;  // numbered from 0
  std::int64_t layers = 1;
  std::int64_t period = 10;       // iterations, > 0
  std::int64_t step = 1;          // experts
  std::int64_t burst_length = 1;  // iterations, at most the period
  double burst_factor = 8.0;
  double walk_sigma = 0.1;
};

/// A synthetic trace with expected or sampled counts, as the scenario's routing says. Counts fit in 32 bits: fewer than
/// 2^32 tokens.
[[nodiscard]] RoutingTrace make_routing_trace(const TraceScenario& scenario, std::int64_t sources, std::int64_t experts,
                                              std::int64_t tokens, std::int64_t top_k, std::int64_t experts_per_rank);

}  // namespace moeplan::tests
