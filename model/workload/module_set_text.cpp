// The texts of a workload's sets of modules.
#include "model/workload/module_set_text.hpp"

#include "model/workload/cuda_graphs.hpp"
#include "model/workload/fp8_modules.hpp"
#include "model/workload/fusions.hpp"
#include "model/workload/offload.hpp"

namespace moeplan {

namespace {

constexpr std::array<std::pair<CudaGraphs, std::string_view>, 2> kGraphSets{
    {{CudaGraphs::None, "none"}, {CudaGraphs::FullIteration, "full_iteration"}}};
const ModuleSetNames<CudaGraphs, GraphModule> kGraphs{kGraphSets, kGraphModuleNames};

constexpr std::array<std::pair<Fusions, std::string_view>, 1> kFusionSets{{{Fusions::None, "none"}}};
const ModuleSetNames<Fusions, Fusion> kFusions{kFusionSets, kFusionNames};

constexpr std::array<std::pair<Fp8Modules, std::string_view>, 1> kFp8Sets{{{Fp8Modules::None, "none"}}};
const ModuleSetNames<Fp8Modules, Fp8Module> kFp8{kFp8Sets, kFp8ModuleNames};

constexpr std::array<std::pair<Offload, std::string_view>, 1> kOffloadSets{{{Offload::None, "none"}}};
const ModuleSetNames<Offload, OffloadModule> kOffload{kOffloadSets, kOffloadModuleNames};

}  // namespace

std::string name_of(const CudaGraphs& graphs) { return text_of(kGraphs, graphs); }
std::optional<CudaGraphs> parse_cuda_graphs(std::string_view text) { return set_named(kGraphs, text); }
std::string cuda_graphs_error(std::string_view text) { return set_error(kGraphs, text); }

std::string name_of(const Fusions& fusions) { return text_of(kFusions, fusions); }
std::optional<Fusions> parse_fusions(std::string_view text) { return set_named(kFusions, text); }
std::string fusions_error(std::string_view text) { return set_error(kFusions, text); }

std::string name_of(const Fp8Modules& modules) { return text_of(kFp8, modules); }
std::optional<Fp8Modules> parse_fp8_modules(std::string_view text) { return set_named(kFp8, text); }
std::string fp8_modules_error(std::string_view text) { return set_error(kFp8, text); }

std::string name_of(const Offload& offload) { return text_of(kOffload, offload); }
std::optional<Offload> parse_offload(std::string_view text) { return set_named(kOffload, text); }
std::string offload_error(std::string_view text) { return set_error(kOffload, text); }

}  // namespace moeplan
