#include "cli/commands/output_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "model/base/diagnostics.hpp"
#include "model/text/document.hpp"

namespace moeplan::cli {

namespace fs = std::filesystem;

namespace {

/// The reason why the path cannot be written; "" if it can.
std::string write_error(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status)) return std::strerror(EISDIR);
  const bool is_device = fs::exists(status) && !fs::is_regular_file(status);
  if (is_device) return ::access(path.c_str(), W_OK) == 0 ? "" : std::strerror(errno);
  const fs::path followed = link_target(path);
  const fs::path folder = followed.has_parent_path() ? followed.parent_path() : fs::path(".");
  const fs::file_status where = fs::status(folder, error);
  if (!fs::exists(where)) return fmt::format("{}: {}", error.message(), folder.string());
  if (!fs::is_directory(where)) return fmt::format("{}: {}", std::strerror(ENOTDIR), folder.string());
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return fmt::format("{}: {}", std::strerror(errno), folder.string());
  return "";
}

}  // namespace

void check_outputs(const std::vector<std::string>& paths) {
  Diagnostics wrong;
  for (const std::string& path : paths) {
    if (path.empty()) continue;
    if (const std::string error = write_error(path); !error.empty())
      wrong.add({path}, "", "cannot be written: " + error);
  }
  wrong.throw_if_any();
}

void make_output_folder(const std::string& option, const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw InputError(Diagnostic{{option}, "", fmt::format("{}: {}", folder, error.message())});
}

}  // namespace moeplan::cli
