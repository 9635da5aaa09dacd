// Tutel's dictionaries in a plan file.
#pragma once

#include <vector>

#include "model/text/reader.hpp"
#include "planner/plan/tutel_dictionary.hpp"

namespace moeplan::planner {

[[nodiscard]] Node tutel_document(const std::vector<TutelDictionary>& dictionaries);

/// The list under `key`, none where it is missing. Reports into the reader's diagnostics.
[[nodiscard]] std::vector<TutelDictionary> read_tutel(MapReader& plan, std::string_view key);

}  // namespace moeplan::planner
