// What Megatron-LM's functional tests record of their jobs: a table next to the checkout, which may be absent.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/text/reader.hpp"
#include "profiler/tables/table_text.hpp"

namespace moeplan::tests {

struct RecordedJob {
  std::string id, gpu, arguments;
  std::int64_t world = 0;  // GPUs; 0: not known
  double bytes = 0;        // the largest number that the last rank allocated; 0: not recorded

  [[nodiscard]] bool has(std::string_view text) const { return arguments.find(text) != std::string::npos; }
  /// The cluster that has its GPU.
  [[nodiscard]] std::string cluster() const {
    return gpu == "h100_sxm" ? "dgx_h100" : gpu == "gb200" ? "gb200_nvl72" : "dgx_a100";
  }
};

/// The jobs in the table's order; none, with a warning, if there is no table.
inline std::optional<std::vector<RecordedJob>> recorded_jobs() {
  const std::filesystem::path file = MOEPLAN_SOURCE_DIR "/../shared/data/runs/small_runs.csv";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: no small_runs.csv at ../shared/data/runs");
    return std::nullopt;
  }
  std::vector<RecordedJob> out;
  const std::string text = read_text_file(file, std::size_t{1} << 26);
  for (const std::string_view line : profiler::split(text, '\n')) {
    const auto fields = profiler::csv_fields(line);
    if (!fields || fields->size() < 10 || fields->front() == "id") continue;
    out.push_back({.id = fields->front(),
                   .gpu = (*fields)[1],
                   .arguments = (*fields)[9],
                   .world = std::atoll((*fields)[2].c_str()),
                   .bytes = std::strtod((*fields)[7].c_str(), nullptr)});
  }
  return out;
}

}  // namespace moeplan::tests
