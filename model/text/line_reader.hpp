// A reader for the lines of a large plain or gzip text file, in bounded memory.
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
  /// 16 MiB, enough for a row of more than half a million numbers.
  static constexpr std::size_t kLongestLine = std::size_t{16} << 20;

  /// Raises InputError if the file cannot be read; next() does too, also for damaged gzip data and for lines longer
  /// than kLongestLine.
  explicit LineReader(const std::filesystem::path& path);

  /// The next line without its terminator (LF or CR LF), valid until the next call; none at the end of the file.
  [[nodiscard]] std::optional<std::string_view> next();
  /// Number of the line that next() last returned, from 1.
  [[nodiscard]] int line() const { return line_; }
  [[nodiscard]] const std::string& file() const { return file_; }
  /// Raises InputError for a line; 0 denotes the whole file.
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

/// The text compressed in gzip format. Deterministic: the same text gives the same bytes.
[[nodiscard]] std::string gzipped(std::string_view text);

}  // namespace moeplan
