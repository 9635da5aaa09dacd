// Tutel's dictionaries in a plan file.
#pragma once

#include <vector>

#include "model/base/reader.hpp"
#include "planner/tutel_dictionary.hpp"

namespace moeplan {

[[nodiscard]] Node tutel_document(const std::vector<TutelDictionary>& dictionaries);

/// The list under `key`, none where it is missing. Reports into the reader's diagnostics.
[[nodiscard]] std::vector<TutelDictionary> read_tutel(MapReader& plan, std::string_view key);

}  // namespace moeplan
