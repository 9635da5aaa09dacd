// JSON fragments that several subcommands print.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"

namespace moeplan::planner {

using Json = nlohmann::ordered_json;

inline constexpr int kJsonSchemaVersion = 1;

/// An object with schema_version, cluster, gpu, model, workload and world_size.
[[nodiscard]] Json json_head(const Inputs& inputs, const Cluster& cluster);

/// A workload, resolved.
[[nodiscard]] Json workload_json(const Workload& workload);

/// What is known of predictions for such jobs (accuracy.hpp), or null.
[[nodiscard]] Json confidence_json(const Inputs& inputs);

[[nodiscard]] Json decision_json(const Candidate& candidate);
[[nodiscard]] Json memory_json(const MemoryUse& memory);
[[nodiscard]] Json class_times_json(const RankTime& time);
/// Adds to `document` the binding rank: its index, its pipeline stage, its waiting time and its exposed communication.
void add_binding_rank(Json& document, const Prediction& prediction);
[[nodiscard]] Json streams_json(const Prediction& prediction);
[[nodiscard]] Json links_json(const Prediction& prediction, const Topology& topology);

/// The document as text, indented by two spaces, with a final newline.
[[nodiscard]] std::string json_text(const Json& document);

}  // namespace moeplan::planner
