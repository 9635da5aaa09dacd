#include "model/workload/cuda_graphs.hpp"

#include "model/workload/module_set_text.hpp"

namespace moeplan {

namespace {

constexpr std::array<std::pair<CudaGraphs, std::string_view>, 2> kGraphSets{
    {{CudaGraphs::None, "none"}, {CudaGraphs::FullIteration, "full_iteration"}}};
const ModuleSetNames<CudaGraphs, GraphModule> kGraphNames{kGraphSets, kGraphModuleNames};

}  // namespace

std::string name_of(const CudaGraphs& graphs) { return text_of(kGraphNames, graphs); }

std::optional<CudaGraphs> parse_cuda_graphs(std::string_view text) { return set_named(kGraphNames, text); }

std::string cuda_graphs_error(std::string_view text) { return set_error(kGraphNames, text); }

}  // namespace moeplan
