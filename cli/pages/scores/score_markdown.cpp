#include "cli/pages/scores/score_markdown.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "cli/pages/page_parts.hpp"
#include "model/text/reader.hpp"
#include "model/text/unit_text.hpp"
#include "profiler/scores/collective_score.hpp"

namespace moeplan::cli {

namespace {

using profiler::ErrorSummary;
using profiler::RunGroup;
using profiler::RunStatus;
using profiler::RunSummary;
using profiler::ScoredRow;
using profiler::TableKind;

constexpr std::size_t kFarthest = 8;

std::string file_name(const std::string& file) { return std::filesystem::path(file).filename().string(); }

/// The median, MAPE, 90th percentile and bias of a summary, as cells.
template <class Summary>
std::string error_cells(const Summary& s) {
  if (s.scored == 0) return " | | | |";
  return fmt::format(" {} | {} | {} | {} |", in_percent(s.median), in_percent(s.mape), in_percent(s.p90),
                     signed_percent(s.bias));
}

std::string held_out_cells(const ErrorSummary& s) {
  return s.scored == 0 ? " 0 | | |"
                       : fmt::format(" {} | {} | {} |", s.scored, in_percent(s.mape), signed_percent(s.bias));
}

// --- The first table ---

/// What a row measures, from the name of its group: of operators the kind ("gemm h100_sxm ..."), of collectives the
/// machine too ("all_reduce dgx_h100 ...") and whether they are the fastest of its sources, of dispatches the
/// dispatcher
/// ("dispatch deepep ...").
std::string kind_of(TableKind kind, const std::string& group) {
  const std::size_t first = group.find(' ');
  if (kind == TableKind::Operators || first == std::string::npos) return group.substr(0, first);
  const std::string second = group.substr(first + 1, group.find(' ', first + 1) - first - 1);
  const bool is_fastest = group.ends_with(profiler::kFastestOfSources);
  return (kind == TableKind::Collectives ? "collectives, " : "dispatch, ") + second +
         std::string(is_fastest ? profiler::kFastestOfSources : "");
}

std::vector<profiler::ScoredGroup> kinds_of(const ScoreReport& report) {
  std::vector<ScoredRow> rows = report.rows;
  for (ScoredRow& row : rows) {
    for (std::string& group : row.groups) group = kind_of(report.kind, group);
  }
  return profiler::score_groups(rows);
}

std::string summary_lines(const ScoreReport& report) {
  std::string out;
  if (report.runs) {
    const RunSummary s = profiler::summarise(report.runs->rows);
    out += fmt::format("| training iterations | {} | {} |{} | | |\n", s.rows, s.scored, error_cells(s));
    const RunSummary stated = stated_summary(*report.runs);
    if (stated.scored > 0 && stated.scored < s.scored) {
      out += fmt::format("| of these: precision, batches and sequence length stated | {} | {} |{} | | |\n", stated.rows,
                         stated.scored, error_cells(stated));
    }
    const auto add_memory = [&](const char* name, const RunSummary& of) {
      out += fmt::format("| {} | {} | {} | | {} | | {} | | | |\n", name, of.memory_rows, of.memory_rows,
                         in_percent(of.memory_mape), signed_percent(of.memory_bias));
    };
    if (s.memory_rows > 0) add_memory("their peak memory", s);
    if (stated.memory_rows > 0 && stated.memory_rows < s.memory_rows) add_memory("of these: stated likewise", stated);
    return out;
  }
  for (const profiler::ScoredGroup& kind : kinds_of(report)) {
    out += fmt::format("| {} | {} | {} |{}{}\n", kind.name, kind.all.rows, kind.all.scored, error_cells(kind.all),
                       held_out_cells(kind.held_out));
  }
  return out;
}

// --- Tables of operators, collectives, dispatches ---

std::string groups_in_detail(const ScoreReport& report) {
  std::string out =
      "\n| group | rows | median | MAPE | P90 | bias | held out | MAPE | bias "
      "|\n|---|---|---|---|---|---|---|---|---|\n";
  for (const profiler::ScoredGroup& g : report.groups) {
    if (g.all.scored > 0)
      out += fmt::format("| {} | {} |{}{}\n", g.name, g.all.scored, error_cells(g.all), held_out_cells(g.held_out));
  }
  return out;
}

std::string refused_in_detail(const std::map<std::string, std::size_t>& reasons) {
  std::string out = reasons.empty() ? "" : "\nRefused:\n\n";
  for (const auto& [reason, count] : reasons) out += fmt::format("- {} rows: {}\n", count, reason);
  return out;
}

std::string operators_in_detail(const ScoreReport& report) {
  std::map<std::string, std::size_t> reasons;
  for (const ScoredRow& r : report.rows) {
    if (!r.predicted) ++reasons[r.reason];
  }
  return groups_in_detail(report) + refused_in_detail(reasons);
}

// --- Tables of runs ---

std::string classes_in_detail(const RunReport& report) {
  std::string out =
      "\n| cluster | precision | rows | predicted | do not fit | median | MAPE | P90 | bias | memory MAPE |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const profiler::RunClass& c : report.classes) {
    out += fmt::format("| {} | {} | {} | {} | {} |{} {} |\n", c.cluster, c.precision, c.summary.rows, c.summary.scored,
                       c.summary.infeasible, error_cells(c.summary),
                       c.summary.memory_rows > 0 ? in_percent(c.summary.memory_mape) : "");
  }
  return out;
}

std::string changes_in_detail(const RunReport& report) {
  std::string lines;
  std::size_t changes = 0, right = 0;
  for (const RunGroup& g : report.groups) {
    if (g.kind != "delta" && g.kind != "ladder") continue;
    for (const profiler::RunChange& c : g.changes) {
      lines += fmt::format("| {} | {} | {} | {} | {} |\n", g.name, c.to, signed_percent(c.measured),
                           signed_percent(c.predicted), c.has_right_sign() ? "" : "wrong sign");
      if (g.kind == "delta") ++changes;
      if (g.kind == "delta" && c.has_right_sign()) ++right;
    }
  }
  if (lines.empty()) return "";
  return fmt::format(
             "\nChanges of one setting (`delta`: against the group's first run; `ladder`: against the run before), of "
             "time a "
             "token and GPU. {} of {} changes of `delta` groups have the measured sign.\n\n"
             "| group | run | measured | predicted | |\n|---|---|---|---|---|\n",
             right, changes) +
         lines;
}

std::string orders_in_detail(const RunReport& report) {
  std::string lines;
  for (const RunGroup& g : report.groups) {
    if (!g.spearman && !g.predicted_slope) continue;
    lines += fmt::format("| {} | {} |", g.name, g.scored);
    lines += g.spearman ? fmt::format(" {:.2f} |", *g.spearman) : " |";
    lines += g.regret ? fmt::format(" {} |", in_percent(*g.regret)) : " |";
    lines += g.measured_slope && g.predicted_slope
                 ? fmt::format(" {} | {} |\n", human(*g.measured_slope), human(*g.predicted_slope))
                 : " | |\n";
  }
  if (lines.empty()) return "";
  return "\nOrders (regret: how much slower than the best the run is that was predicted to be best) and slopes (time "
         "of a "
         "microbatch):\n\n| group | runs | Spearman | regret | measured slope | predicted slope |\n"
         "|---|---|---|---|---|---|\n" +
         lines;
}

std::string worst_in_detail(const RunReport& report) {
  const auto rows = profiler::farthest_off(report.rows, kFarthest);
  std::string out =
      rows.empty() ? "" : "\nFarthest off:\n\n| run | measured | predicted | error |\n|---|---|---|---|\n";
  for (const profiler::ScoredRun* r : rows) {
    out += fmt::format("| {} | {} | {} | {} |\n", report.table[r->row].id, human(*r->measured), human(*r->predicted),
                       signed_percent(r->error()));
  }
  return out;
}

std::string runs_in_detail(const RunReport& report) {
  std::map<std::string, std::size_t> reasons;
  std::string too_big;
  for (const profiler::ScoredRun& r : report.rows) {
    if (r.status == RunStatus::Refused) ++reasons[r.reason];
    if (r.status == RunStatus::Infeasible) too_big += fmt::format("- {}: {}\n", report.table[r.row].id, r.reason);
  }
  if (!too_big.empty()) too_big = "\nPredicted not to fit:\n\n" + too_big;
  return classes_in_detail(report) + changes_in_detail(report) + orders_in_detail(report) + worst_in_detail(report) +
         too_big + refused_in_detail(reasons);
}

}  // namespace

std::string score_markdown(const std::vector<ScoreReport>& reports) {
  std::string files, first, details;
  for (const ScoreReport& report : reports) {
    const std::string name = file_name(report.file);
    files += " " + name;
    first += summary_lines(report);
    details +=
        fmt::format("\n## {}\n{}", name, report.runs ? runs_in_detail(*report.runs) : operators_in_detail(report));
  }
  return fmt::format(
             "# Accuracy of the predictions\n\n"
             "| measured | rows | predicted | median error | MAPE | P90 | bias | held out | MAPE | bias |\n"
             "|---|---|---|---|---|---|---|---|---|---|\n{}\n"
             "Error = predicted / measured - 1, of time; the first three columns of errors are of its absolute value. "
             "Bias is the mean of ln(predicted / measured). Held out are rows to which no number was fitted; a table "
             "of "
             "iterations does not say which those are. Operators count from 1e8 FLOPs on.\n\n"
             "This page is written by `moeplan score{} --markdown PAGE`.\n",
             first, files) +
         details;
}

}  // namespace moeplan::cli
