// The reproduction of a paper: all cases of its sweeps, then its rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "planner/reproduction/paper.hpp"

namespace moeplan::reproduction {

/// A published number with the prediction. A row that cannot be computed has a reason instead, and does not pass.
struct RowResult {
  PaperRow row;
  std::optional<double> predicted = {};
  std::string reason = {};
  bool passes = false;

  /// predicted / published - 1.
  [[nodiscard]] std::optional<double> relative_error() const {
    if (!predicted) return std::nullopt;
    return *predicted / row.value - 1;
  }
};

struct PaperResult {
  std::string paper;
  std::string title;
  std::vector<Declaration> declarations;
  std::vector<RowResult> rows;
  double wall_s = 0;

  [[nodiscard]] std::int64_t scored() const;
  [[nodiscard]] std::int64_t passed() const;  // of the scored rows
};

struct ReproductionOptions {
  int jobs = 1;                                                   // has no influence on the result
  std::function<void(std::int64_t, std::int64_t)> progress = {};  // (cases done, all), serialised
  const std::atomic<bool>* stop = nullptr;                        // raises sweep::Interrupted when true
};

[[nodiscard]] PaperResult reproduced(const Paper& paper, const ReproductionOptions& options = {});

}  // namespace moeplan::reproduction
