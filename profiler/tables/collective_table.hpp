// Tables of measured collectives in the columns that `moeplan score` reads (docs/communication.md, "Tables").
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "model/base/quantity.hpp"
#include "profiler/tables/table_reader.hpp"

namespace moeplan::profiler {

[[nodiscard]] const TableFormat& collective_format();

/// One measured collective.
struct CollectiveRow {
  std::string cluster;              // a name of configs/collectives
  std::string op;                   // all_to_all, all_gather, reduce_scatter, all_reduce, broadcast, send_receive
  std::int64_t ranks = 0;           // at least 1
  std::int64_t ranks_per_node = 0;  // ranks that share an NVLink domain: at least 1, a divisor of ranks
  Bytes bytes;                      // as nccl-tests prints "size"
  bool in_place = false;
  Seconds time;
  std::string source;
  Location where;
};

/// Reads a table, plain or gzip. Raises InputError with the line and column of everything that is wrong.
[[nodiscard]] std::vector<CollectiveRow> read_collective_table(const std::filesystem::path& path);

}  // namespace moeplan::profiler
