#include "cli/commands/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>

namespace moeplan::cli {

using namespace std::chrono_literals;

bool progress_is_due(std::chrono::duration<double> elapsed, std::chrono::duration<double> since_last,
                     bool is_terminal) {
  return is_terminal ? elapsed >= 2s && since_last >= 100ms : since_last >= 1min;
}

std::string progress_text(std::int64_t done, std::int64_t total, std::int64_t timed,
                          std::chrono::duration<double> elapsed) {
  std::string out = fmt::format("{} of {} ({}%)", done, total, 100 * done / total);
  if (timed <= 0) return out;
  const double seconds = elapsed.count() * static_cast<double>(total - done) / static_cast<double>(timed);
  const auto left = static_cast<std::int64_t>(std::ceil(seconds));
  if (left >= 3600) return out + fmt::format(", {} h {} min left", left / 3600, left / 60 % 60);
  if (left >= 60) return out + fmt::format(", {} min {} s left", left / 60, left % 60);
  return out + fmt::format(", {} s left", left);
}

Progress::Progress(std::string what, bool quiet)
    : what_(std::move(what)),
      quiet_(quiet),
      is_terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      first_(start_),
      last_(start_) {}

Progress::~Progress() {
  if (has_bar_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(std::int64_t done, std::int64_t total, const std::string& more) {
  const auto now = std::chrono::steady_clock::now();
  if (!first_done_ || done < done_) {
    first_done_ = done;
    first_ = now;
  }
  done_ = done;
  if (quiet_ || total <= 0 || !progress_is_due(now - start_, now - last_, is_terminal_)) return;
  last_ = now;
  const std::string text = progress_text(done, total, done - *first_done_, now - first_);
  if (is_terminal_) {
    has_bar_ = true;
    constexpr int kWidth = 30;
    const int filled = static_cast<int>(kWidth * done / total);
    fmt::print(stderr, "\r{} [{:<{}}] {}{}\033[K", what_, std::string(static_cast<std::size_t>(filled), '#'), kWidth,
               text, more);
  } else {
    fmt::print(stderr, "{}: {}{}\n", what_, text, more);
  }
  std::fflush(stderr);
}

}  // namespace moeplan::cli
