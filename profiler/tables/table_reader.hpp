// Reader of tables in CSV, plain or gzip, whose columns are named by a header.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::profiler {

/// What a table may hold.
struct TableFormat {
  std::string noun;                   // of its rows: "operators"
  std::vector<std::string> columns;   // all that may stand in the header
  std::vector<std::string> required;  // those that must
};

/// The values of one line by column. A column that the header does not have is empty.
class TableLine {
 public:
  TableLine(const std::vector<std::string>& names, std::vector<std::string> fields, Location where, Diagnostics& wrong);

  [[nodiscard]] const Location& where() const { return where_; }
  [[nodiscard]] std::string text(std::string_view name) const;
  /// 0 if empty. Anything but a whole number up to 2^40 is a diagnostic.
  [[nodiscard]] std::int64_t whole(std::string_view name) const;
  /// None if empty, by the same rule.
  [[nodiscard]] std::optional<std::int64_t> optional_whole(std::string_view name) const;
  /// Anything but a whole number from 1 on is a diagnostic.
  [[nodiscard]] std::int64_t positive(std::string_view name) const;
  /// Of a column in microseconds. Anything but a time above 0 is a diagnostic.
  [[nodiscard]] Seconds time(std::string_view name) const;
  /// Adds a diagnostic about a column.
  void complain(std::string_view name, std::string message) const;

 private:
  const std::vector<std::string>& names_;
  std::vector<std::string> fields_;
  Location where_;
  Diagnostics& wrong_;
};

/// Calls `take` with every line below the header. Raises InputError with the line and column of everything that is
/// wrong: unknown or missing columns, values that `take` cannot read, a table without rows.
void read_table(const std::filesystem::path& path, const TableFormat& format,
                const std::function<void(const TableLine&)>& take);

/// The columns in the header of a table, none if it has no header. Raises InputError if the file cannot be read.
[[nodiscard]] std::vector<std::string> header_of(const std::filesystem::path& path);

}  // namespace moeplan::profiler
