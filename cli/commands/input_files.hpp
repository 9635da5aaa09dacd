// Several files that one command reads.
#pragma once

#include <string>
#include <vector>

#include "model/base/diagnostics.hpp"
#include "profiler/tables/samples.hpp"

namespace moeplan::cli {

/// Calls `read` for every file, and raises one InputError with the errors of all files.
template <class Read>
void for_each_file(const std::vector<std::string>& files, Read read) {
  Diagnostics wrong;
  for (const std::string& file : files) wrong.collect([&] { read(file); });
  wrong.throw_if_any();
}

/// The samples of all logs of nccl-tests; what was skipped is printed on standard error. Raises InputError, also if
/// there are no samples.
[[nodiscard]] profiler::CollectiveSamples read_logs(const std::vector<std::string>& logs);

}  // namespace moeplan::cli
