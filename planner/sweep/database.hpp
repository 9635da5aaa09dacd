// RAII wrappers of an SQLite database and its prepared statements. Every failure (a file that is not a database, a lock
// of another program) raises InputError that names the file; a full disk raises DatabaseFull, a lock DatabaseLocked.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/sweep/expression.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace moeplan::sweep {

/// There is no disk space for a write; everything committed before is safe.
class DatabaseFull : public InputError {
 public:
  using InputError::InputError;
};

/// Another program uses the database.
class DatabaseLocked : public InputError {
 public:
  using InputError::InputError;
};

class Database;

/// A prepared statement.
class Statement {
 public:
  Statement(Database& database, const std::string& sql);

  /// Executes the statement to completion with these parameter values.
  void run(std::span<const Cell> parameters = {});
  /// Starts the statement; rows are then read one by one while next() returns true.
  void bind(std::span<const Cell> parameters);
  [[nodiscard]] bool next();
  [[nodiscard]] Cell cell(int column) const;
  [[nodiscard]] int columns() const;
  /// The current row, after next() returned true.
  [[nodiscard]] std::vector<Cell> row() const;

 private:
  struct Finalise {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalise> statement_;
};

/// An open database.
class Database {
 public:
  enum class Access { Read, Write };  // Write creates the file if it does not exist

  Database(std::string path, Access access);

  void execute(const std::string& sql);
  /// The first column of the first row; missing if there is no row.
  [[nodiscard]] Cell first(const std::string& sql);
  [[nodiscard]] const std::string& path() const { return path_; }
  [[noreturn]] void fail(int code) const;

 private:
  friend class Statement;
  struct Close {
    void operator()(sqlite3* database) const;
  };
  std::string path_;
  std::unique_ptr<sqlite3, Close> handle_;
};

/// A name quoted as an SQL identifier.
[[nodiscard]] std::string sql_name(const std::string& name);

}  // namespace moeplan::sweep
