#include "planner/reproduction/row_list.hpp"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <set>

#include "model/text/line_reader.hpp"
#include "model/text/unit_text.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::reproduction {

namespace {

constexpr std::string_view kHeader = "paper,id,where_in_paper,quantity,paper_value,tolerance,scored,declared";
constexpr std::size_t kFields = 8;

std::optional<double> number_of(std::string_view text) {
  const Parsed<double> parsed = parse_number(text);
  if (!std::holds_alternative<double>(parsed)) return std::nullopt;
  return std::get<double>(parsed);
}

std::optional<Tolerance> tolerance_of(const std::string& text) {
  if (text == "exact") return Tolerance{Agreement::Equal, 0, text};
  if (text == "same setting") return Tolerance{Agreement::SameSetting, 0, text};
  const bool is_limit = text.starts_with("> "), is_fraction = text.ends_with('%');
  const auto number =
      number_of(is_limit ? text.substr(2) : text.substr(0, text.size() - (is_fraction ? std::size_t{1} : 0)));
  if (!number || is_limit == is_fraction) return std::nullopt;
  return is_limit ? Tolerance{Agreement::Above, *number, text} : Tolerance{Agreement::Within, *number / 100, text};
}

}  // namespace

std::vector<PaperRow> read_row_list(const std::filesystem::path& file) {
  LineReader lines(file);
  Diagnostics wrong;
  std::vector<PaperRow> rows;
  std::set<std::string> ids;
  const auto header = lines.next();
  if (!header || *header != kHeader) lines.fail(1, fmt::format("the header must be {}", kHeader));
  while (const auto line = lines.next()) {
    const Location where{lines.file(), lines.line()};
    const auto fields = profiler::csv_fields(*line);
    if (!fields || fields->size() != kFields) {
      wrong.add(where, "", fmt::format("a row has {} fields", kFields));
      continue;
    }
    const std::vector<std::string>& f = *fields;
    PaperRow row{
        .paper = f[0], .id = f[1], .place = f[2], .quantity = f[3], .tolerance = {}, .declared = f[7], .where = where};
    if (const auto value = number_of(f[4])) {
      row.value = *value;
    } else {
      wrong.add(where, "paper_value", fmt::format("{} is not a number", in_quotes(f[4])));
    }
    if (auto tolerance = tolerance_of(f[5])) {
      row.tolerance = std::move(*tolerance);
    } else {
      wrong.add(where, "tolerance",
                fmt::format("{} is no tolerance; expected e.g. 10%, exact, > 1 or same setting", in_quotes(f[5])));
    }
    row.is_scored = f[6] == "yes";
    if (f[6] != "yes" && f[6] != "no")
      wrong.add(where, "scored", fmt::format("{} is neither yes nor no", in_quotes(f[6])));
    if (!ids.insert(row.id).second) wrong.add(where, "id", fmt::format("{} occurs twice", in_quotes(row.id)));
    rows.push_back(std::move(row));
  }
  wrong.throw_if_any();
  return rows;
}

bool agrees(const PaperRow& row, double predicted, bool is_same_setting) {
  constexpr double kRounding = 1e-12;
  switch (row.tolerance.agreement) {
    case Agreement::Within: return std::abs(predicted / row.value - 1) <= row.tolerance.value + kRounding;
    case Agreement::Equal: return std::abs(predicted - row.value) <= kRounding;
    case Agreement::Above: return predicted > row.tolerance.value;
    case Agreement::SameSetting: return is_same_setting;
  }
  return false;
}

}  // namespace moeplan::reproduction
