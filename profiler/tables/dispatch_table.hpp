// Tables of measured dispatches and combines in the columns that `moeplan score` reads (docs/communication.md,
// "Tables").
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"
#include "profiler/tables/table_reader.hpp"

namespace moeplan::profiler {

[[nodiscard]] const TableFormat& dispatch_format();

/// A measured dispatch and combine of one mixture-of-experts layer.
struct DispatchRow {
  std::string cluster;              // a name of configs/collectives
  std::string dispatcher;           // deepep, trtllm_alltoall, pplx, ...
  std::string mode;                 // of the dispatcher: normal, low_latency, ...
  std::optional<std::int64_t> sms;  // that the dispatcher may use
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;   // NVLink domains; a divisor of ranks
  std::int64_t tokens = 0;  // of each rank
  std::int64_t hidden = 0, top_k = 0, experts = 0;
  std::string dispatch_format, combine_format;  // columns dispatch_dtype, combine_dtype
  Seconds dispatch, combine;
  std::string source;
  Location where;
};

/// Reads a table, plain or gzip. Raises InputError with the line and column of everything that is wrong.
[[nodiscard]] std::vector<DispatchRow> read_dispatch_table(const std::filesystem::path& path);

}  // namespace moeplan::profiler
