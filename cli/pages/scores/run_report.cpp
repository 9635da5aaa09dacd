#include "cli/pages/scores/run_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/pages/page_parts.hpp"
#include "model/text/unit_text.hpp"

namespace moeplan::cli {

namespace {

using Json = nlohmann::ordered_json;
using profiler::RunGroup;
using profiler::RunStatus;
using profiler::RunSummary;
using profiler::ScoredRun;

std::string errors_text(const RunSummary& s, const RunSummary& stated) {
  std::string out =
      fmt::format("  error of time    MAPE {}, median {}, P90 {}, worst {}, bias {}\n", in_percent(s.mape),
                  in_percent(s.median), in_percent(s.p90), in_percent(s.worst), signed_percent(s.bias));
  if (stated.scored > 0 && stated.scored < s.scored) {
    out += fmt::format("    of {} rows that state precision, batches and sequence length\n", stated.scored);
    out += fmt::format("                   MAPE {}, median {}, P90 {}, worst {}, bias {}\n", in_percent(stated.mape),
                       in_percent(stated.median), in_percent(stated.p90), in_percent(stated.worst),
                       signed_percent(stated.bias));
  }
  if (s.memory_rows > 0) {
    out += fmt::format("  error of memory  MAPE {}, bias {}, over {} rows\n", in_percent(s.memory_mape),
                       signed_percent(s.memory_bias), s.memory_rows);
  }
  return out;
}

std::string class_table(const RunReport& report) {
  std::string out =
      fmt::format("\n{:<14}{:<13}{:>5}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>8}{:>12}\n", "cluster", "precision", "rows",
                  "scored", "refused", "too big", "MAPE", "median", "worst", "bias", "memory MAPE");
  for (const profiler::RunClass& c : report.classes) {
    const RunSummary& s = c.summary;
    out += fmt::format("{:<14}{:<13}{:>5}{:>8}{:>8}{:>8}", c.cluster, c.precision.empty() ? "-" : c.precision, s.rows,
                       s.scored, s.refused, s.infeasible);
    const auto shown = [](bool is_known, const std::string& text) { return is_known ? text : std::string("-"); };
    out +=
        fmt::format("{:>8}{:>8}{:>8}{:>8}{:>12}\n", shown(s.scored > 0, in_percent(s.mape)),
                    shown(s.scored > 0, in_percent(s.median)), shown(s.scored > 0, in_percent(s.worst)),
                    shown(s.scored > 0, signed_percent(s.bias)), shown(s.memory_rows > 0, in_percent(s.memory_mape)));
  }
  return out;
}

std::string group_line(const RunGroup& g) {
  std::string out = fmt::format("{} ({} of {} rows)", g.name, g.scored, g.rows);
  if (g.spearman) out += fmt::format(": Spearman {:.2f}", *g.spearman);
  if (g.regret) out += fmt::format(", regret {}", in_percent(*g.regret));
  if (g.measured_slope && g.predicted_slope) {
    out += fmt::format(": a microbatch takes {}, predicted {} ({})", human(*g.measured_slope),
                       human(*g.predicted_slope), signed_percent(*g.predicted_slope / *g.measured_slope - 1));
  }
  if (g.spread)
    out += fmt::format(": measured within {}, no prediction below MAPE {}", in_percent(*g.spread),
                       in_percent(g.least_mape.value_or(0)));
  if (g.right) out += fmt::format(": {} right", *g.right);
  out = in_lines(out);
  for (const profiler::RunChange& c : g.changes) {
    out += fmt::format("    {:<51} measured {:>6}, predicted {:>6}{}\n", c.to, signed_percent(c.measured),
                       signed_percent(c.predicted), c.has_right_sign() ? "" : "  wrong");
  }
  return out;
}

/// Repeats say one number a group; together they are the noise floor.
std::string repeats_text(const RunReport& report) {
  std::vector<double> floors, spreads;
  for (const RunGroup& g : report.groups) {
    if (g.least_mape) floors.push_back(*g.least_mape);
    if (g.spread) spreads.push_back(*g.spread);
  }
  if (floors.empty()) return "";
  std::sort(spreads.begin(), spreads.end());
  double sum = 0;
  for (const double f : floors) sum += f;
  return "\nrepeats\n" +
         in_lines(fmt::format("{} jobs measured on several releases differ by {} in the median, {} at "
                              "worst; MAPE over them cannot be below {}",
                              floors.size(), in_percent(spreads[spreads.size() / 2]), in_percent(spreads.back()),
                              in_percent(sum / static_cast<double>(floors.size()))));
}

std::string groups_text(const RunReport& report) {
  std::string out;
  std::size_t signs = 0, right = 0;
  for (const RunGroup& g : report.groups) {
    if (g.kind != "repeat") out += group_line(g);
    if (g.kind != "delta") continue;
    signs += g.changes.size();
    right += static_cast<std::size_t>(
        std::count_if(g.changes.begin(), g.changes.end(), [](const auto& c) { return c.has_right_sign(); }));
  }
  if (signs > 0) out += fmt::format("  of {} differences of one knob, {} have the right sign\n", signs, right);
  return repeats_text(report) + (out.empty() ? "" : "\ngroups\n" + out);
}

/// Texts with the number of rows that have them, most frequent first.
std::string counted(const std::string& title, const std::map<std::string, std::size_t>& counts, std::size_t most) {
  if (counts.empty()) return "";
  std::vector<std::pair<std::string, std::size_t>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string out = "\n" + title + "\n";
  for (std::size_t i = 0; i < std::min(most, sorted.size()); ++i)
    out += labelled(fmt::format("{:>5}", sorted[i].second), sorted[i].first, 9);
  if (sorted.size() > most) out += fmt::format("         and {} more, in --json\n", sorted.size() - most);
  return out;
}

std::string reasons_text(const RunReport& report) {
  constexpr std::size_t kMost = 24;
  std::map<std::string, std::size_t> refused, assumed, approximations;
  std::string infeasible;
  for (const ScoredRun& r : report.rows) {
    if (r.status == RunStatus::Refused) ++refused[r.reason];
    if (r.status == RunStatus::Infeasible) infeasible += labelled(report.table[r.row].id, r.reason, 57);
    for (const std::string& text : r.assumed) ++assumed[text];
    for (const std::string& text : r.approximations) ++approximations[text];
  }
  std::string out = counted("refused", refused, kMost);
  if (!infeasible.empty()) out += "\ndoes not fit\n" + infeasible;
  out += counted("expressed roughly", approximations, kMost);
  return out + counted("taken for empty columns", assumed, kMost);
}

std::string worst_runs(const RunReport& report) {
  constexpr std::size_t kShown = 8;
  const std::vector<const ScoredRun*> rows = profiler::farthest_off(report.rows, kShown);
  std::string out = rows.empty() ? "" : "\nfarthest off\n";
  for (const ScoredRun* r : rows) {
    out += labelled(report.table[r->row].id,
                    fmt::format("{} predicted, {} measured", human(*r->predicted), human(*r->measured)), 60);
  }
  return out;
}

template <class Q>
Json value_or_null(const std::optional<Q>& quantity) {
  return quantity ? Json(quantity->value()) : Json(nullptr);
}

Json json_of(const RunSummary& s) {
  return {
      {"n", s.rows},    {"scored", s.scored},           {"refused", s.refused},         {"infeasible", s.infeasible},
      {"mape", s.mape}, {"median_error", s.median},     {"p90_error", s.p90},           {"worst_error", s.worst},
      {"bias", s.bias}, {"memory_rows", s.memory_rows}, {"memory_mape", s.memory_mape}, {"memory_bias", s.memory_bias}};
}

Json json_of(const ScoredRun& r, const profiler::RunRow& row) {
  Json out{{"id", row.id},
           {"measured_s", value_or_null(r.measured)},
           {"predicted_s", value_or_null(r.predicted)},
           {"error", r.has_error() ? Json(r.error()) : Json(nullptr)},
           {"status", status_name(r.status)},
           {"reason", r.reason},
           {"measured_memory_bytes", value_or_null(r.measured_memory)},
           {"predicted_memory_bytes", value_or_null(r.predicted_memory)}};
  out["assumed"] = r.assumed;
  out["approximations"] = r.approximations;
  return out;
}

Json json_of(const RunGroup& g) {
  Json out{{"name", g.name}, {"kind", g.kind}, {"n", g.rows}, {"scored", g.scored}};
  if (!g.changes.empty()) {
    Json changes = Json::array();
    for (const profiler::RunChange& c : g.changes) {
      changes.push_back({{"from", c.from},
                         {"to", c.to},
                         {"measured", c.measured},
                         {"predicted", c.predicted},
                         {"right_sign", c.has_right_sign()}});
    }
    out["changes"] = std::move(changes);
  }
  const auto set = [&](const char* key, const std::optional<double>& value) {
    if (value) out[key] = *value;
  };
  set("spearman", g.spearman);
  set("regret", g.regret);
  if (g.measured_slope) out["measured_slope_s"] = g.measured_slope->value();
  if (g.predicted_slope) out["predicted_slope_s"] = g.predicted_slope->value();
  set("spread", g.spread);
  set("least_mape", g.least_mape);
  if (g.right) out["right"] = *g.right;
  return out;
}

}  // namespace

std::string_view status_name(RunStatus status) {
  switch (status) {
    case RunStatus::Ok: return "ok";
    case RunStatus::Refused: return "refused";
    case RunStatus::Infeasible: return "infeasible";
  }
  return "";
}

RunSummary stated_summary(const RunReport& report) {
  return profiler::summarise(profiler::with_stated_work(report.table, report.rows));
}

std::string run_page(const RunReport& report) {
  const RunSummary all = profiler::summarise(report.rows);
  std::string out = fmt::format("{}: {} measured runs, {} scored, {} refused, {} do not fit\n", report.file, all.rows,
                                all.scored, all.refused, all.infeasible);
  if (all.scored > 0) out += errors_text(all, stated_summary(report));
  return out + class_table(report) + groups_text(report) + worst_runs(report) + reasons_text(report);
}

Json run_json(const RunReport& report) {
  Json rows = Json::array(), groups = Json::array(), classes = Json::array();
  for (const ScoredRun& r : report.rows) rows.push_back(json_of(r, report.table[r.row]));
  for (const RunGroup& g : report.groups) groups.push_back(json_of(g));
  for (const profiler::RunClass& c : report.classes)
    classes.push_back({{"cluster", c.cluster}, {"precision", c.precision}, {"summary", json_of(c.summary)}});
  Json out{{"file", report.file}, {"kind", "runs"}};
  out["rows"] = std::move(rows);
  out["summary"] = json_of(profiler::summarise(report.rows));
  out["summary_of_stated_work"] = json_of(stated_summary(report));
  out["groups"] = std::move(groups);
  out["classes"] = std::move(classes);
  return out;
}

}  // namespace moeplan::cli
