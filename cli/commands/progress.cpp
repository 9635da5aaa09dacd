#include "cli/commands/progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace moeplan::cli {

Progress::Progress(std::string what, bool quiet)
    : what_(std::move(what)),
      active_(!quiet && ::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

void Progress::show(std::int64_t done, std::int64_t total, const std::string& more) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  if (!active_ || now - start_ < 2s || now - last_ < 100ms || total <= 0) return;
  last_ = now;
  shown_ = true;
  constexpr int kWidth = 30;
  const int filled = static_cast<int>(kWidth * done / total);
  fmt::print(stderr, "\r{} [{:<{}}] {:>3}%{}\033[K", what_, std::string(static_cast<std::size_t>(filled), '#'), kWidth,
             100 * done / total, more);
  std::fflush(stderr);
}

}  // namespace moeplan::cli
