#include "planner/runs/toml.hpp"

#include <fmt/format.h>
// toml++ 3.3 asserts what a text such as "[.]" breaks, and then refuses it properly.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>

#include "model/text/source_text.hpp"

namespace moeplan::runs {

namespace {

Location place_of(const toml::source_region& source, const std::string& file) {
  return {file, static_cast<int>(source.begin.line), static_cast<int>(source.begin.column)};
}

Node converted(const toml::node& node, const std::string& file);

Node converted_table(const toml::table& table, const std::string& file) {
  Node out = Node::map();
  for (const auto& [key, value] : table)
    out.entries.push_back({std::string(key.str()), place_of(key.source(), file), converted(value, file)});
  const auto place = [](const Entry& e) { return std::pair(e.where.line, e.where.column); };
  std::stable_sort(out.entries.begin(), out.entries.end(),
                   [&](const Entry& a, const Entry& b) { return place(a) < place(b); });
  return out;
}

Node converted(const toml::node& node, const std::string& file) {
  Node out;
  if (const toml::table* table = node.as_table()) {
    out = converted_table(*table, file);
  } else if (const toml::array* array = node.as_array()) {
    out = Node::list();
    for (const toml::node& item : *array) out.items.push_back(converted(item, file));
  } else if (const auto* text = node.as_string()) {
    out = Node::text(text->get());
  } else if (const auto* integer = node.as_integer()) {
    out = Node::integer(integer->get());
  } else if (const auto* number = node.as_floating_point()) {
    out = Node::number(number->get());
  } else if (const auto* boolean = node.as_boolean()) {
    out = Node::boolean(boolean->get());
  } else {
    throw_input_error(place_of(node.source(), file), "", "dates and times are not read");
  }
  out.where = place_of(node.source(), file);
  return out;
}

}  // namespace

Node parse_toml(std::string_view text, const std::string& name) {
  const std::string file = short_name(name);
  try {
    return converted(toml::parse(text), file);
  } catch (const toml::parse_error& e) {
    throw_input_error(place_of(e.source(), file), "", fmt::format("is no TOML: {}", e.description()));
  }
}

}  // namespace moeplan::runs
