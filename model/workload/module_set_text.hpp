// Sets of modules as texts: the names of the modules joined by "+", or a name for a whole set.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The names of a kind of sets: of modules, and of whole sets ("none", "full"). `Set` is derived from ModuleSet.
template <class Set, class Module>
struct ModuleSetNames {
  Names<Set> sets;
  Names<Module> modules;
};

[[nodiscard]] inline std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    out.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

template <class Set, class Module>
[[nodiscard]] std::string text_of(const ModuleSetNames<Set, Module>& names, const Set& set) {
  for (const auto& [known, name] : names.sets) {
    if (known == set) return std::string(name);
  }
  std::string out;
  for (const auto& [module, name] : names.modules) {
    if (set.has(module)) out += fmt::format("{}{}", out.empty() ? "" : "+", name);
  }
  return out;
}

/// The set that a text names; none if it names none.
template <class Set, class Module>
[[nodiscard]] std::optional<Set> set_named(const ModuleSetNames<Set, Module>& names, std::string_view text) {
  if (const auto known = named<Set>(names.sets, text)) return known;
  Set out;
  for (const std::string_view part : parts_of(text)) {
    const std::optional<Module> module = named<Module>(names.modules, part);
    if (!module) return std::nullopt;
    out.add(*module);
  }
  return out;
}

/// The message about a text that names no set: its unknown parts, each with the nearest name.
template <class Set, class Module>
[[nodiscard]] std::string set_error(const ModuleSetNames<Set, Module>& names, std::string_view text) {
  std::vector<std::string> all = all_names<Set>(names.sets);
  for (std::string& module : all_names<Module>(names.modules)) all.push_back(std::move(module));
  const std::vector<std::string_view> parts = parts_of(text);
  std::string out;
  for (const std::string_view part : parts) {
    if (parts.size() > 1 && named<Module>(names.modules, part)) continue;
    out += fmt::format("{}{} is not known{}", out.empty() ? "" : " ", in_quotes(part), suggestion(part, all));
  }
  return out;
}

}  // namespace moeplan
