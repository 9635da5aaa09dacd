// A progress bar, shown only on a terminal and only for work that takes more than two seconds.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace moeplan::cli {

class Progress {
 public:
  /// `quiet` disables the bar.
  Progress(std::string what, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `more` is displayed after the bar.
  void show(std::int64_t done, std::int64_t total, const std::string& more = "");

 private:
  std::string what_;
  bool active_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace moeplan::cli
