#include "planner/sweep/database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/resource.h>

#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace moeplan::sweep {

namespace {

/// Whether this process has a limit on the size of its files.
bool has_size_limit() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
}

/// The reason why there is no room for a write, if that is why it failed. SQLite reports a full disk by its own code;
/// other causes are only in errno, until the next system call.
std::optional<std::string> lack_of_room(int code, int system_error) {
  if ((code & 0xff) == SQLITE_FULL) return "the disk is full";
  if ((code & 0xff) != SQLITE_IOERR) return std::nullopt;
  if (system_error == ENOSPC || system_error == EDQUOT || (code == SQLITE_IOERR_SHMSIZE && system_error == 0))
    return "the disk is full";
  if (system_error != EFBIG && !(code == SQLITE_IOERR_WRITE && has_size_limit())) return std::nullopt;
  return "has reached the largest size that a file may have here";
}

std::string explanation(int code, int system_error, const std::string& message) {
  switch (code & 0xff) {
    case SQLITE_NOTADB: return "is no SQLite database";
    case SQLITE_CORRUPT: return "is damaged, or cannot be read";
    case SQLITE_BUSY:
    case SQLITE_LOCKED: return "is locked by another program";
    case SQLITE_CANTOPEN:
      return system_error == 0 ? "cannot be opened or made"
                               : fmt::format("cannot be opened or made: {}", std::strerror(system_error));
    case SQLITE_READONLY: return "cannot be written to";
    case SQLITE_IOERR:
      return fmt::format("cannot be read or written: {}", system_error != 0 ? std::strerror(system_error) : message);
    case SQLITE_ERROR: return "has not the tables of a sweep: " + message;
    default: return message;
  }
}

}  // namespace

std::string sql_name(const std::string& name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

void Statement::Finalise::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Statement(Database& database, const std::string& sql) : database_(&database) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v2(database.handle_.get(), sql.c_str(), -1, &statement, nullptr);
  statement_.reset(statement);
  if (code != SQLITE_OK) database.fail(code);
}

void Statement::bind(std::span<const Cell> parameters) {
  sqlite3_stmt* s = statement_.get();
  sqlite3_reset(s);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const int at = static_cast<int>(i) + 1;
    const Cell& cell = parameters[i];
    int code = SQLITE_OK;
    if (const auto* whole = std::get_if<std::int64_t>(&cell)) {
      code = sqlite3_bind_int64(s, at, *whole);
    } else if (const auto* number = std::get_if<double>(&cell)) {
      code = sqlite3_bind_double(s, at, *number);
    } else if (const auto* text = std::get_if<std::string>(&cell)) {
      code = sqlite3_bind_text64(s, at, text->data(), text->size(), SQLITE_TRANSIENT, SQLITE_UTF8);
    } else {
      code = sqlite3_bind_null(s, at);
    }
    if (code != SQLITE_OK) database_->fail(code);
  }
}

bool Statement::next() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code != SQLITE_DONE) database_->fail(code);
  return false;
}

void Statement::run(std::span<const Cell> parameters) {
  bind(parameters);
  while (next()) {
  }
  sqlite3_reset(statement_.get());
}

int Statement::columns() const { return sqlite3_column_count(statement_.get()); }

Cell Statement::cell(int column) const {
  sqlite3_stmt* s = statement_.get();
  switch (sqlite3_column_type(s, column)) {
    case SQLITE_INTEGER: return std::int64_t{sqlite3_column_int64(s, column)};
    case SQLITE_FLOAT: return sqlite3_column_double(s, column);
    case SQLITE_NULL: return {};
    default: break;
  }
  const auto* bytes = static_cast<const char*>(sqlite3_column_blob(s, column));
  return std::string(bytes ? bytes : "", static_cast<std::size_t>(sqlite3_column_bytes(s, column)));
}

std::vector<Cell> Statement::row() const {
  std::vector<Cell> out;
  for (int i = 0; i < columns(); ++i) out.push_back(cell(i));
  return out;
}

void Database::Close::operator()(sqlite3* database) const { sqlite3_close(database); }

Database::Database(std::string path, Access access) : path_(std::move(path)) {
  sqlite3* handle = nullptr;
  const int flags = access == Access::Read ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
  const int code = sqlite3_open_v2(path_.c_str(), &handle, flags | SQLITE_OPEN_NOMUTEX, nullptr);
  handle_.reset(handle);
  if (code != SQLITE_OK) fail(code);
  sqlite3_extended_result_codes(handle, 1);
  // A file may come from a stranger: its views, triggers and functions do nothing here.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  // The quoted name of a column that is not there is an error, not a text in every row.
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle, SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  constexpr int kPatienceMs = 10'000;  // assumed: readers and checkpoints of other processes take less
  sqlite3_busy_timeout(handle, kPatienceMs);
}

void Database::execute(const std::string& sql) {
  const int code = sqlite3_exec(handle_.get(), sql.c_str(), nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) fail(code);
}

Cell Database::first(const std::string& sql) {
  Statement statement(*this, sql);
  return statement.next() ? statement.cell(0) : Cell();
}

void Database::fail(int code) const {
  sqlite3* handle = handle_.get();
  const int system_error = handle ? sqlite3_system_errno(handle) : 0;
  const std::string message = handle ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  if (auto reason = lack_of_room(code, system_error)) throw DatabaseFull({{path_}, "", std::move(*reason)});
  Diagnostic reason{{path_}, "", explanation(code, system_error, message)};
  if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED) throw DatabaseLocked(std::move(reason));
  throw InputError(std::move(reason));
}

}  // namespace moeplan::sweep
