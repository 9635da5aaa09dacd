#include "model/text/unreadable_file.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace moeplan {

namespace fs = std::filesystem;

UnreadableFile::UnreadableFile(const fs::path& path, int reason, int line)
    : InputError(Diagnostic{{path.string(), line}, "", fmt::format("cannot be read: {}", std::strerror(reason))}) {}

fs::file_status file_status(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::status_known(status)) return status;
  if (error.value() == ENAMETOOLONG) return fs::file_status(fs::file_type::not_found);
  throw UnreadableFile(path, error.value());
}

}  // namespace moeplan
