// A validator for the part of JSON Schema (draft 2020-12) that docs/schema uses. Debian 12 has no C++ validator for
// that draft: libvalijson-dev stops at draft 7 and depends on Qt and Poco.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moeplan::tests {

/// The schema in a file of docs/schema.
[[nodiscard]] nlohmann::json schema_file(const std::string& name);

/// The errors of a schema file itself: unknown keywords, objects that allow further keys, required keys that are no
/// property, properties without a description, unresolved references. The location "" is the whole schema.
[[nodiscard]] std::vector<std::string> schema_flaws(const std::string& file);

/// The violations of the schema `file` by `document`, with their locations; empty if the document is valid.
[[nodiscard]] std::vector<std::string> schema_errors(const nlohmann::json& document, const std::string& file);

}  // namespace moeplan::tests
