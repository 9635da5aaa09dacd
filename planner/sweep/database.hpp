// An SQLite database and its statements, as values that close themselves. Every failure is an InputError that names the
// file (DatabaseFull: a full disk): a file that is no database, one that another program has locked.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "planner/sweep/expression.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace moeplan::sweep {

/// There is no room for what was to be written; what was committed before is safe.
class DatabaseFull : public InputError {
 public:
  using InputError::InputError;
};

class Database;

class Statement {
 public:
  Statement(Database& database, const std::string& sql);

  /// Runs it to its end with these values for its parameters.
  void run(std::span<const Cell> parameters = {});
  /// Starts it; then row by row while next() is true.
  void bind(std::span<const Cell> parameters);
  [[nodiscard]] bool next();
  [[nodiscard]] Cell cell(int column) const;
  [[nodiscard]] int columns() const;
  /// The row that next() stands on.
  [[nodiscard]] std::vector<Cell> row() const;

 private:
  struct Finalise {
    void operator()(sqlite3_stmt* statement) const;
  };
  Database* database_;
  std::unique_ptr<sqlite3_stmt, Finalise> statement_;
};

class Database {
 public:
  enum class Access { Read, Write };  // Write makes the file where there is none

  Database(std::string path, Access access);

  void execute(const std::string& sql);
  /// The first column of the first row; missing where there is none.
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

/// A name as SQL reads it whatever it contains.
[[nodiscard]] std::string sql_name(const std::string& name);

}  // namespace moeplan::sweep
