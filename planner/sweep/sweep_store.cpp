#include "planner/sweep/sweep_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "planner/sweep/sweep_outputs.hpp"

namespace moeplan::sweep {

namespace {

constexpr std::int64_t kApplicationId = 0x6d6f6570;  // "moep": identifies moeplan's databases
constexpr std::int64_t kStoreVersion = 1;

bool exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

std::string text(const Cell& cell) { return cell_text(cell); }

std::int64_t whole(const Cell& cell) { return std::get<std::int64_t>(cell); }

enum class CellType { Any, Whole, Number, Text };

bool is_of(const Cell& cell, CellType type) {
  switch (type) {
    case CellType::Any: return true;
    case CellType::Whole: return std::holds_alternative<std::int64_t>(cell);
    case CellType::Number: return !std::holds_alternative<std::string>(cell);
    case CellType::Text: break;
  }
  return std::holds_alternative<std::string>(cell) || std::holds_alternative<std::monostate>(cell);
}

/// The type of a column's values; all but whole numbers may be missing.
CellType type_of(const Column& column) {
  switch (column.role) {
    case ColumnRole::Axis:
    case ColumnRole::Derived: return CellType::Any;
    case ColumnRole::Output: return is_number(column.name) ? CellType::Number : CellType::Text;
    case ColumnRole::Fixed: break;
  }
  if (column.name == kSweepColumns.front()) return CellType::Whole;
  return column.name == "gpus" || column.name == "tokens" ? CellType::Number : CellType::Text;
}

[[noreturn]] void refuse_cell(const std::string& path, const char* table, const std::string& row,
                              const std::string& column, const Cell& cell, CellType type) {
  const char* expected = type == CellType::Text ? "a text" : type == CellType::Whole ? "a whole number" : "a number";
  throw InputError({{path},
                    "",
                    fmt::format("table \"{}\", row {}, column {}: {} is not {}", table, row, in_quotes(column),
                                in_quotes(cell_text(cell)), expected)});
}

Cell head_value(Database& database, const std::string& key, CellType type) {
  Statement statement(database, "SELECT value FROM sweep WHERE key = ?");
  const Cell parameter = key;
  statement.bind({&parameter, 1});
  const Cell value = statement.next() ? statement.cell(0) : Cell();
  if (!is_of(value, type) || value == Cell())
    refuse_cell(database.path(), "sweep", in_quotes(key), "value", value, type);
  return value;
}

bool is_empty(Database& database) { return whole(database.first("SELECT count(*) FROM sqlite_master")) == 0; }

/// Names of the columns of `cases` in table order.
std::vector<std::string> table_columns(const SweepHead& head) {
  std::vector<std::string> names;
  for (const Column& c : head.columns) names.push_back(sql_name(c.name));
  names.emplace_back(sql_name(kTimingColumn));
  return names;
}

}  // namespace

std::string shard_text(const Shard& shard) { return fmt::format("{}/{}", shard.index, shard.count); }

std::vector<std::string> SweepHead::column_names() const {
  std::vector<std::string> names;
  for (const Column& c : columns) names.push_back(c.name);
  return names;
}

SweepHead head_of(const SweepSpec& sweep, const std::string& fingerprint, const Shard& shard) {
  SweepHead head{.name = sweep.name,
                 .kind = std::string(name_of<SweepKind>(kSweepKindNames, sweep.kind)),
                 .fingerprint = fingerprint,
                 .cases = std::ssize(sweep.cases),
                 .shard = shard,
                 .columns = {}};
  for (const char* name : kSweepColumns) head.columns.push_back({name, ColumnRole::Fixed});
  for (const Axis& a : sweep.axes) head.columns.push_back({a.setting.name, ColumnRole::Axis});
  for (const DerivedSetting& d : sweep.derived) head.columns.push_back({d.setting.name, ColumnRole::Derived});
  for (const std::string& name : sweep.outputs) head.columns.push_back({name, ColumnRole::Output});
  return head;
}

SweepHead read_head(Database& database) {
  if (whole(database.first("PRAGMA application_id")) != kApplicationId) {
    throw InputError({{database.path()}, "", "is no database of a sweep"});
  }
  if (const std::int64_t version = whole(database.first("PRAGMA user_version")); version != kStoreVersion) {
    throw InputError(
        {{database.path()}, "", fmt::format("has version {}; this program reads {}", version, kStoreVersion)});
  }
  const auto text_of = [&](const char* key) { return cell_text(head_value(database, key, CellType::Text)); };
  const auto whole_of = [&](const char* key) { return whole(head_value(database, key, CellType::Whole)); };
  SweepHead head{.name = text_of("name"),
                 .kind = text_of("kind"),
                 .fingerprint = text_of("fingerprint"),
                 .cases = whole_of("cases"),
                 .shard = {whole_of("shard"), whole_of("shards")},
                 .columns = {}};
  Statement columns(database, "SELECT name, role FROM columns ORDER BY position");
  while (columns.next()) {
    const std::string role = text(columns.cell(1));
    const auto known = std::find_if(kColumnRoleNames.begin(), kColumnRoleNames.end(),
                                    [&](const auto& named) { return named.second == role; });
    if (known == kColumnRoleNames.end()) {
      throw InputError({{database.path()}, "", fmt::format("{} is no role of a column", in_quotes(role))});
    }
    head.columns.push_back({text(columns.cell(0)), known->first});
  }
  const auto is_fixed = [](const char* name, const Column& c) { return c == Column{name, ColumnRole::Fixed}; };
  if (head.columns.size() < kSweepColumns.size() ||
      !std::equal(kSweepColumns.begin(), kSweepColumns.end(), head.columns.begin(), is_fixed)) {
    throw InputError({{database.path()},
                      "",
                      fmt::format("has not the tables of a sweep: its table \"columns\" does not begin with {}",
                                  fmt::join(kSweepColumns, ", "))});
  }
  return head;
}

void for_each_case(Database& database, const SweepHead& head, const std::function<void(std::vector<Cell>)>& use) {
  std::vector<CellType> types;
  for (const Column& c : head.columns) types.push_back(type_of(c));
  types.push_back(CellType::Number);
  std::vector<std::string> names = head.column_names();
  names.emplace_back(kTimingColumn);
  Statement rows(database, fmt::format("SELECT {} FROM cases ORDER BY number", fmt::join(table_columns(head), ", ")));
  while (rows.next()) {
    std::vector<Cell> row = rows.row();
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!is_of(row[i], types[i]))
        refuse_cell(database.path(), "cases", cell_text(row.front()), names[i], row[i], types[i]);
    }
    use(std::move(row));
  }
}

