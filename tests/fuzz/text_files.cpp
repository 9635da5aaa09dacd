#include "tests/fuzz/text_files.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace moeplan::tests {

namespace fs = std::filesystem;

fs::path file_of(const std::string& text, const std::string& extension) {
  static const fs::path folder = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
  fs::path path = folder / fmt::format("moeplan-fuzz-{}{}", ::getpid(), extension);
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
  return path;
}

std::vector<fs::path> files_in(const fs::path& folder) {
  std::vector<fs::path> out;
  if (!fs::is_directory(folder)) return out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file()) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

std::string content_of(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace moeplan::tests
