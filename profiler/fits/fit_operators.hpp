// Fits the numbers of a GPU's operator models to a table of measured operators.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "model/text/document.hpp"
#include "profiler/scores/score.hpp"
#include "profiler/tables/operator_table.hpp"

namespace moeplan::profiler {

/// What was fitted to the rows of one kind, format, direction and library.
struct OperatorFit {
  std::string path;     // of the entry: "gemm[0]"
  std::string library;  // whose kernels they are
  std::string format;   // of a kernel: its name
  bool is_new = false;  // there were no figures of the library; they begin as those of another one
  ErrorSummary before;  // of the rows held out; of all where there are fewer than kFewestHeldOut of them
  ErrorSummary after;
};

inline constexpr std::size_t kFewestHeldOut = 3;

struct FittedOperators {
  Node document;                     // content of a file of configs/operators
  std::vector<OperatorFit> fits;     // in the order of the rows
  std::vector<Diagnostic> unfitted;  // one a kind, format and library for which there is no entry to begin with
};

/// Changes the numbers that measured times determine, each with a mechanism behind it, to those with the least mean
/// |ln(predicted / measured)| by a pattern search from the numbers of `document`, over the rows that is_held_out()
/// leaves. Rows of a library without figures get an entry of their own, which begins as the first entry of their format
/// and direction. At most 400 rows, evenly taken, decide a fit. Rows of training steps, which `training` describes by
/// factors, are not fitted. `source` names the table in the entries' origins. Deterministic.
[[nodiscard]] FittedOperators fit_operators(Node document, std::span<const OperatorRow> rows,
                                            const std::string& source);

/// A text table with a line a fit: rows, and the error before and after.
[[nodiscard]] std::string fit_table(std::span<const OperatorFit> fits);

}  // namespace moeplan::profiler
