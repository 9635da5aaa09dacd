#include "planner/reproduction/paper.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/reader.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/sweep/read_sweep.hpp"

namespace moeplan::reproduction {

namespace {

/// Sets the entries of `changes` in the map; nested maps are changed entry by entry.
void change(Node& map, const Node& changes) {
  for (const Entry& e : changes.entries) {
    Node* known = map.find(e.key);
    if (known && known->kind == Node::Kind::Map && e.value.kind == Node::Kind::Map && e.key != "sweep") {
      for (const Entry& inner : e.value.entries) known->set(inner.key, inner.value);
    } else if (e.key != "sweep") {
      map.set(e.key, e.value);
    }
  }
}

class PaperReader {
 public:
  PaperReader(const Node& document, const std::string& source) : document_(document), source_(source) {}

  Paper read(const std::string& name, const std::vector<PaperRow>& list) {
    MapReader r(document_, "", wrong_);
    paper_.name = name;
    paper_.title = r.text("title");
    for (const auto& [node, path] : r.list_or_empty("declarations")) {
      MapReader declaration(*node, path, wrong_);
      paper_.declarations.push_back({declaration.text("what"), declaration.text("place")});
      declaration.finish();
    }
    for (const Entry& e : r.map("sweeps").node().entries) read_sweep_of(e);
    for (const Entry& e : r.map("tables").node().entries) read_table(e);
    read_rows(r.map("rows"), list);
    r.finish();
    wrong_.throw_if_any();
    check();
    return std::move(paper_);
  }

 private:
  void read_sweep_of(const Entry& e) {
    try {
      const Node* shipped = e.value.kind == Node::Kind::Map ? e.value.find("sweep") : &e.value;
      Node document = Node::map();
      std::string source = source_;
      if (shipped) {
        source = planner::find_config("sweeps", shipped->scalar);
        document = load_document(source);
      }
      if (e.value.kind == Node::Kind::Map) change(document, e.value);
      document.set("name", Node::text(e.key));
      paper_.sweeps.emplace_back(e.key, sweep::read_sweep(document, source));
      sources_.push_back(e.key);
    } catch (const InputError& error) {
      for (const Diagnostic& d : error.diagnostics()) {
        const bool has_place = !d.where.file.empty();
        wrong_.add(has_place ? d.where : e.where, fmt::format("sweeps.{}.{}", e.key, d.key_path), d.message);
      }
    }
  }

  static Formula formula(const Node& node, std::string path) { return {node.scalar, node.where, std::move(path)}; }

  /// The key `from` of a table or row: a sweep or a table that was read before.
  std::string source_of(MapReader& r) {
    std::string from = r.text("from");
    if (!from.empty() && std::find(sources_.begin(), sources_.end(), from) == sources_.end())
      r.complain("from",
                 fmt::format("{} is no sweep or preceding table{}", in_quotes(from), suggestion(from, sources_)));
    return from;
  }

  std::optional<Formula> condition(MapReader& r, const char* key) {
    const Node* node = r.find(key);
    if (!node) return std::nullopt;
    if (node->kind != Node::Kind::Scalar) r.complain(key, "expected a condition such as tp > 1");
    return formula(*node, r.path() + "." + key);
  }

  void read_table(const Entry& e) {
    MapReader r(e.value, "tables." + e.key, wrong_);
    TableSpec table{.name = e.key,
                    .from = source_of(r),
                    .pivot = r.text_or("pivot", ""),
                    .value = r.text_or("value", "makespan_s"),
                    .where = condition(r, "where"),
                    .per = {},
                    .nearest = {},
                    .columns = {},
                    .location = e.where};
    for (const auto& [node, path] : r.list_or_empty("per")) table.per.push_back(node->scalar);
    for (const auto& [aggregate, key] : kAggregateNames) {
      if (!r.has(key)) continue;
      const MapReader columns = r.map(key);
      for (const Entry& column : columns.node().entries)
        table.columns.emplace_back(column.key,
                                   Aggregation{aggregate, formula(column.value, columns.path() + "." + column.key)});
    }
    if (r.has("nearest")) read_nearest(r.map("nearest"), table);
    if (!table.per.empty() && table.columns.empty() && !table.nearest)
      r.complain("per", "has no aggregate such as mean: {NAME: FORMULA}");
    const bool is_sweep = std::any_of(paper_.sweeps.begin(), paper_.sweeps.end(),
                                      [&](const auto& named) { return named.first == table.from; });
    if (!table.pivot.empty() && !is_sweep) r.complain("pivot", "needs a sweep: tables have no axes");
    r.finish();
    sources_.push_back(e.key);
    paper_.tables.push_back(std::move(table));
  }

