// The progress display of long executions, on standard error.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime/validate/status_board.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::validate {

/// The text of a progress line, e.g. "12 s: run 3, rank 0: moe layer: dispatch". It shows the first rank, which decides
/// when to stop; without status entries, the time only.
[[nodiscard]] std::string progress_text(Seconds elapsed, const std::vector<BoardEntry>& ranks);

/// A progress display: one line updated twice a second on a terminal, otherwise a new line every ten seconds.
class RankProgress {
 public:
  /// `looks`: called whenever there is something to show, and does not depend on `quiet`.
  explicit RankProgress(bool quiet, std::function<void()> looks = {});
  ~RankProgress();
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;

  void show(Seconds elapsed, const std::vector<BoardEntry>& ranks);

 private:
  bool quiet_;
  std::function<void()> looks_;
  bool is_terminal_;
  bool shown_ = false;
  Seconds next_;
};

}  // namespace moeplan::validate
