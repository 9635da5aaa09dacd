// Serialisation of Tutel's dictionaries in plan files.
#pragma once

#include <vector>

#include "model/text/reader.hpp"
#include "planner/plan/tutel_dictionary.hpp"

namespace moeplan::planner {

[[nodiscard]] Node tutel_document(const std::vector<TutelDictionary>& dictionaries);

/// The dictionaries listed under `key`; empty if it is missing. Reports into the reader's diagnostics.
[[nodiscard]] std::vector<TutelDictionary> read_tutel(MapReader& plan, std::string_view key);

}  // namespace moeplan::planner
