// Which small kernels of a training step are fused.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/workload/module_set.hpp"

namespace moeplan {

/// A group of kernels that run as one, or as few. Source of Router to NormQuantise: Megatron-LM eb0783b,
/// docs/discussions/deepseek-v3-gb200-optimization, section 2.1; of GroupedMlp: Transformer Engine's pull requests 2622
/// and 2769; of the others: Megatron-LM's arguments.py and cross_entropy.py.
enum class Fusion {
  Attention,     // attention: one kernel that keeps no scores (FlashAttention); otherwise the products of queries, keys
                 // and values with a softmax between them, whose matrix is kept (--attention-backend unfused)
  Router,        // router: scores, routing map and auxiliary loss (--moe-router-fusion); 31 kernels, otherwise 72
  Permute,       // permute: rows are put in the experts' order, and added up again, by Transformer Engine's kernels
                 // (--moe-permute-fusion); otherwise by PyTorch's index_select and scatter_add
  ScaleBuffers,  // scale_buffers: scales of mxfp8 are in one buffer, which no kernel fills with zeros
  ScaleSwizzle,  // scale_swizzle: scales of mxfp8 of all experts are brought into the products' order by one kernel
  NormQuantise,  // norm_quantise: norms also write the mxfp8 copies of their results (cuDNN 9.14)
  Padding,       // padding: the router pads each expert's rows to what products in 8 bits take
                 // (--moe-router-padding-for-fp8, -for-quantization); otherwise rows are copied, and back
  GroupedMlp,    // grouped_mlp: the experts' products in mxfp8 weigh, activate and quantise what they write, and one
                 // kernel quantises the rows of all experts (--use-transformer-engine-op-fuser,
                 // --moe-mlp-glu-interleave-size 32; from Blackwell on)
  CrossEntropy   // cross_entropy: Transformer Engine's loss, which writes the gradients in place of the logits
                 // (--cross-entropy-fusion-impl te); otherwise Megatron-Core's, which keeps the softmax in fp32
};

inline constexpr std::array<std::pair<Fusion, std::string_view>, 9> kFusionNames{
    {{Fusion::Attention, "attention"},
     {Fusion::Router, "router"},
     {Fusion::Permute, "permute"},
     {Fusion::ScaleBuffers, "scale_buffers"},
     {Fusion::ScaleSwizzle, "scale_swizzle"},
     {Fusion::NormQuantise, "norm_quantise"},
     {Fusion::Padding, "padding"},
     {Fusion::GroupedMlp, "grouped_mlp"},
     {Fusion::CrossEntropy, "cross_entropy"}}};

struct Fusions : ModuleSet<Fusion> {
  static const Fusions None, Default;
  using ModuleSet::ModuleSet;
  constexpr auto operator<=>(const Fusions&) const = default;
};

inline constexpr Fusions Fusions::None{};
/// What Megatron-Core and Transformer Engine do since 2025.
inline constexpr Fusions Fusions::Default{Fusion::Attention,    Fusion::Router,       Fusion::Permute,
                                          Fusion::ScaleBuffers, Fusion::ScaleSwizzle, Fusion::CrossEntropy};

/// "none", or fusions joined by "+": "router+scale_buffers".
[[nodiscard]] std::string name_of(const Fusions& fusions);
/// The reverse; none for any other text.
[[nodiscard]] std::optional<Fusions> parse_fusions(std::string_view text);
/// The message about a text that is none of these.
[[nodiscard]] std::string fusions_error(std::string_view text);

}  // namespace moeplan