  void read_nearest(MapReader nearest, TableSpec& table) {
    constexpr double kMost = 1e12;
    table.nearest = condition(nearest, "of");
    table.nearest_to = nearest.number("to", 0, kMost);
    if (!table.nearest) nearest.complain("", "has no `of`, the value that is to be near");
    nearest.finish();
  }

  void read_rows(MapReader rows, const std::vector<PaperRow>& list) {
    for (const PaperRow& row : list) {
      if (row.paper != paper_.name) continue;
      if (!rows.has(row.id)) {
        rows.complain("", fmt::format("the row {} of the list is not there", row.id));
        continue;
      }
      MapReader r = rows.map(row.id);
      RowSpec spec{.row = row,
                   .from = {},
                   .where = {},
                   .value = {},
                   .holds = condition(r, "holds"),
                   .missing = r.text_or("missing", ""),
                   .location = r.node().where};
      if (spec.missing.empty()) read_value(r, spec);
      r.finish();
      paper_.rows.push_back(std::move(spec));
    }
    rows.finish();
  }

  void read_value(MapReader& r, RowSpec& spec) {
    spec.from = source_of(r);
    spec.where = condition(r, "where");
    std::size_t count = 0;
    for (const auto& [aggregate, key] : kAggregateNames) {
      const Node* node = r.find(key);
      if (!node) continue;
      spec.value = {aggregate, formula(*node, r.path() + "." + std::string(key))};
      ++count;
    }
    if (count != 1)
      r.complain("", fmt::format("expected one of {}, or missing: REASON",
                                 fmt::join(all_names<Aggregate>(kAggregateNames), ", ")));
    if (spec.row.tolerance.agreement == Agreement::SameSetting && !spec.holds)
      r.complain("", "a row with the tolerance \"same setting\" needs `holds`");
  }

  /// Parses every expression over the columns that its table will have.
  void check() const {
    const std::map<std::string, CaseTable> tables =
        tables_of(paper_, std::vector<std::vector<sweep::CaseResult>>(paper_.sweeps.size()));
    for (const RowSpec& row : paper_.rows) {
      if (!row.missing.empty()) continue;
      const std::vector<std::string>& columns = tables.at(row.from).columns;
      if (row.where) (void)row.where->over(columns);
      if (row.holds) (void)row.holds->over(columns);
      (void)row.value.formula.over(columns);
    }
  }

  const Node& document_;
  const std::string& source_;
  Diagnostics wrong_;
  Paper paper_;
  std::vector<std::string> sources_;  // sweeps and tables so far
};

}  // namespace

std::map<std::string, CaseTable> tables_of(const Paper& paper,
                                           const std::vector<std::vector<sweep::CaseResult>>& results) {
  std::map<std::string, CaseTable> tables;
  std::map<std::string, const sweep::SweepSpec*> sweeps;
  for (std::size_t i = 0; i < paper.sweeps.size(); ++i) {
    const auto& [name, sweep] = paper.sweeps[i];
    tables.emplace(name, table_of(sweep, results[i]));
    sweeps.emplace(name, &sweep);
  }
  for (const TableSpec& spec : paper.tables) {
    CaseTable table = tables.at(spec.from);
    if (!spec.pivot.empty()) table = pivoted(*sweeps.at(spec.from), table, spec.pivot, spec.value, spec.location);
    if (spec.where) table = selected(std::move(table), *spec.where);
    if (spec.nearest) table = nearest_rows(table, spec.per, *spec.nearest, spec.nearest_to, spec.location);
    if (!spec.columns.empty()) table = aggregated(table, spec.per, spec.columns, spec.location);
    tables.insert_or_assign(spec.name, std::move(table));
  }
  return tables;
}

std::vector<std::string> paper_names() { return planner::config_names("papers"); }

Paper read_paper(const Node& document, const std::string& name, const std::string& source,
                 const std::vector<PaperRow>& list) {
  return PaperReader(document, source).read(name, list);
}

Paper load_paper(const std::string& name) {
  const std::filesystem::path file = planner::find_config("papers", name);
  return read_paper(load_document(file), file.stem(), file, read_row_list(file.parent_path() / "rows.csv"));
}

}  // namespace moeplan::reproduction