SweepStore::SweepStore(const std::string& path, const SweepHead& head, bool resume)
    : lock_(path + ".lock", path), head_(head), existed_(exists(path)), database_([&] {
        if (existed_ && !resume) {
          throw InputError({{path}, "", "exists; --resume goes on with it, another -o makes a new one"});
        }
        return Database(path, Database::Access::Write);
      }()) {
  if (!is_empty(database_)) {
    check(head);
  } else {
    create(head);
  }
  const std::vector<std::string> names = table_columns(head);
  const std::vector<std::string> marks(names.size(), "?");
  insert_ = std::make_unique<Statement>(
      database_, fmt::format("INSERT INTO cases ({}) VALUES ({})", fmt::join(names, ", "), fmt::join(marks, ", ")));
  find_ = std::make_unique<Statement>(database_,
                                      fmt::format("SELECT {} FROM cases WHERE number = ?", fmt::join(names, ", ")));
}

void SweepStore::check(const SweepHead& head) {
  const SweepHead there = read_head(database_);
  const auto refuse = [&](const std::string& what) { throw InputError({{database_.path()}, "", what}); };
  if (there.fingerprint != head.fingerprint) {
    refuse(fmt::format(
        "belongs to another sweep, or its files have changed since it was begun ({}); another -o makes a new one",
        in_quotes(there.name)));
  }
  if (there.shard != head.shard) {
    refuse(fmt::format("holds shard {} and not {}", shard_text(there.shard), shard_text(head.shard)));
  }
  if (there.columns != head.columns) refuse("has other columns than the sweep");
  database_.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;");
}

