#include "cli/application/help_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "cli/application/option_parts.hpp"
#include "cli/pages/text/wrapping.hpp"

namespace moeplan::cli {

namespace {

constexpr std::size_t kAbout = 30;  // the column of the texts

/// A labelled text; a label that reaches into it has a line of its own.
std::string entry(const std::string& label, const std::string& about) {
  if (label.size() + 4 <= kAbout) return labelled(label, about, kAbout);
  return "  " + label + '\n' + labelled("", about, kAbout);
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_option(const CLI::Option* option, bool /*is_positional*/) const override {
    const OptionParts parts = option_parts_of(*option);
    std::string label = parts.argument.empty() ? fmt::format("{}", fmt::join(parts.names, ", ")) : parts.argument;
    if (!parts.value.empty() && parts.argument.empty()) label += parts.value == "TEXT" ? " TEXT" : " N";
    std::string about = parts.about;
    if (!parts.values.empty()) about += fmt::format(" ({})", fmt::join(parts.values, ", "));
    return entry(label, about + (parts.is_required ? " (required)" : ""));
  }
  std::string make_subcommand(const CLI::App* command) const override {
    return entry(command->get_name(), command->get_description());
  }
  std::string make_description(const CLI::App* app) const override { return labelled("", app->get_description(), 0); }
};

}  // namespace

std::shared_ptr<CLI::FormatterBase> help_formatter() { return std::make_shared<HelpFormatter>(); }

}  // namespace moeplan::cli
