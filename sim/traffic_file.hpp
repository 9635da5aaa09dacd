// Traffic matrices as files.
#pragma once

#include <filesystem>
#include <vector>

#include "sim/traffic.hpp"

namespace moeplan {

struct TrafficFile {
  TrafficMatrix matrix;
  std::vector<double> finish_s;  // of each flow, if the file has the column: what it should be
};

/// Reads, plain or gzip, either of
///  - CSV with the header `src,dst,bytes` or `src,dst,bytes,finish_s`, one flow a line, no pair twice;
///  - the P x P byte matrix of nccl-tests' alltoallv_perf: numbers parted by blanks or commas, one source a line, blank
///    lines and lines that begin with `#` left out; entries of 0 are no flows.
/// Raises InputError with the line of everything that is wrong (the first 20 of them).
[[nodiscard]] TrafficFile read_traffic(const std::filesystem::path& path);

}  // namespace moeplan
