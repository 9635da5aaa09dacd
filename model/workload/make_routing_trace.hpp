// Routing that changes from iteration to iteration, made by a rule: where plans of yesterday go stale.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "model/workload/routing_trace.hpp"

namespace moeplan {

/// MODELS section 11; rotating and burst after Megatron-LM PR 7488's W6 and W7.
enum class RoutingMotion {
  Steady,    // the same popularities throughout
  Rotating,  // every `period` iterations each expert takes over the popularity of the one `step` before it
  Burst,     // in the last `burst_length` of every `period` iterations one expert, drawn anew, is `factor` times as
             // popular
  Walk,      // the logarithm of every popularity moves by sigma N(0, 1) an iteration
};
inline constexpr std::array<std::pair<RoutingMotion, std::string_view>, 4> kRoutingMotionNames{
    {{RoutingMotion::Steady, "steady"},
     {RoutingMotion::Rotating, "rotating"},
     {RoutingMotion::Burst, "burst"},
     {RoutingMotion::Walk, "walk"}}};

struct TraceScenario {
  RoutingScenario routing;  // of the first iteration; every layer has a seed of its own
  RoutingMotion motion = RoutingMotion::Steady;
  std::int64_t iterations = 1;  // numbered from 0
  std::int64_t layers = 1;
  std::int64_t period = 10;       // iterations, > 0
  std::int64_t step = 1;          // experts
  std::int64_t burst_length = 1;  // iterations, at most the period
  double burst_factor = 8.0;
  double walk_sigma = 0.1;
};

/// Expected or sampled counts, as the scenario's routing says. A count fits in 32 bits: tokens below 2^32.
[[nodiscard]] RoutingTrace make_routing_trace(const TraceScenario& scenario, std::int64_t sources, std::int64_t experts,
                                              std::int64_t tokens, std::int64_t top_k, std::int64_t experts_per_rank);

}  // namespace moeplan
