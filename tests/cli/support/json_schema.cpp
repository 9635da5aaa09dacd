#include "tests/cli/support/json_schema.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <regex>
#include <set>

#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests {

namespace {

using Json = nlohmann::json;

/// A schema and the file that its references start from.
struct Place {
  const Json* schema;
  std::string file;
};

const Json& cached(const std::string& file) {
  static std::map<std::string, Json> files;
  if (!files.contains(file)) files[file] = schema_file(file);
  return files[file];
}

/// "common.json#/$defs/links", "#/$defs/gpu" or "model.json".
Place target(const Json& reference, const std::string& from) {
  const auto text = reference.get<std::string>();
  const std::size_t hash = text.find('#');
  const std::string file = hash == 0 ? from : text.substr(0, hash);
  const std::string pointer = hash == std::string::npos ? "" : text.substr(hash + 1);
  return {&cached(file).at(Json::json_pointer(pointer)), file};
}

bool is_of(const Json& value, const std::string& type) {
  if (type == "null") return value.is_null();
  if (type == "boolean") return value.is_boolean();
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "number") return value.is_number();
  if (!value.is_number()) return false;
  return value.is_number_integer() || value.get<double>() == std::floor(value.get<double>());
}

class Checker {
 public:
  std::vector<std::string> errors;

  void check(const Json& value, const Place& place, const std::string& at) {
    const Json& s = *place.schema;
    if (s.contains("$ref")) check(value, target(s["$ref"], place.file), at);
    if (s.contains("anyOf")) check_any(value, place, at);
    if (s.contains("type")) check_type(value, s["type"], at);
    if (s.contains("enum") && std::find(s["enum"].begin(), s["enum"].end(), value) == s["enum"].end()) {
      complain(at, value.dump() + " is none of " + s["enum"].dump());
    }
    if (value.is_string() && s.contains("pattern") &&
        !std::regex_search(value.get<std::string>(), std::regex(s["pattern"].get<std::string>()))) {
      complain(at, value.dump() + " does not match " + s["pattern"].dump());
    }
    if (value.is_number()) {
      if (s.contains("minimum") && value < s["minimum"]) complain(at, value.dump() + " is less than the minimum");
      if (s.contains("maximum") && value > s["maximum"]) complain(at, value.dump() + " is more than the maximum");
    }
    if (value.is_object()) check_object(value, place, at);
    if (value.is_array()) check_array(value, place, at);
  }

 private:
  void complain(const std::string& at, const std::string& what) { errors.push_back(at + ": " + what); }

  void check_type(const Json& value, const Json& type, const std::string& at) {
    const auto matches = [&](const Json& t) { return is_of(value, t.get<std::string>()); };
    if (type.is_array() ? std::any_of(type.begin(), type.end(), matches) : matches(type)) return;
    complain(at, value.dump().substr(0, 60) + " is not of type " + type.dump());
  }

  void check_any(const Json& value, const Place& place, const std::string& at) {
    std::vector<std::string> all;
    for (const Json& option : (*place.schema)["anyOf"]) {
      Checker attempt;
      attempt.check(value, {&option, place.file}, at);
      if (attempt.errors.empty()) return;
      all.insert(all.end(), attempt.errors.begin(), attempt.errors.end());
    }
    complain(at, "matches no alternative");
    errors.insert(errors.end(), all.begin(), all.end());
  }

  void check_object(const Json& value, const Place& place, const std::string& at) {
    const Json& s = *place.schema;
    for (const Json& key : s.value("required", Json::array())) {
      if (!value.contains(key.get<std::string>())) complain(at, "lacks " + key.dump());
    }
    const Json properties = s.value("properties", Json::object());
    for (const auto& [key, item] : value.items()) {
      const std::string inner = at + "." + key;
      if (properties.contains(key)) {
        check(item, {&s["properties"][key], place.file}, inner);
      } else if (s.contains("additionalProperties")) {
        const Json& further = s["additionalProperties"];
        if (further == false) complain(inner, "is not in the schema");
        if (further.is_object()) check(item, {&further, place.file}, inner);
      }
    }
  }

