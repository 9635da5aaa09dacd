#include "cli/pages/text/colour.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdlib>

#include "cli/pages/text/wrapping.hpp"

namespace moeplan::cli {

namespace {

constexpr std::string_view kBold = "\033[1m", kRed = "\033[31m", kPlain = "\033[0m";
constexpr std::array<std::string_view, 6> kFailures{"no feasible plan", "FAILED", "FAIL", "WRONG", "MISSED", "REFUSED"};

/// The length of the label of a labelled line, which begins at column 2; 0 without one.
std::size_t label_size(std::string_view line) {
  const bool has_text = line.size() > kTextColumn && line[kTextColumn - 1] == ' ' && line[kTextColumn] != ' ';
  if (!has_text || !line.starts_with("  ") || std::isalpha(static_cast<unsigned char>(line[2])) == 0) return 0;
  const std::size_t end = line.find_last_not_of(' ', kTextColumn - 1) + 1;
  return line.substr(2, end - 2).find("  ") == std::string_view::npos ? end - 2 : 0;
}

std::string in_colour(std::string_view colour, std::string_view text) {
  return fmt::format("{}{}{}", colour, text, kPlain);
}

/// The text with its first failure in red.
std::string with_failure(std::string_view text) {
  for (const std::string_view failure : kFailures) {
    const std::size_t at = text.find(failure);
    if (at == std::string_view::npos) continue;
    return fmt::format("{}{}{}", text.substr(0, at), in_colour(kRed, failure), text.substr(at + failure.size()));
  }
  return std::string(text);
}

}  // namespace

bool is_coloured(std::FILE* file) {
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value ? value : "");
  };
  return ::isatty(::fileno(file)) != 0 && set("NO_COLOR").empty() && set("TERM") != "dumb";
}

std::string coloured(std::string_view page) {
  std::string out;
  for (std::size_t begin = 0; begin < page.size();) {
    const std::size_t end = std::min(page.find('\n', begin), page.size());
    const std::string_view line = page.substr(begin, end - begin);
    const std::size_t label = label_size(line);
    if (label > 0) out += "  " + in_colour(kBold, line.substr(2, label));
    out += with_failure(line.substr(label > 0 ? label + 2 : 0));
    if (end < page.size()) out += '\n';
    begin = end + 1;
  }
  return out;
}

void print_page(std::FILE* file, std::string_view page) {
  fmt::print(file, "{}", is_coloured(file) ? coloured(page) : std::string(page));
}

}  // namespace moeplan::cli
