#include "cli/pages/text/wrapping.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace moeplan::cli {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// "12", "+3.4": its unit follows.
bool is_number(std::string_view word) {
  if (!word.empty() && (word.front() == '+' || word.front() == '-')) word.remove_prefix(1);
  return !word.empty() && is_digit(word.front()) && is_digit(word.back());
}

/// Where the word that begins at `begin` ends: a number ends with its unit.
std::size_t end_of_word(std::string_view text, std::size_t begin) {
  const auto next_space = [&](std::size_t from) { return std::min(text.find(' ', from), text.size()); };
  const std::size_t end = next_space(begin);
  if (end == text.size() || !is_number(text.substr(begin, end - begin))) return end;
  const std::size_t unit = next_space(end + 1);
  return is_number(text.substr(end + 1, unit - end - 1)) ? end : unit;
}

}  // namespace

std::string labelled(std::string_view label, std::string_view text, std::size_t column) {
  std::string out, line = label.empty() ? std::string(column, ' ') : fmt::format("  {:<{}}", label, column - 2);
  const auto is_begun = [&] { return !line.empty() && line.back() != ' '; };
  if (is_begun()) line += ' ';
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = end_of_word(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    if (is_begun() && line.size() + 1 + word.size() > kPageColumns) {
      out += line + '\n';
      line = std::string(column, ' ');
    } else if (is_begun()) {
      line += ' ';
    }
    line += word;
    begin = end + 1;
  }
  return out + line + '\n';
}

std::string in_lines(std::string_view text) { return labelled("", text, 2); }

std::string shortened(const std::string& text) {
  constexpr std::size_t kLine = kPageColumns - kTextColumn;
  return text.size() <= kLine ? text : text.substr(0, kLine - 3) + "...";
}

}  // namespace moeplan::cli
