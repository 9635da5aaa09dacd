// A progress bar on a terminal, for what takes over two seconds; nothing elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace moeplan::cli {

class Progress {
 public:
  /// `quiet` switches it off.
  Progress(std::string what, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `more` stands behind the bar.
  void show(std::int64_t done, std::int64_t total, const std::string& more = "");

 private:
  std::string what_;
  bool active_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace moeplan::cli
