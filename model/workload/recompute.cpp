#include "model/workload/recompute.hpp"

#include <fmt/format.h>

#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan {

namespace {

std::optional<RecomputeModule> module_named(std::string_view text) {
  for (const auto& [module, name] : kRecomputeModuleNames) {
    if (name == text) return module;
  }
  return std::nullopt;
}

}  // namespace

std::string name_of(const Recompute& recompute) {
  if (recompute == Recompute::None) return "none";
  if (recompute == Recompute::Selective) return "selective";
  if (recompute.has(RecomputeModule::WholeLayer)) return "full";
  std::string out;
  for (const auto& [module, name] : kRecomputeModuleNames) {
    if (recompute.has(module)) out += fmt::format("{}{}", out.empty() ? "" : "+", name);
  }
  return out;
}

std::optional<Recompute> parse_recompute(std::string_view text) {
  if (text == "none") return Recompute::None;
  if (text == "selective") return Recompute::Selective;
  if (text == "full") return Recompute::Full;
  Recompute out;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    const auto module = module_named(text.substr(begin, end - begin));
    if (!module) return std::nullopt;
    out.add(*module);
    begin = end + 1;
  }
  return out;
}

std::string recompute_error(std::string_view text) {
  std::vector<std::string> names{"none", "selective", "full"};
  for (const auto& [module, name] : kRecomputeModuleNames) names.emplace_back(name);
  const std::size_t plus = text.find('+');
  std::string_view wrong = text;
  for (std::size_t begin = 0; plus != std::string_view::npos && begin <= text.size();) {
    const std::size_t end = std::min(text.find('+', begin), text.size());
    wrong = text.substr(begin, end - begin);
    if (!module_named(wrong)) break;
    begin = end + 1;
  }
  return fmt::format("{} is not known{}", in_quotes(wrong), suggestion(wrong, names));
}

}  // namespace moeplan