  void check_array(const Json& value, const Place& place, const std::string& at) {
    const Json& s = *place.schema;
    if (s.contains("minItems") && value.size() < s["minItems"]) complain(at, "has too few items");
    if (s.contains("maxItems") && value.size() > s["maxItems"]) complain(at, "has too many items");
    if (!s.contains("items")) return;
    for (std::size_t i = 0; i < value.size(); ++i) {
      check(value[i], {&s["items"], place.file}, at + "[" + std::to_string(i) + "]");
    }
  }
};

class Reviewer {
 public:
  explicit Reviewer(std::string file) : file_(std::move(file)) {}
  std::vector<std::string> violations;

  void review(const Json& s, const std::string& at) {
    static const std::set<std::string> known{
        "$schema", "$defs",   "$ref",     "title",    "description",          "type", "enum", "anyOf", "pattern",
        "minimum", "maximum", "minItems", "maxItems", "additionalProperties", "items"};
    static const std::set<std::string> types{"null", "boolean", "object", "array", "string", "number", "integer"};
    if (!s.is_object()) return complain(at, "is no schema");
    for (const auto& [key, value] : s.items()) {
      if (!known.contains(key) && key != "properties" && key != "required") complain(at, "unknown keyword " + key);
    }
    if (s.contains("type")) {
      for (const Json& t : s["type"].is_array() ? s["type"] : Json::array({s["type"]})) {
        if (!types.contains(t.get<std::string>())) complain(at, "unknown type " + t.dump());
      }
    }
    if (s.contains("$ref")) review_reference(s["$ref"], at);
    review_object(s, at);
    for (const char* map : {"$defs", "properties"}) {
      if (!s.contains(map)) continue;
      for (const auto& [key, inner] : s[map].items()) {
        review(inner, at + "/" + map + "/" + key);
        const bool described = inner.contains("description") || inner.contains("$ref");
        if (!described) complain(at + "/" + map + "/" + key, "has no description");
      }
    }
    if (s.contains("items")) review(s["items"], at + "/items");
    if (s.contains("additionalProperties") && s["additionalProperties"].is_object()) {
      review(s["additionalProperties"], at + "/additionalProperties");
    }
    for (const Json& option : s.value("anyOf", Json::array())) review(option, at + "/anyOf");
  }

 private:
  void complain(const std::string& at, const std::string& what) {
    violations.push_back(file_ + "#" + at + ": " + what);
  }

  void review_reference(const Json& reference, const std::string& at) {
    try {
      (void)target(reference, file_);
    } catch (const std::exception&) {
      complain(at, "refers to nowhere: " + reference.dump());
    }
  }

  void review_object(const Json& s, const std::string& at) {
    if (s.value("type", Json()) == "object") {
      if (!s.contains("additionalProperties")) complain(at, "leaves further keys open");
      if (!s.contains("properties") && s.value("additionalProperties", Json(false)) == false) {
        complain(at, "is an object without keys");
      }
    }
    for (const Json& key : s.value("required", Json::array())) {
      if (!s.value("properties", Json::object()).contains(key.get<std::string>())) {
        complain(at, "requires " + key.dump() + ", which is no property");
      }
    }
  }

  std::string file_;
};

}  // namespace

Json schema_file(const std::string& name) {
  return Json::parse(whole_file(std::filesystem::path(MOEPLAN_SOURCE_DIR) / "docs/schema" / name));
}

std::vector<std::string> schema_flaws(const std::string& file) {
  Reviewer reviewer(file);
  reviewer.review(cached(file), "");
  return reviewer.violations;
}

std::vector<std::string> schema_errors(const Json& document, const std::string& file) {
  Checker checker;
  checker.check(document, {&cached(file), file}, "");
  return checker.errors;
}

}  // namespace moeplan::tests
