#include "cli/commands/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <system_error>

namespace moeplan::cli {

using namespace std::chrono_literals;

bool progress_is_due(std::chrono::duration<double> elapsed, std::chrono::duration<double> since_last,
                     bool is_terminal) {
  return is_terminal ? elapsed >= 2s && since_last >= 100ms : since_last >= 1min;
}

std::string progress_text(std::int64_t done, std::int64_t total, std::int64_t timed,
                          std::chrono::duration<double> elapsed, std::chrono::duration<double> since_last) {
  std::string out = fmt::format("{} of {} ({}%)", done, total, 100 * done / total);
  if (done >= total) return since_last < 1s ? out : out + fmt::format(", finishing for {:.0f} s", since_last.count());
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
      told_(start_),
      last_(start_) {
  if (quiet_) return;
  try {
    repeats_ = std::jthread([this](const std::stop_token& stop) {
      std::unique_lock lock(mutex_);
      while (!ends_.wait_for(lock, stop, 1s, [&] { return stop.stop_requested(); })) show_if_due();
    });
  } catch (const std::system_error&) {  // without a thread it is shown when work says so
  }
}

Progress::~Progress() {
  repeats_ = {};  // ends it
  if (has_bar_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(std::int64_t done, std::int64_t total, const std::string& more) {
  const std::lock_guard lock(mutex_);
  told_ = std::chrono::steady_clock::now();
  if (!first_done_ || done < done_) {
    first_done_ = done;
    first_ = told_;
  }
  done_ = done;
  total_ = total;
  more_ = more;
  show_if_due();
}

void Progress::show_if_due() {
  const auto now = std::chrono::steady_clock::now();
  if (quiet_ || !progress_is_due(now - start_, now - last_, is_terminal_)) return;
  last_ = now;
  const std::string text = total_ > 0 ? progress_text(done_, total_, done_ - *first_done_, now - first_, now - told_)
                                      : fmt::format("{} s so far", (now - start_) / 1s);
  if (is_terminal_) {
    has_bar_ = true;
    constexpr int kWidth = 30;
    const int filled = total_ > 0 ? static_cast<int>(kWidth * done_ / total_) : 0;
    fmt::print(stderr, "\r{} [{:<{}}] {}{}\033[K", what_, std::string(static_cast<std::size_t>(filled), '#'), kWidth,
               text, more_);
  } else {
    fmt::print(stderr, "{}: {}{}\n", what_, text, more_);
  }
  std::fflush(stderr);
}

}  // namespace moeplan::cli
