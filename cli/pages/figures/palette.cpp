#include "cli/pages/figures/palette.hpp"

#include <fmt/format.h>

#include <array>

namespace moeplan::cli {

namespace {

struct Colour {
  const char* name;
  const char* light;
  const char* dark;
};

constexpr std::array<Colour, 27> kPalette{{
    {"forward", "#2f6fb5", "#5d9fe6"},   {"backward", "#e3a33b", "#f1bd62"},  {"other", "#8d99a6", "#77869a"},
    {"exposed", "#c5402b", "#f4745c"},   {"hidden", "#ecc0b6", "#6e3a32"},    {"weights", "#1f4e86", "#3f7cc4"},
    {"gradients", "#4f8fd0", "#78b0ee"}, {"optimizer", "#a9cbee", "#b6d4f5"}, {"activations", "#e3a33b", "#f1bd62"},
    {"working", "#f3d7a2", "#8f7140"},   {"runtime", "#9aa5b1", "#66758a"},   {"c0", "#2f6fb5", "#5d9fe6"},
    {"c1", "#d9822b", "#f0a35a"},        {"c2", "#1d8f6f", "#45c19b"},        {"c3", "#b0539a", "#dc8cc8"},
    {"c4", "#7a6a1e", "#cdbb5c"},        {"c5", "#5b5f97", "#a3a7e0"},        {"good", "#1d8f6f", "#45c19b"},
    {"mark", "#c5402b", "#f4745c"},      {"ink", "#18222d", "#e8edf2"},       {"muted", "#566473", "#9dadbd"},
    {"grid", "#e2e7ed", "#2a343f"},      {"lane", "#eef1f5", "#1e2730"},      {"panel", "#f6f8fa", "#1a222b"},
    {"page", "#ffffff", "#11171d"},      {"band", "#b9d3ee", "#2a4d75"},      {"wide-band", "#e3edf7", "#1e3146"},
}};

std::string colour_rules(const char* Colour::*theme) {
  std::string out;
  for (const Colour& c : kPalette) {
    out += fmt::format(".f-{0}{{fill:{1}}}.l-{0}{{stroke:{1};fill:none}}", c.name, c.*theme);
    if (std::string_view(c.name) == "ink") out += fmt::format(".fig text{{fill:{}}}", c.*theme);
    if (std::string_view(c.name) == "muted") out += fmt::format(".fig text.m{{fill:{}}}", c.*theme);
    out += '\n';
  }
  return out;
}

}  // namespace

std::string figure_style() {
  return ".fig{font-family:\"Helvetica Neue\",Arial,\"Liberation Sans\",sans-serif;font-size:12px;"
         "font-variant-numeric:tabular-nums}\n" +
         colour_rules(&Colour::light) +
         ".fig text.s{font-size:11px}.fig text.b{font-weight:600}.fig text.h{font-size:16px;font-weight:600}"
         ".fig text.on{fill:#fff}.fig text.on-light{fill:#18222d}\n"
         ".dots{stroke-width:5;stroke-linecap:round;stroke-opacity:.5}.dash{stroke-dasharray:4 "
         "3}.thick{stroke-width:2}.faint{fill-opacity:.45}\n"
         "@media (prefers-color-scheme:dark){\n" +
         colour_rules(&Colour::dark) + ".fig text.on{fill:#0e141a}.fig text.on-light{fill:#0e141a}\n}\n";
}

}  // namespace moeplan::cli
