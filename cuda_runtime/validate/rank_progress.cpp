#include "cuda_runtime/validate/rank_progress.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace moeplan::validate {

namespace {

constexpr Seconds kFirstOnTerminal(2), kBetweenOnTerminal(0.5), kBetweenLines(10);

}  // namespace

std::string progress_text(Seconds elapsed, const std::vector<BoardEntry>& ranks) {
  std::string text = fmt::format("{:.0f} s: ", elapsed.value());
  if (ranks.empty()) return text + "ranks are at work";
  const BoardEntry& first = ranks.front();
  if (!first.phase.empty()) text += first.phase + ", ";
  return text + "rank 0: " + (first.text.empty() ? "not started" : first.text);
}

RankProgress::RankProgress(bool quiet, std::function<void()> looks)
    : quiet_(quiet),
      looks_(std::move(looks)),
      is_terminal_(::isatty(STDERR_FILENO) != 0),
      next_(is_terminal_ ? kFirstOnTerminal : kBetweenLines) {}

RankProgress::~RankProgress() {
  if (shown_ && is_terminal_) fmt::print(stderr, "\r\033[K");
}

void RankProgress::show(Seconds elapsed, const std::vector<BoardEntry>& ranks) {
  if (looks_) looks_();
  if (quiet_ || elapsed < next_) return;
  next_ = elapsed + (is_terminal_ ? kBetweenOnTerminal : kBetweenLines);
  shown_ = true;
  const std::string text = progress_text(elapsed, ranks);
  if (is_terminal_) {
    fmt::print(stderr, "\r{}\033[K", text);
  } else {
    fmt::print(stderr, "{}\n", text);
  }
  std::fflush(stderr);
}

}  // namespace moeplan::validate
