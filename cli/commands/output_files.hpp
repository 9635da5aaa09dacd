// Checks of a command's output files, before its work begins.
#pragma once

#include <string>
#include <vector>

namespace moeplan::cli {

/// Raises InputError for every path that write_file_atomically() could not write: a directory, or a path whose folder
/// does not exist or is not writable. An empty path is an option that was not given. Nothing is written; a full disk is
/// detected only later.
void check_outputs(const std::vector<std::string>& paths);

/// Creates the folder that `option` names if there is none. Raises InputError.
void make_output_folder(const std::string& option, const std::string& folder);

}  // namespace moeplan::cli
