// The report of `moeplan price`: the time of one operator, and how it comes about.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::cli {

/// A priced operator.
struct PriceReport {
  std::string kind, gpu, format, phase;  // format is empty for kernels
  std::string library;                   // whose figures
  std::string origin;                    // what the file says about them: "measured: ..."
  Seconds time;
  std::vector<std::pair<std::string, Seconds>> parts;  // math and memory overlap
  std::string bound;                                   // the part that decides
  std::string tile;                                    // "128 x 256", "128 x 256, 4 splits of k"; "" without
  Flops flops;                                         // 0 for kernels
};

[[nodiscard]] std::string price_page(const PriceReport& report);
[[nodiscard]] std::string price_json(const PriceReport& report);

}  // namespace moeplan::cli
