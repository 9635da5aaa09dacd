// Files for readers that take a path.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace moeplan::tests {

/// A file with this text; one for each extension and process, rewritten every time.
[[nodiscard]] std::filesystem::path file_of(const std::string& text, const std::string& extension);

/// The files of a folder, sorted; none if there is no such folder.
[[nodiscard]] std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder);

/// The bytes of a file.
[[nodiscard]] std::string content_of(const std::filesystem::path& file);

}  // namespace moeplan::tests
