// The database of a sweep.
//
// Table `cases` has a row a case: number (its place among the cases of the sweep), key (hash of its resolved inputs),
// status, reason, gpus, tokens, a column for each axis and derived setting, one for each output, and wall_s, the time
// that it took. Table `columns` says what each column is, table `sweep` what the whole is. While it is written it is in
// WAL mode, so that it can be read meanwhile; finished, it is one plain file.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "planner/sweep/case_runner.hpp"
#include "planner/sweep/database.hpp"
#include "planner/sweep/lock_file.hpp"

namespace moeplan::sweep {

/// Part `index` of `count`: the cases whose number is `index` - 1 modulo `count`.
struct Shard {
  std::int64_t index = 1;
  std::int64_t count = 1;

  [[nodiscard]] bool has(std::int64_t number) const { return number % count == index - 1; }
  bool operator==(const Shard&) const = default;
};
/// "2/3".
[[nodiscard]] std::string shard_text(const Shard& shard);

enum class ColumnRole { Fixed, Axis, Derived, Output };
inline constexpr std::array<std::pair<ColumnRole, std::string_view>, 4> kColumnRoleNames{
    {{ColumnRole::Fixed, "fixed"},
     {ColumnRole::Axis, "axis"},
     {ColumnRole::Derived, "derived"},
     {ColumnRole::Output, "output"}}};

struct Column {
  std::string name;
  ColumnRole role;
  bool operator==(const Column&) const = default;
};

/// What a database says about its sweep.
struct SweepHead {
  std::string name;
  std::string kind;
  std::string fingerprint;  // CaseResolver::fingerprint()
  std::int64_t cases;       // of the whole sweep
  Shard shard;
  std::vector<Column> columns;  // those of kSweepColumns first; the timing column is none of them
  bool operator==(const SweepHead&) const = default;
};
[[nodiscard]] SweepHead head_of(const SweepSpec& sweep, const std::string& fingerprint, const Shard& shard);
/// Raises InputError where the database is of no sweep, or of another version.
[[nodiscard]] SweepHead read_head(Database& database);

/// Writes rows; one process at a time.
class SweepStore {
 public:
  /// Makes the file, or with `resume` goes on with it. Raises InputError where it exists without `resume`, belongs to
  /// another sweep or shard, or is being written.
  SweepStore(const std::string& path, const SweepHead& head, bool resume);

  /// Numbers of the cases that are there, ascending.
  [[nodiscard]] std::vector<std::int64_t> numbers();
  /// In a transaction; commit() makes it last. Raises InputError where the disk is full.
  void add(const CaseResult& result);
  /// A whole row, as in the table. One that is there already with other content raises InputError.
  void add_row(const std::vector<Cell>& row);
  void commit();
  /// Commits, and makes one plain file of it.
  void finish();

 private:
  void begin();
  void create(const SweepHead& head);
  void check(const SweepHead& head);

  LockFile lock_;
  bool existed_;
  Database database_;
  std::unique_ptr<Statement> insert_;
  std::unique_ptr<Statement> find_;
  bool in_transaction_ = false;
};

/// Joins databases of shards of one sweep; rows that several have must agree, wall times apart. The output must not
/// exist. Returns how many cases it has. Raises InputError.
[[nodiscard]] std::int64_t merge_sweeps(const std::vector<std::string>& inputs, const std::string& output);

}  // namespace moeplan::sweep
