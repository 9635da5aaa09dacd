#include "cli/commands/input_files.hpp"

#include <fmt/format.h>

#include <cstdio>

#include "profiler/tables/nccl_tests.hpp"

namespace moeplan::cli {

profiler::CollectiveSamples read_logs(const std::vector<std::string>& logs) {
  profiler::CollectiveSamples all;
  for_each_file(logs, [&](const std::string& file) {
    const profiler::CollectiveSamples read = profiler::read_nccl_tests(file);
    all.samples.insert(all.samples.end(), read.samples.begin(), read.samples.end());
    all.hosts.insert(read.hosts.begin(), read.hosts.end());
    for (const Diagnostic& note : read.notes) fmt::print(stderr, "note: {}\n", note.text());
  });
  if (all.samples.empty()) throw InputError(Diagnostic{{logs.front()}, "", "nothing in it is of use (see the notes)"});
  return all;
}

}  // namespace moeplan::cli
