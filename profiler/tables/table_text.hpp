// Helpers that split lines of text tables and parse their numbers.
#pragma once

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan::profiler {

/// The parts of `text` between separators; "a,,b" has three.
[[nodiscard]] inline std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  for (std::size_t end = text.find(separator); end != std::string_view::npos; end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

/// The fields of a line of CSV, unquoted: a field may be in double quotes, and a doubled quote inside is a literal one.
/// None if a quote is not closed.
[[nodiscard]] inline std::optional<std::vector<std::string>> csv_fields(std::string_view line) {
  std::vector<std::string> fields(1);
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const bool is_double = is_quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"';
    if (is_double) {
      fields.back() += '"';
      ++i;
    } else if (line[i] == '"') {
      is_quoted = !is_quoted;
    } else if (line[i] == ',' && !is_quoted) {
      fields.emplace_back();
    } else {
      fields.back() += line[i];
    }
  }
  if (is_quoted) return std::nullopt;
  return fields;
}

/// The text as a field of CSV: in quotes where it needs them. The reverse of csv_fields().
[[nodiscard]] inline std::string csv_field(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c == '\n' || c == '\r' ? ' ' : c;  // tables have a row a line
  }
  return out + '"';
}

/// The words of a line, separated by blanks and control characters.
[[nodiscard]] inline std::vector<std::string_view> words(std::string_view line) {
  std::vector<std::string_view> out;
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  for (std::size_t i = 0; i < line.size();) {
    if (is_blank(line[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < line.size() && !is_blank(line[end])) ++end;
    out.push_back(line.substr(i, end - i));
    i = end;
  }
  return out;
}

/// The text without leading and trailing blanks.
[[nodiscard]] inline std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// The text as an integer >= 0; none if any part of it is something else.
[[nodiscard]] inline std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

/// The text as a finite decimal number ("4e-07", "12844.", "-1"); none if any part of it is something else.
[[nodiscard]] inline std::optional<double> decimal_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace moeplan::profiler
