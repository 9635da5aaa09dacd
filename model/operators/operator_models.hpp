// The measured operator models of one GPU: a file in configs/operators.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/operators/attention_model.hpp"
#include "model/operators/fused_moe_model.hpp"
#include "model/operators/gemm_model.hpp"
#include "model/operators/grouped_gemm_model.hpp"
#include "model/operators/kernel_model.hpp"
#include "model/operators/reference_rates.hpp"
#include "model/operators/training_model.hpp"

namespace moeplan {

struct OperatorModels {
  std::string gpu;
  std::int64_t num_sms = 0;
  std::vector<GemmModel> gemm;  // by format and library; at most one answers a row: the first that its source names
  std::vector<AttentionModel> attention;  // the same, by direction too
  std::vector<GroupedGemmModel> grouped_gemm;
  std::vector<FusedMoeModel> fused_moe;       // `products` of each names one of grouped_gemm in the same format
  std::vector<KernelModel> kernels;           // by kernel, implementation and direction; the best one first
  std::optional<TrainingModel> training;      // none: nothing is known but bursts
  std::optional<ReferenceRates> measured_on;  // the GPU that was measured
  bool operator==(const OperatorModels&) const = default;
};

/// Reads the content of a file of configs/operators; the second form raises InputError.
[[nodiscard]] OperatorModels read_operator_models(MapReader file);
[[nodiscard]] OperatorModels read_operator_models(const Node& document);

/// Changes all models by the factors.
void scale(OperatorModels& models, const RateFactors& factors);

/// The first model of `format` whose library is named in the text `source` (without one: the first of all); none if
/// there is none.
[[nodiscard]] const GemmModel* find_gemm_model(const OperatorModels& models, MathFormat format,
                                               std::string_view source);
[[nodiscard]] const GroupedGemmModel* find_grouped_gemm_model(const OperatorModels& models, MathFormat format,
                                                              std::string_view source);
[[nodiscard]] const FusedMoeModel* find_fused_moe_model(const OperatorModels& models, MathFormat format,
                                                        std::string_view source);
/// The figures of the products of a fused layer of `models`.
[[nodiscard]] const GroupedGemmModel& products_of(const OperatorModels& models, const FusedMoeModel& layer);
/// The model of a kernel's implementation (without one: the first).
[[nodiscard]] const KernelModel* find_kernel_model(const OperatorModels& models, std::string_view kernel,
                                                   std::string_view implementation, bool is_backward);
[[nodiscard]] const AttentionModel* find_attention_model(const OperatorModels& models, MathFormat format,
                                                         bool is_backward, std::string_view source);

/// The attention of a training step, forward or backward; none if there are no figures. In another format than bf16 it
/// is of the first library that has this format backward, and in bf16 if none has.
[[nodiscard]] const AttentionModel* training_attention_model(const OperatorModels& models, bool is_backward,
                                                             MathFormat format = MathFormat::Bf16);

/// The cost of that attention at sustained clocks; none if there are no figures.
[[nodiscard]] std::optional<AttentionCost> training_attention_cost(const OperatorModels& models,
                                                                   const AttentionShape& shape,
                                                                   MathFormat format = MathFormat::Bf16);

/// The cost of a product of a training step in `call.phase`: the first figures of `format`, at sustained clocks; none
/// if there are no figures. `call.slowdown` comes on top.
[[nodiscard]] std::optional<GemmCost> training_gemm_cost(const OperatorModels& models, MathFormat format,
                                                         const GemmShape& shape, GemmCall call);

/// The cost of the local experts' products of a training step, run one after another as Transformer Engine does. With
/// several `sources` per expert, those of an expert are a batch, except weight gradients, which accumulate one after
/// another (Tutel 0.1, experts_gemm_backward_weight).
[[nodiscard]] std::optional<GroupedGemmCost> training_grouped_gemm_cost(const OperatorModels& models, MathFormat format,
                                                                        std::span<const GemmShape> products,
                                                                        GemmCall call, std::int64_t sources = 1);

}  // namespace moeplan
