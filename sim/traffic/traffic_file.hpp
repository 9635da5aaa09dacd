// Readers of traffic matrices from files.
#pragma once

#include <filesystem>
#include <variant>
#include <vector>

#include "sim/traffic/traffic.hpp"

namespace moeplan::sim {

/// A traffic matrix with optional expected completion times.
struct TrafficFile {
  TrafficMatrix matrix;
  std::vector<double> finish_s;  // by flow: the expected completion time; empty if the file does not have the column
};

/// A destination-uniform all-to-all, in which every rank sends the same bytes to a destination.
struct ColumnFile {
  std::vector<double> bytes;  // by destination, up to the last one listed: the bytes that every other rank sends to it
};

/// Reads a plain or gzip-compressed file in one of these formats:
///  - CSV with the header `src,dst,bytes` or `src,dst,bytes,finish_s`, one flow per line, without duplicate pairs;
///  - the P x P byte matrix of nccl-tests' alltoallv_perf: numbers separated by blanks or commas, one source per line;
///    blank lines and lines that begin with `#` are ignored, entries of 0 are no flows;
///  - CSV with the header `dst,bytes`, one destination per line, without duplicates; the others receive nothing.
/// Raises InputError with the line of every error (the first 20 of them).
[[nodiscard]] std::variant<TrafficFile, ColumnFile> read_traffic_or_columns(const std::filesystem::path& path);

/// Reads a traffic matrix only: raises InputError for a destination-uniform file.
[[nodiscard]] TrafficFile read_traffic(const std::filesystem::path& path);

}  // namespace moeplan::sim
