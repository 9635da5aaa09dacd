// How far long work has come, on standard error: on a terminal a bar, redrawn in place; elsewhere a line a minute.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace moeplan::cli {

/// Whether progress is to be shown, `elapsed` since the work began and `since_last` since it was last shown. On a
/// terminal ten times a second after the first two seconds, elsewhere once a minute.
[[nodiscard]] bool progress_is_due(std::chrono::duration<double> elapsed, std::chrono::duration<double> since_last,
                                   bool is_terminal);

/// "120 of 400 (30%), 1 min 10 s left", as if the rest took as long per item as the last `timed` items, which took
/// `elapsed` in all; without the time left if `timed` is zero. Of all items: "400 of 400 (100%), finishing for 12 s",
/// the seconds since the last one was done (`since_last`). `total` is positive.
[[nodiscard]] std::string progress_text(std::int64_t done, std::int64_t total, std::int64_t timed,
                                        std::chrono::duration<double> elapsed,
                                        std::chrono::duration<double> since_last = {});

/// Shows how far work has come when it says so, and when it says nothing for long, as one long simulation does.
class Progress {
 public:
  /// `quiet` disables all output.
  Progress(std::string what, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `more` is displayed after the work done and the time left. The pace counts from the first call, so that work kept
  /// from earlier is not in it, and anew when `done` falls, because other work has begun.
  void show(std::int64_t done, std::int64_t total, const std::string& more = "");

 private:
  /// Shows what is known, if it is due. Called with `mutex_` held.
  void show_if_due();

  std::string what_, more_;
  bool quiet_;
  bool is_terminal_;
  bool has_bar_ = false;
  std::int64_t done_ = 0, total_ = 0;
  std::optional<std::int64_t> first_done_;
  std::chrono::steady_clock::time_point start_, first_, told_, last_;
  std::mutex mutex_;
  std::condition_variable_any ends_;
  std::jthread repeats_;
};

}  // namespace moeplan::cli
