// Files that exist but that the system does not let be read: a failing disk, too many open files, no permission.
#pragma once

#include <filesystem>

#include "model/base/diagnostics.hpp"

namespace moeplan {

/// Exception for such a file. Another attempt can succeed: it says nothing about what the file contains.
class UnreadableFile : public InputError {
 public:
  /// `reason` is an error number of the system; `line` the line that could not be read, 0 for the whole file.
  UnreadableFile(const std::filesystem::path& path, int reason, int line = 0);
};

/// The status of a file, following links; not_found if it does not exist. Raises UnreadableFile if the system does not
/// tell.
[[nodiscard]] std::filesystem::file_status file_status(const std::filesystem::path& path);

}  // namespace moeplan
