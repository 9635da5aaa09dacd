#include "cli/pages/reproduction_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/pages/page_parts.hpp"

namespace moeplan::cli {

namespace {

using Json = nlohmann::ordered_json;
using reproduction::PaperResult;
using reproduction::RowResult;

const char* verdict(const RowResult& r) {
  if (!r.row.is_scored) return "calibrated";
  return r.passes ? "pass" : "FAIL";
}

std::string row_lines(const RowResult& r, std::size_t width) {
  std::string out = fmt::format("  {:<{}}  {:>8.4g}", r.row.id, width, r.row.value);
  if (r.predicted) {
    out += fmt::format("  {:>8.4g}  {:>7}", *r.predicted, signed_percent(*r.relative_error()));
  } else {
    out += fmt::format("  {:>8}  {:>7}", "-", "-");
  }
  out += fmt::format("  {:>12}  {}\n", r.row.tolerance.text, verdict(r));
  out += labelled("", fmt::format("{}: {}", r.row.place, r.row.quantity), 6);
  if (!r.reason.empty()) out += labelled("", "not computed: " + r.reason, 6);
  return out;
}

Json json_of(const RowResult& r) {
  Json row{{"paper", r.row.paper},       {"item", r.row.id},           {"place", r.row.place},
           {"quantity", r.row.quantity}, {"declared", r.row.declared}, {"expected", r.row.value}};
  row["got"] = r.predicted ? Json(*r.predicted) : Json();
  row["relative_error"] = r.predicted ? Json(*r.relative_error()) : Json();
  row["tolerance"] = r.row.tolerance.text;
  row["pass"] = r.passes;
  row["scored"] = r.row.is_scored;
  row["calibrated"] = !r.row.is_scored;
  if (!r.reason.empty()) row["reason"] = r.reason;
  return row;
}

}  // namespace

std::string reproduction_page(const PaperResult& result) {
  std::string out = fmt::format("{}: {}\n", result.paper, result.title);
  if (!result.declarations.empty()) out += "\n  declared\n";
  for (const reproduction::Declaration& d : result.declarations)
    out += labelled("", d.what, 4) + labelled("", fmt::format("({})", d.place), 6);
  std::size_t width = 3;
  for (const RowResult& r : result.rows) width = std::max(width, r.row.id.size());
  out += fmt::format("\n  {:<{}}  {:>8}  {:>8}  {:>7}  {:>12}\n", "row", width, "paper", "ours", "error", "tolerance");
  for (const RowResult& r : result.rows) out += row_lines(r, width);
  const auto calibrated =
      std::count_if(result.rows.begin(), result.rows.end(), [](const RowResult& r) { return !r.row.is_scored; });
  out += fmt::format("\n  {}: {} of {} scored rows pass{}\n", result.paper, result.passed(), result.scored(),
                     calibrated > 0 ? fmt::format("; {} calibrated", calibrated) : "");
  return out;
}

std::string reproduction_summary(const std::vector<PaperResult>& results) {
  std::int64_t passed = 0, scored = 0;
  for (const PaperResult& r : results) {
    passed += r.passed();
    scored += r.scored();
  }
  return fmt::format("all: {} of {} scored rows pass\n", passed, scored);
}

std::string reproduction_json(const std::vector<PaperResult>& results) {
  Json papers = Json::array(), rows = Json::array(), timing = Json::object();
  for (const PaperResult& result : results) {
    Json declarations = Json::array();
    for (const reproduction::Declaration& d : result.declarations)
      declarations.push_back({{"what", d.what}, {"place", d.place}});
    papers.push_back({{"paper", result.paper},
                      {"title", result.title},
                      {"declarations", std::move(declarations)},
                      {"scored", result.scored()},
                      {"passed", result.passed()}});
    for (const RowResult& r : result.rows) rows.push_back(json_of(r));
    timing[result.paper] = {{"wall_s", result.wall_s}};
  }
  const Json document{{"schema_version", 1}, {"papers", papers}, {"rows", rows}, {"timing", timing}};
  return document.dump(2) + "\n";
}

}  // namespace moeplan::cli
