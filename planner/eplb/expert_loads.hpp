// Loads of experts as serving engines record them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace moeplan::planner {

struct ExpertLoads {
  std::vector<std::vector<std::int64_t>> layers;  // selections of each expert, by row of the file; summed over steps
  std::string form;                               // what the file was: "SGLang logical counts, 4 steps"

  [[nodiscard]] std::int64_t experts() const { return layers.empty() ? 0 : std::ssize(layers.front()); }
  /// A row without selections is a layer without experts.
  [[nodiscard]] bool has_experts(std::size_t layer) const;
  [[nodiscard]] std::int64_t moe_layers() const;
};

/// Reads
/// - JSON with `logical_count` (SGLang's recorder: [layers][experts] or [steps][layers][experts]),
/// - JSON with counts of physical experts and the map that was in use: `records` of `global_physical_count` with
///   `last_physical_to_logical_map` (SGLang's recorder, per pass), or `expert_load_pass` or `expert_load_window` with
///   `physical_to_logical_map` (vLLM's EplbState),
/// - a JSON list [layers][experts],
/// - CSV: a routing trace (model/workload/routing_trace.hpp), or lines "layer,e0,e1,...".
/// Raises InputError that says where the file is wrong; a PyTorch file is refused with the command that converts it.
[[nodiscard]] ExpertLoads read_expert_loads(const std::filesystem::path& path);

}  // namespace moeplan::planner
