// A program that is run to its end, with what it writes collected.
#pragma once

#include <string>
#include <vector>

#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// How a program ended, and what it wrote: up to 1 MiB of each stream.
struct ProgramEnd {
  int code = 0;  // its exit code; 128 plus the number of the signal that ended it; 127 if it could not be started
  std::string out = {}, err = {};
  bool is_late = false;         // it was ended at the limit
  bool is_interrupted = false;  // it was ended because SIGINT or SIGTERM came to this process
};

/// Runs a command, found on PATH, with empty standard input. After `limit` or an interrupt it and the processes that it
/// has started get SIGTERM, and five seconds later SIGKILL; none of its process group outlives it, and it does not
/// outlive this process. Raises ExecutionError if no process can be created.
[[nodiscard]] ProgramEnd run_program(const std::vector<std::string>& command, Seconds limit);

}  // namespace moeplan::runtime
