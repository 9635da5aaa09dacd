// Helpers for tests of the JSON that the executable prints.
#pragma once

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests {

using Json = nlohmann::json;

/// The arguments followed by more arguments.
inline std::vector<std::string> with(std::vector<std::string> arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

/// The JSON output of a run; requires that the run succeeded.
inline Json parsed(const Ran& ran) {
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return Json::parse(ran.out);
}

/// The document without its timing, hence the part that is the same on every run.
inline Json without_timing(Json document) {
  document.erase("timing");
  return document;
}

/// The sum of the numbers under `key` over all items.
inline double sum_of(const Json& items, const std::string& key) {
  double sum = 0;
  for (const Json& item : items) sum += item.at(key).get<double>();
  return sum;
}

/// No null, which is how NaN prints, but for a capacity factor and an unknown confidence; no negative number but a
/// bias.
inline void check_no_null_or_negative(const Json& j, const std::string& path) {
  CAPTURE(path);
  if (j.is_number() && !path.ends_with(".bias")) CHECK(j.get<double>() >= -1e-9);
  const bool may_be_null =
      path.find("capacity_factor") != std::string::npos || path.find(".confidence") != std::string::npos;
  if (j.is_null() && !may_be_null) FAIL_CHECK("null, which is how NaN prints");
  if (!j.is_structured()) return;
  for (const auto& [key, value] : j.items()) check_no_null_or_negative(value, path + "." + key);
}

}  // namespace moeplan::tests
