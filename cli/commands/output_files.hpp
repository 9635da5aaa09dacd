// Files that a command is to write, checked before its work begins.
#pragma once

#include <string>
#include <vector>

namespace moeplan::cli {

/// Raises InputError for every path that write_file_atomically() could not write: whose folder does not exist or may
/// not be written to, or that is a directory. An empty path is an option that was not given. Nothing is written; a disk
/// that is full is noticed only later.
void check_outputs(const std::vector<std::string>& paths);

}  // namespace moeplan::cli
