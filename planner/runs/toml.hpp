// TOML, as TorchTitan's configurations are written in, read into the same tree as YAML and JSON.
#pragma once

#include <string>
#include <string_view>

#include "model/text/document.hpp"

namespace moeplan::runs {

/// Parses a document without dates and times; `name` identifies it in messages. Raises InputError.
[[nodiscard]] Node parse_toml(std::string_view text, const std::string& name);

}  // namespace moeplan::runs