void SweepStore::create(const SweepHead& head) {
  database_.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; BEGIN");
  std::string columns =
      "number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, status TEXT NOT NULL, reason TEXT NOT NULL";
  for (std::size_t i = 4; i < head.columns.size(); ++i) columns += ", " + sql_name(head.columns[i].name);
  database_.execute(
      fmt::format("CREATE TABLE sweep (key TEXT PRIMARY KEY, value NOT NULL);"
                  "CREATE TABLE columns (position INTEGER PRIMARY KEY, name TEXT NOT NULL, role TEXT NOT NULL);"
                  "CREATE TABLE cases ({}, {} REAL NOT NULL);"
                  "PRAGMA application_id = {}; PRAGMA user_version = {};",
                  columns, sql_name(kTimingColumn), kApplicationId, kStoreVersion));
  Statement value(database_, "INSERT INTO sweep VALUES (?, ?)");
  const auto put = [&](const char* key, Cell cell) {
    const std::vector<Cell> row{key, std::move(cell)};
    value.run(row);
  };
  put("name", head.name);
  put("kind", head.kind);
  put("fingerprint", head.fingerprint);
  put("cases", head.cases);
  put("shard", head.shard.index);
  put("shards", head.shard.count);
  Statement column(database_, "INSERT INTO columns VALUES (?, ?, ?)");
  for (std::size_t i = 0; i < head.columns.size(); ++i) {
    const Column& c = head.columns[i];
    const std::vector<Cell> row{static_cast<std::int64_t>(i), c.name,
                                std::string(name_of<ColumnRole>(kColumnRoleNames, c.role))};
    column.run(row);
  }
  database_.execute("COMMIT");
}

std::vector<std::int64_t> SweepStore::numbers() {
  std::vector<std::int64_t> out;
  for_each_case(database_, head_, [&](const std::vector<Cell>& row) { out.push_back(whole(row.front())); });
  return out;
}

void SweepStore::add(const CaseResult& result) {
  std::vector<Cell> row{result.number,
                        result.key,
                        std::string(name_of<CaseStatus>(kCaseStatusNames, result.outcome.status)),
                        result.outcome.reason,
                        result.outcome.gpus,
                        result.outcome.tokens};
  row.insert(row.end(), result.settings.begin(), result.settings.end());
  row.insert(row.end(), result.outcome.outputs.begin(), result.outcome.outputs.end());
  row.emplace_back(result.wall_s);
  begin();
  insert_->run(row);
}

void SweepStore::begin() {
  if (!in_transaction_) database_.execute("BEGIN IMMEDIATE");
  in_transaction_ = true;
}

void SweepStore::add_row(const std::vector<Cell>& row) {
  begin();
  find_->bind({row.data(), 1});
  if (!find_->next()) return insert_->run(row);
  const std::vector<Cell> there = find_->row();
  if (!std::equal(there.begin(), there.end() - 1, row.begin(), row.end() - 1)) {
    throw InputError(
        {{database_.path()}, "", fmt::format("case {} is there twice, with different results", whole(row.front()))});
  }
}

void SweepStore::commit() {
  if (in_transaction_) database_.execute("COMMIT");
  in_transaction_ = false;
}

void SweepStore::finish() {
  commit();
  insert_.reset();
  find_.reset();
  try {
    database_.execute("PRAGMA journal_mode = DELETE");
  } catch (const DatabaseLocked&) {
    // A reader has the database open: it remains in WAL mode, which is equally valid.
  }
}

std::int64_t merge_sweeps(const std::vector<std::string>& inputs, const std::string& output) {
  std::vector<std::unique_ptr<Database>> parts;
  std::vector<SweepHead> heads;
  for (const std::string& path : inputs) {
    parts.push_back(std::make_unique<Database>(path, Database::Access::Read));
    heads.push_back(read_head(*parts.back()));
    const SweepHead& head = heads.back();
    if (head.fingerprint != heads.front().fingerprint || head.columns != heads.front().columns) {
      throw InputError({{path}, "", fmt::format("is of another sweep than {}", inputs.front())});
    }
  }
  if (exists(output)) throw InputError({{output}, "", "exists; merged sweeps go into a new file"});
  SweepHead joined = heads.front();
  joined.shard = {};
  const std::string partial = output + ".partial";
  std::int64_t count = 0;
  try {
    std::filesystem::remove(partial);
    SweepStore store(partial, joined, /*resume=*/false);
    for (const auto& part : parts) {
      for_each_case(*part, joined, [&](const std::vector<Cell>& row) { store.add_row(row); });
    }
    store.commit();
    count = std::ssize(store.numbers());
    store.finish();
  } catch (...) {
    for (const char* ending : {"", "-wal", "-shm"}) {
      std::error_code ignored;
      std::filesystem::remove(partial + ending, ignored);
    }
    throw;
  }
  std::error_code error;
  std::filesystem::rename(partial, output, error);
  if (error) throw InputError({{output}, "", fmt::format("cannot be written: {}", error.message())});
  return count;
}

}  // namespace moeplan::sweep
