// The modules whose kernels are launched as CUDA graphs, so that the host does not launch each of them.
#pragma once

#include <array>
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "model/workload/module_set.hpp"

namespace moeplan {

/// A captured part of an iteration. The names are Megatron-LM's (--cuda-graph-scope).
enum class GraphModule {
  Attention,      // attn: the attention part of a layer, with its norm
  Mlp,            // mlp: dense FFNs
  Moe,            // moe: whole MoE layers, which must not depend on the routing (capacity factor with padding)
  MoeRouter,      // moe_router: the gate, and shared experts that do not run concurrently with the dispatch
  MoePreprocess,  // moe_preprocess: what precedes the dispatch: permutation of the rows
  WholeIteration  // everything
};

inline constexpr std::array<std::pair<GraphModule, std::string_view>, 5> kGraphModuleNames{
    {{GraphModule::Attention, "attn"},
     {GraphModule::Mlp, "mlp"},
     {GraphModule::Moe, "moe"},
     {GraphModule::MoeRouter, "moe_router"},
     {GraphModule::MoePreprocess, "moe_preprocess"}}};

struct CudaGraphs : ModuleSet<GraphModule> {
  static const CudaGraphs None, FullIteration;
  using ModuleSet::ModuleSet;
  constexpr auto operator<=>(const CudaGraphs&) const = default;
};

inline constexpr CudaGraphs CudaGraphs::None{};
inline constexpr CudaGraphs CudaGraphs::FullIteration{GraphModule::WholeIteration};

/// "none", "full_iteration", or modules joined by "+": "attn+moe_router".
[[nodiscard]] std::string name_of(const CudaGraphs& graphs);
/// The reverse; none for any other text.
[[nodiscard]] std::optional<CudaGraphs> parse_cuda_graphs(std::string_view text);
/// The message about a text that is none of these.
[[nodiscard]] std::string cuda_graphs_error(std::string_view text);

}  // namespace moeplan
