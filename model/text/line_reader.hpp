// The lines of a large table, plain or gzip, one at a time in bounded memory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/diagnostics.hpp"

struct gzFile_s;

namespace moeplan {

class LineReader {
 public:
  /// 16 MiB: a row of more than half a million numbers.
  static constexpr std::size_t kLongestLine = std::size_t{16} << 20;

  /// Raises InputError where the file cannot be read, as next() does, also for damaged gzip data and longer lines.
  explicit LineReader(const std::filesystem::path& path);

  /// The next line without its end (LF or CR LF), valid until the next call; none at the end of the file.
  [[nodiscard]] std::optional<std::string_view> next();
  /// Number of the line that next() returned, from 1.
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Raises InputError about a line; 0 is the file as a whole.
  [[noreturn]] void fail(int line, std::string message) const;

 private:
  struct Close {
    void operator()(gzFile_s* file) const;
  };

  [[nodiscard]] std::string_view take(std::size_t end, std::size_t next_begin);
  void fill();

  std::string file_;
  std::unique_ptr<gzFile_s, Close> handle_;
  std::string buffer_;
  std::size_t begin_ = 0;
  bool is_at_end_ = false;
  int line_ = 0;
};

/// The text as a gzip file's bytes; the same text gives the same bytes.
[[nodiscard]] std::string gzipped(std::string_view text);

}  // namespace moeplan
