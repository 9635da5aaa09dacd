// The frozen list of published numbers, configs/papers/rows.csv: what each paper prints, where, and within which
// tolerance a prediction agrees. The list was written before the predictions; its SHA-256 stands in a test.
#pragma once

#include <array>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan::reproduction {

/// When a prediction agrees with a published number: within a fraction of it, equal, above a limit whatever the number
/// is, or if the paper's setting is also the prediction's best one.
enum class Agreement { Within, Equal, Above, SameSetting };

struct Tolerance {
  Agreement agreement = Agreement::Within;
  double value = 0;  // Within: the fraction; Above: the limit
  std::string text;  // as in the list
};

/// A published number.
struct PaperRow {
  std::string paper;
  std::string id;
  std::string place;  // table, figure or section of the paper
  std::string quantity;
  double value = 0;
  Tolerance tolerance;
  bool is_scored = true;  // otherwise an input was calibrated with it
  std::string declared;   // inputs that the paper does not give
  Location where;
};

/// Reads the list. Raises InputError with the line of everything that is wrong.
[[nodiscard]] std::vector<PaperRow> read_row_list(const std::filesystem::path& file);

/// Whether the prediction agrees. `is_same_setting` counts for SameSetting alone.
[[nodiscard]] bool agrees(const PaperRow& row, double predicted, bool is_same_setting);

}  // namespace moeplan::reproduction
