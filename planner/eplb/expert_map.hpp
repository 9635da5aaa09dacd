// Maps of physical experts to logical ones, as serving engines load them.
//
// A physical expert is a slot: with P of them on G GPUs, the first P / G are on GPU 0, and so on. Redundant experts are
// counted in all, as engines do: P = experts + redundant.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/eplb/expert_loads.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// What a map is for.
struct ExpertMapShape {
  std::int64_t gpus = 1;
  std::int64_t nodes = 1;
  std::int64_t redundant = 0;  // in all
  std::int64_t groups = 1;     // of experts, for EPLB's hierarchical policy
};

struct ExpertMap {
  ExpertMapShape shape;
  std::int64_t experts;
  std::vector<std::vector<std::int64_t>> physical_to_logical;  // [layers][experts + redundant]
  std::vector<bool> is_moe;                                    // by layer; others have experts in order

  [[nodiscard]] std::int64_t slots_per_gpu() const { return (experts + shape.redundant) / shape.gpus; }
};

/// The map of DeepSeek's balancer for these loads: hierarchical if the nodes divide the groups, global otherwise.
/// Raises InputError, located at the options, for GPUs and redundant experts that do not divide.
[[nodiscard]] ExpertMap balanced_map(const ExpertLoads& loads, const ExpertMapShape& shape);

/// The map without redundant experts in which GPUs hold consecutive experts.
[[nodiscard]] ExpertMap contiguous_map(const ExpertLoads& loads, const ExpertMapShape& shape);

/// A layer of a map as a placement: an expert's tokens are divided equally over its physical experts.
[[nodiscard]] Placement placement_of(const ExpertMap& map, std::size_t layer);

/// Mean over largest load of the GPUs for one layer (SGLang's balancedness): 1 is even.
[[nodiscard]] double balancedness(const ExpertMap& map, std::size_t layer, const std::vector<std::int64_t>& loads);

/// What is wrong with a map by the rules of SGLang (ExpertLocationMetadata) and EPLB, or "": every logical expert has a
/// physical one, none is unknown, layers have equally many, GPUs divide them.
[[nodiscard]] std::string map_error(const ExpertMap& map);

enum class ExpertMapFormat { Sglang, Vllm, VllmAscend, TrtLlm, Eplb };
inline constexpr std::array<std::pair<ExpertMapFormat, std::string_view>, 5> kExpertMapFormatNames{
    {{ExpertMapFormat::Sglang, "sglang"},
     {ExpertMapFormat::Vllm, "vllm"},
     {ExpertMapFormat::VllmAscend, "vllm-ascend"},
     {ExpertMapFormat::TrtLlm, "trtllm"},
     {ExpertMapFormat::Eplb, "eplb"}}};

/// The file that the engine reads:
/// - sglang: JSON for --init-expert-location, all layers
/// - vllm: JSON with --eplb-config and the tensors of EplbState; vLLM itself takes only the former
/// - vllm-ascend: JSON for expert_map_path, MoE layers
/// - trtllm: YAML for moe_config.load_balancer, MoE layers by their number
/// - eplb: JSON with phy2log, log2phy and logcnt as DeepSeek's rebalance_experts returns them
[[nodiscard]] std::string expert_map_text(const ExpertMap& map, ExpertMapFormat format);

/// How the engine is told to load the file: "--init-expert-location map.json --ep-num-redundant-experts 32".
[[nodiscard]] std::string how_to_load(const ExpertMap& map, ExpertMapFormat format, const std::string& file);

}  // namespace moeplan::planner
