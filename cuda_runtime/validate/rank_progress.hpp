// How far ranks are, on standard error, for what takes longer than a user likes to wait without a word.
#pragma once

#include <string>
#include <vector>

#include "cuda_runtime/validate/status_board.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::validate {

/// "12 s: run 3, rank 0: moe layer: dispatch". Of the first rank, which decides when it is enough; without a board the
/// time alone.
[[nodiscard]] std::string progress_text(Seconds elapsed, const std::vector<BoardEntry>& ranks);

/// On a terminal one line that changes twice a second; elsewhere a line every ten seconds.
class RankProgress {
 public:
  explicit RankProgress(bool quiet);
  ~RankProgress();
  RankProgress(const RankProgress&) = delete;
  RankProgress& operator=(const RankProgress&) = delete;

  void show(Seconds elapsed, const std::vector<BoardEntry>& ranks);

 private:
  bool quiet_;
  bool is_terminal_;
  bool shown_ = false;
  Seconds next_;
};

}  // namespace moeplan::validate
