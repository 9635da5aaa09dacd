// The SQLite database of a sweep.
//
// Table `cases` has one row per case: number (its index among the cases of the sweep), key (hash of its resolved
// inputs), status, reason, gpus, tokens, one column for each axis, derived setting and output, and wall_s, the time
// that the case took in seconds. Table `columns` describes the columns, table `sweep` the whole sweep. While it is
// being written the database is in WAL mode, so that it can be read concurrently; a finished database is one plain
// file.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sweep/case_runner.hpp"
#include "planner/sweep/database.hpp"
#include "planner/sweep/lock_file.hpp"

namespace moeplan::sweep {

/// Shard `index` of `count`: the cases whose number modulo `count` is `index` - 1.
struct Shard {
  std::int64_t index = 1;
  std::int64_t count = 1;

  [[nodiscard]] bool has(std::int64_t number) const { return number % count == index - 1; }
  bool operator==(const Shard&) const = default;
};
/// The text of a shard, such as "2/3".
[[nodiscard]] std::string shard_text(const Shard& shard);

enum class ColumnRole { Fixed, Axis, Derived, Output };
inline constexpr std::array<std::pair<ColumnRole, std::string_view>, 4> kColumnRoleNames{
    {{ColumnRole::Fixed, "fixed"},
     {ColumnRole::Axis, "axis"},
     {ColumnRole::Derived, "derived"},
     {ColumnRole::Output, "output"}}};

/// A column of table `cases`.
struct Column {
  std::string name;
  ColumnRole role;
  bool operator==(const Column&) const = default;
};

/// The description of a sweep in its database.
struct SweepHead {
  std::string name;
  std::string kind;
  std::string fingerprint;  // CaseResolver::fingerprint()
  std::int64_t cases;       // number of cases of the whole sweep
  Shard shard;
  std::vector<Column> columns;  // those of kSweepColumns first; without the timing column
  [[nodiscard]] std::vector<std::string> column_names() const;
  bool operator==(const SweepHead&) const = default;
};
[[nodiscard]] SweepHead head_of(const SweepSpec& sweep, const std::string& fingerprint, const Shard& shard);
/// Reads the description. Raises InputError if the database is not a sweep, or of another version.
[[nodiscard]] SweepHead read_head(Database& database);

/// Calls `use` with every row of `cases`, ascending by number: the columns of the head, then the timing column. Raises
/// InputError that names table, row and column if a value is of another type than those of its column.
void for_each_case(Database& database, const SweepHead& head, const std::function<void(std::vector<Cell>)>& use);

/// Writes rows into a database. Only one process at a time can open it.
class SweepStore {
 public:
  /// Creates the file, or with `resume` continues it. Raises InputError if the file exists without `resume`, belongs to
  /// another sweep or shard, or is being written by another process.
  SweepStore(const std::string& path, const SweepHead& head, bool resume);

  /// Numbers of the stored cases, ascending.
  [[nodiscard]] std::vector<std::int64_t> numbers();
  /// Adds a row to the current transaction; commit() makes it durable. Raises InputError if the disk is full.
  void add(const CaseResult& result);
  /// Adds a complete row in table order. Raises InputError if the case is already stored with different content.
  void add_row(const std::vector<Cell>& row);
  void commit();
  /// Commits, and turns the database into one plain file, unless another program reads it. Raises InputError if the
  /// disk fails or is full; every row is then safe in the database and its journal.
  void finish();

 private:
  void begin();
  void create(const SweepHead& head);
  void check(const SweepHead& head);

  LockFile lock_;
  SweepHead head_;
  bool existed_;
  Database database_;
  std::unique_ptr<Statement> insert_;
  std::unique_ptr<Statement> find_;
  bool in_transaction_ = false;
};

/// Merges databases of shards of one sweep; rows that occur in several must agree except for wall times. The output
/// must not exist. Returns the number of cases in it. Raises InputError.
[[nodiscard]] std::int64_t merge_sweeps(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace moeplan::sweep
