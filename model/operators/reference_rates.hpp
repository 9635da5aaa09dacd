// The datasheet rates of the GPU on which operators were measured. Operators of another GPU, or of the same one with a
// rate changed, run in proportion to its rates.
#pragma once

#include <cstdint>

#include "model/base/quantity.hpp"
#include "model/operators/attention_model.hpp"
#include "model/operators/fused_moe_model.hpp"
#include "model/operators/gemm_model.hpp"
#include "model/operators/grouped_gemm_model.hpp"
#include "model/operators/kernel_model.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

struct ReferenceRates {
  std::int64_t num_sms = 0;
  FlopsPerSecond bf16;  // peak without sparsity, also of fp16
  FlopsPerSecond fp8;   // of all 8-bit and 4-bit formats; 0: not given
  BytesPerSecond hbm_bandwidth;
  Seconds launch_overhead;
  bool operator==(const ReferenceRates&) const = default;
};

/// The factors from one GPU's rates to another's.
struct RateFactors {
  double bf16 = 1, fp8 = 1;  // of the products' rates
  double sms = 1;            // of the rate from L2, besides that of the products
  double memory = 1;
  double launch = 1;
};
[[nodiscard]] RateFactors rate_factors(const ReferenceRates& from, const ReferenceRates& to);

/// Changes the numbers of a model by the factors: what SMs do goes with the products' rate, traffic with the memory's.
void scale(GemmModel& model, const RateFactors& factors);
void scale(GroupedGemmModel& model, const RateFactors& factors);
void scale(AttentionModel& model, const RateFactors& factors);
void scale(FusedMoeModel& model, const RateFactors& factors);
void scale(KernelModel& model, const RateFactors& factors);

/// Reads the map `measured_on` of a file in configs/operators, whose GPU has `num_sms` SMs.
[[nodiscard]] ReferenceRates read_reference_rates(MapReader map, std::int64_t num_sms);

}  // namespace moeplan
