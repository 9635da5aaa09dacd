#include "cli/pages/scores/score_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/pages/page_parts.hpp"
#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "planner/sweep/query/result_table.hpp"

namespace moeplan::cli {

namespace {

using Json = nlohmann::ordered_json;
using profiler::ErrorSummary;
using profiler::ScoredRow;

std::string_view kind_name(const ScoreReport& report) {
  return name_of(Names<profiler::TableKind>(profiler::kTableKindNames), report.kind);
}

/// Which rows are in groups.
std::string_view group_heading(const ScoreReport& report) {
  return report.kind == profiler::TableKind::Operators ? "from 1e8 FLOPs on" : "";
}

std::string group_table(const ScoreReport& report) {
  constexpr std::size_t kName = 46;
  constexpr const char* kNumbers = "{:>6}{:>7}{:>7}{:>7}{:>7}";
  std::string out = fmt::format("{:<{}}", group_heading(report), kName) +
                    fmt::format(kNumbers, "rows", "MAPE", "median", "P90", "bias") +
                    fmt::format("{:>6}{:>7}{:>7}\n", "held", "MAPE", "bias");
  for (const profiler::ScoredGroup& g : report.groups) {
    if (g.all.scored == 0) continue;
    const bool is_long = g.name.size() > kName;  // then in a line of its own
    out += (is_long ? g.name + '\n' : "") + fmt::format("{:<{}}", is_long ? "" : g.name, kName) +
           fmt::format(kNumbers, g.all.scored, in_percent(g.all.mape), in_percent(g.all.median), in_percent(g.all.p90),
                       in_percent(g.all.bias)) +
           fmt::format("{:>6}", g.held_out.scored);
    if (g.held_out.scored > 0)
      out += fmt::format("{:>7}{:>7}", in_percent(g.held_out.mape), in_percent(g.held_out.bias));
    out += '\n';
  }
  return out;
}

std::string worst_rows(const ScoreReport& report) {
  constexpr std::size_t kShown = 5;
  std::vector<const ScoredRow*> rows;
  for (const ScoredRow& r : report.rows) {
    if (r.predicted) rows.push_back(&r);
  }
  const auto off = [](const ScoredRow* r) { return std::abs(std::log(*r->predicted / r->measured)); };
  const std::size_t shown = std::min(kShown, rows.size());
  std::partial_sort(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(shown), rows.end(),
                    [&](const ScoredRow* a, const ScoredRow* b) { return off(a) != off(b) ? off(a) > off(b) : a < b; });
  rows.resize(shown);
  std::string out = rows.empty() ? "" : "\nfarthest off\n";
  for (const ScoredRow* r : rows) {
    out +=
        labelled(fmt::format("line {:<6}", r->id),
                 fmt::format("{}: {} predicted, {} measured", r->text, human(*r->predicted), human(r->measured)), 14);
  }
  return out;
}

std::string refusals(const ScoreReport& report) {
  std::map<std::string, std::size_t> reasons;
  for (const ScoredRow& r : report.rows) {
    if (!r.predicted) ++reasons[r.reason];
  }
  std::string out = reasons.empty() ? "" : "\nrefused\n";
  for (const auto& [reason, count] : reasons) out += labelled(fmt::format("{:>7}", count), reason, 11);
  return out;
}

Json json_of(const ErrorSummary& s) {
  return {{"n", s.rows},        {"scored", s.scored},     {"refused", s.refused},
          {"infeasible", 0},    {"mape", s.mape},         {"median_error", s.median},
          {"p90_error", s.p90}, {"worst_error", s.worst}, {"bias", s.bias}};
}

Json json_of(const ScoredRow& r) {
  Json out{{"id", r.id},       {"measured_s", r.measured.value()},         {"predicted_s", nullptr},
           {"error", nullptr}, {"status", r.predicted ? "ok" : "refused"}, {"reason", r.reason}};
  if (r.predicted) out["predicted_s"] = r.predicted->value();
  if (r.predicted) out["error"] = r.error();
  return out;
}

/// The rows of a table of runs, with columns for memory and for what the predictions take for granted.
void add_runs(const RunReport& report, sweep::ResultTable& table) {
  if (table.columns.back() == "reason") {
    for (const char* name : {"measured_memory_bytes", "predicted_memory_bytes", "assumed", "approximations"})
      table.columns.emplace_back(name);
  }
  for (const profiler::ScoredRun& r : report.rows) {
    sweep::Cell measured, predicted, error, measured_memory, predicted_memory;
    if (r.measured) measured = r.measured->value() * 1e6;
    if (r.predicted) predicted = r.predicted->value() * 1e6;
    if (r.has_error()) error = r.error();
    if (r.measured_memory) measured_memory = r.measured_memory->value();
    if (r.predicted_memory) predicted_memory = r.predicted_memory->value();
    table.rows.push_back({report.file, report.table[r.row].id, measured, predicted, error,
                          std::string(status_name(r.status)), r.reason, measured_memory, predicted_memory,
                          fmt::format("{}", fmt::join(r.assumed, "; ")),
                          fmt::format("{}", fmt::join(r.approximations, "; "))});
  }
}

}  // namespace

std::string score_page(const std::vector<ScoreReport>& reports) {
  std::string out;
  for (const ScoreReport& report : reports) {
    if (report.runs) {
      out += run_page(*report.runs);
      continue;
    }
    const ErrorSummary all = profiler::summarise(report.rows);
    out += fmt::format("{}: {} measured {}, {} predicted, {} refused\n", report.file, all.rows, kind_name(report),
                       all.scored, all.refused);
    if (all.scored > 0) {
      out += fmt::format("error of time: MAPE {}, median {}, P90 {}, bias {}\n\n", in_percent(all.mape),
                         in_percent(all.median), in_percent(all.p90), in_percent(all.bias));
      out += group_table(report);
    }
    out += worst_rows(report) + refusals(report);
  }
  return out;
}

std::string score_json(const std::vector<ScoreReport>& reports) {
  Json tables = Json::array();
  for (const ScoreReport& report : reports) {
    if (report.runs) {
      tables.push_back(run_json(*report.runs));
      continue;
    }
    Json rows = Json::array(), groups = Json::array();
    for (const ScoredRow& r : report.rows) rows.push_back(json_of(r));
    for (const profiler::ScoredGroup& g : report.groups) {
      Json group{{"name", g.name}, {"kind", kind_name(report)}, {"summary", json_of(g.all)}};
      group["held_out"] = json_of(g.held_out);
      groups.push_back(std::move(group));
    }
    tables.push_back({{"file", report.file},
                      {"kind", kind_name(report)},
                      {"rows", std::move(rows)},
                      {"summary", json_of(profiler::summarise(report.rows))},
                      {"groups", std::move(groups)}});
  }
  return Json{{"schema_version", 1}, {"tables", std::move(tables)}}.dump(2) + "\n";
}

std::string score_csv(const std::vector<ScoreReport>& reports) {
  sweep::ResultTable table{
      .columns = {"file", "id", "measured_us", "predicted_us", "error", "status", "reason"}, .rows = {}, .notes = {}};
  for (const ScoreReport& report : reports) {
    for (const ScoredRow& r : report.rows) {
      sweep::Cell predicted, error;
      if (r.predicted) predicted = r.predicted->value() * 1e6;
      if (r.predicted) error = r.error();
      table.rows.push_back({report.file, r.id, r.measured.value() * 1e6, predicted, error,
                            r.predicted ? std::string("ok") : "refused", r.reason});
    }
    if (report.runs) add_runs(*report.runs, table);
  }
  for (std::vector<sweep::Cell>& row : table.rows) row.resize(table.columns.size());
  return sweep::csv_of(table);
}

}  // namespace moeplan::cli
