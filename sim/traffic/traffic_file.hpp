// Traffic matrices as files.
#pragma once

#include <filesystem>
#include <variant>
#include <vector>

#include "sim/traffic/traffic.hpp"

namespace moeplan::sim {

struct TrafficFile {
  TrafficMatrix matrix;
  std::vector<double> finish_s;  // of each flow, if the file has the column: what it should be
};

/// An all-to-all in which every rank sends the same.
struct ColumnFile {
  std::vector<double> bytes;  // by destination, up to the last that is given: what every other rank sends to it
};

/// Reads, plain or gzip, one of
///  - CSV with the header `src,dst,bytes` or `src,dst,bytes,finish_s`, one flow a line, no pair twice;
///  - the P x P byte matrix of nccl-tests' alltoallv_perf: numbers parted by blanks or commas, one source a line, blank
///    lines and lines that begin with `#` left out; entries of 0 are no flows;
///  - CSV with the header `dst,bytes`, one destination a line, none twice; those left out get nothing.
/// Raises InputError with the line of everything that is wrong (the first 20 of them).
[[nodiscard]] std::variant<TrafficFile, ColumnFile> read_traffic_or_columns(const std::filesystem::path& path);

/// The same where traffic by column is of no use: it is refused.
[[nodiscard]] TrafficFile read_traffic(const std::filesystem::path& path);

}  // namespace moeplan::sim
