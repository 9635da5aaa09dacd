// Replacement of the current process by another program.
#pragma once

#include <string>
#include <vector>

namespace moeplan::runtime {

/// Whether PATH leads to an executable file of this name.
[[nodiscard]] bool is_on_path(const std::string& program);

/// Replaces this process by a command, found on PATH. On failure, prints the reason on standard error and exits with
/// code 127, as shells do.
[[noreturn]] void exec_command(std::vector<std::string> command);

}  // namespace moeplan::runtime
