// How the rows of a paper are computed: configs/papers/PAPER.yaml. A row is an aggregate of a table, a table is made of
// the cases of a sweep or of another table. Nothing else computes a row, and no result stands in the file.
//
//   title: "Parm (INFOCOM 2024)"
//   declarations:                     # inputs that the paper does not give, and readings of ambiguous text
//     - {what: "top-2 gating", place: "not in the text"}
//   sweeps:
//     grid: parm_table3_a             # a shipped sweep,
//     aas: {sweep: parm_table3_a, axes: {schedule: [parm_s2, parm_s2_aas]}}   # one with other settings,
//     layers: {kind: layer, base: ..., axes: ...}                             # or one as in configs/sweeps
//   tables:
//     times: {from: grid, pivot: schedule}     # a column for each schedule; `value: NAME` for another output
//     cells: {from: times, where: tp > 1, per: [tp, esp], mean: {s1: baseline / parm_s1}}
//     fitted: {from: times, per: [tp], nearest: {to: 1.95, of: baseline / parm_s1}}    # calibration: one row a group
//   rows:
//     parm.t4.s1.a.lowest: {from: cells, min: s1}
//     parm.abs.min: {missing: "needs ..."}                           # cannot be computed: fails with this reason
//     tutel.t6.argmin.16: {from: regrets, one: lin2, holds: lin2 <= lin4}      # tolerance "same setting"
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/reproduction/case_table.hpp"
#include "planner/reproduction/row_list.hpp"

namespace moeplan::reproduction {

/// An input that the paper does not give or that can be read in several senses.
struct Declaration {
  std::string what;
  std::string place;  // in the paper, or why it is not there
};

/// A table made of a sweep's cases or of another table, in this order: pivot, where, nearest or
/// aggregation.
struct TableSpec {
  std::string name;
  std::string from;
  std::string pivot;  // axis of the sweep; "": none
  std::string value;  // of the pivot
  std::optional<Formula> where;
  std::vector<std::string> per;
  std::optional<Formula> nearest;  // keeps the row of each group whose value is nearest to `nearest_to`
  double nearest_to = 0;
  std::vector<std::pair<std::string, Aggregation>> columns;  // empty: all rows and columns are kept
  Location location;
};

/// How one row is computed, or why it cannot be.
struct RowSpec {
  PaperRow row;
  std::string from;
  std::optional<Formula> where;
  Aggregation value;
  std::optional<Formula> holds;  // for SameSetting: must hold in all rows
  std::string missing;
  Location location;
};

struct Paper {
  std::string name;
  std::string title;
  std::vector<Declaration> declarations;
  std::vector<std::pair<std::string, sweep::SweepSpec>> sweeps;
  std::vector<TableSpec> tables;  // in an order in which each uses sweeps and preceding tables
  std::vector<RowSpec> rows;      // in the order of the list
};

/// The names of the papers, those of configs/papers/*.yaml.
[[nodiscard]] std::vector<std::string> paper_names();

/// Reads a paper strictly: every row of the list must occur once, and every expression must be over existing columns.
/// Raises InputError with everything that is wrong.
[[nodiscard]] Paper read_paper(const Node& document, const std::string& name, const std::string& source,
                               const std::vector<PaperRow>& list);

/// A paper of configs/papers, or a file with a list rows.csv next to it. Raises InputError.
[[nodiscard]] Paper load_paper(const std::string& name);

/// The cases of the sweeps by name, in the order of Paper::sweeps, turned into all tables by name.
[[nodiscard]] std::map<std::string, CaseTable> tables_of(const Paper& paper,
                                                         const std::vector<std::vector<sweep::CaseResult>>& results);

}  // namespace moeplan::reproduction
