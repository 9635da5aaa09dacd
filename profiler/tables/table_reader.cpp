#include "profiler/tables/table_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/line_reader.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::profiler {

namespace {

bool is_skipped(std::string_view line) { return trimmed(line).empty() || line.front() == '#'; }

void check_columns(const std::vector<std::string>& names, const TableFormat& format, const Location& where,
                   Diagnostics& wrong) {
  const std::vector<std::string>& known = format.columns;
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      wrong.add(
          where, "",
          fmt::format("{} is no column of a table of {}{}", in_quotes(name), format.noun, suggestion(name, known)));
    } else if (std::count(names.begin(), names.end(), name) > 1) {
      wrong.add(where, name, "stands twice");
    }
  }
  for (const std::string& name : format.required) {
    if (std::find(names.begin(), names.end(), name) == names.end()) wrong.add(where, name, "column is missing");
  }
}

}  // namespace

TableLine::TableLine(const std::vector<std::string>& names, std::vector<std::string> fields, Location where,
                     Diagnostics& wrong)
    : names_(names), fields_(std::move(fields)), where_(std::move(where)), wrong_(wrong) {}

std::string TableLine::text(std::string_view name) const {
  const auto it = std::find(names_.begin(), names_.end(), name);
  if (it == names_.end()) return "";
  return std::string(trimmed(fields_[static_cast<std::size_t>(it - names_.begin())]));
}

std::optional<std::int64_t> TableLine::optional_whole(std::string_view name) const {
  const std::string value = text(name);
  if (value.empty()) return std::nullopt;
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  const auto number = whole_number(value);
  if (number && *number <= kMost) return *number;
  complain(name, fmt::format("is {}; expected a whole number", in_quotes(value)));
  return std::nullopt;
}

std::int64_t TableLine::whole(std::string_view name) const { return optional_whole(name).value_or(0); }

std::int64_t TableLine::positive(std::string_view name) const {
  const std::string value = text(name);
  const auto number = whole_number(value);
  if (number && *number >= 1) return *number;
  complain(name, fmt::format("is {}; expected a whole number from 1 on", in_quotes(value)));
  return 1;
}

void TableLine::complain(std::string_view name, std::string message) const {
  wrong_.add(where_, std::string(name), std::move(message));
}

Seconds TableLine::time(std::string_view name) const {
  const std::string value = text(name);
  const auto number = decimal_number(value);
  if (number && *number > 0) return Seconds(*number * 1e-6);
  complain(name, fmt::format("is {}; expected a time above 0", in_quotes(value)));
  return Seconds(1);
}

void read_table(const std::filesystem::path& path, const TableFormat& format,
                const std::function<void(const TableLine&)>& take) {
  LineReader lines(path);
  Diagnostics wrong;
  std::vector<std::string> names;
  bool has_rows = false;
  while (const auto line = lines.next()) {
    if (is_skipped(*line)) continue;
    const Location where{lines.file(), lines.line()};
    auto fields = csv_fields(*line);
    if (!fields) {
      wrong.add(where, "", "has a quote that is not closed");
    } else if (names.empty()) {
      names = std::move(*fields);
      check_columns(names, format, where, wrong);
      wrong.throw_if_any();
    } else if (fields->size() != names.size()) {
      wrong.add(where, "", fmt::format("has {} values for {} columns", fields->size(), names.size()));
    } else {
      take(TableLine(names, std::move(*fields), where, wrong));
      has_rows = true;
    }
    if (wrong.is_full()) break;
  }
  if (!has_rows && wrong.empty()) wrong.add({path.string()}, "", "holds no measurement");
  wrong.throw_if_any();
}

std::vector<std::string> header_of(const std::filesystem::path& path) {
  LineReader lines(path);
  while (const auto line = lines.next()) {
    if (!is_skipped(*line)) return csv_fields(*line).value_or(std::vector<std::string>{});
  }
  return {};
}

}  // namespace moeplan::profiler
