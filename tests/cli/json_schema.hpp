// The part of JSON Schema (draft 2020-12) that docs/schema uses, checked. Debian 12 has no C++ validator of that draft:
// libvalijson-dev stops at draft 7 and brings Qt and Poco along.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace moeplan::tests {

/// A file of docs/schema.
[[nodiscard]] nlohmann::json schema_file(const std::string& name);

/// What in a schema is not of that part, is not strict or is not said: unknown keywords, objects that leave further
/// keys open, required keys that are no property, properties without a description, references to nowhere. "" is the
/// place of the whole schema.
[[nodiscard]] std::vector<std::string> schema_flaws(const std::string& file);

/// Where `document` breaks the schema `file`, and how. Empty: it is valid.
[[nodiscard]] std::vector<std::string> schema_errors(const nlohmann::json& document, const std::string& file);

}  // namespace moeplan::tests
