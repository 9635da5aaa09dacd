// What a forked process does to become another program.
#pragma once

#include <string>
#include <vector>

namespace moeplan::runtime {

/// Runs a command in this process's place, found on PATH. Where that cannot be, says why on standard error and ends the
/// process with code 127, as shells do.
[[noreturn]] void exec_command(std::vector<std::string> command);

}  // namespace moeplan::runtime
