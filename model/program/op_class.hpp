// The categories of operations in reports.
#pragma once

#include <array>
#include <string_view>
#include <utility>

namespace moeplan {

/// The purpose of an operation: the categories of the reports. Engines do not use it.
enum class OpClass {
  Attention,
  DenseFfn,
  Gate,
  Expert,
  SharedExpert,
  Permute,
  Codec,
  Dispatch,
  Combine,
  TensorParallel,
  ExpertSharding,
  ContextParallel,
  Norm,
  Embedding,
  Pipeline,
  WeightGather,
  Gradient,
  Optimizer,
  ExpertTransfer,          // expert weights to their copies: Trans
  ExpertGradientTransfer,  // gradients from the copies to the homes: Agg
  PlacementPlan,           // exchange of the expert loads
  Host,                    // the host CPU launches operations
  Offload                  // copies between the GPU and its host's memory
};
inline constexpr std::array<std::pair<OpClass, std::string_view>, 23> kOpClassNames{
    {{OpClass::Attention, "attention"},
     {OpClass::DenseFfn, "dense_ffn"},
     {OpClass::Gate, "gate"},
     {OpClass::Expert, "expert"},
     {OpClass::SharedExpert, "shared_expert"},
     {OpClass::Permute, "permute"},
     {OpClass::Codec, "codec"},
     {OpClass::Dispatch, "dispatch"},
     {OpClass::Combine, "combine"},
     {OpClass::TensorParallel, "tensor_parallel"},
     {OpClass::ExpertSharding, "expert_sharding"},
     {OpClass::ContextParallel, "context_parallel"},
     {OpClass::Norm, "norm_and_add"},
     {OpClass::Embedding, "embedding_and_head"},
     {OpClass::Pipeline, "pipeline"},
     {OpClass::WeightGather, "weight_gather"},
     {OpClass::Gradient, "gradient_sync"},
     {OpClass::Optimizer, "optimizer"},
     {OpClass::ExpertTransfer, "expert_transfer"},
     {OpClass::ExpertGradientTransfer, "expert_gradients"},
     {OpClass::PlacementPlan, "placement_plan"},
     {OpClass::Host, "host"},
     {OpClass::Offload, "offload"}}};

}  // namespace moeplan
