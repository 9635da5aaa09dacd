// Golden-file tests: a complete output is compared byte by byte with tests/golden/NAME.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include "model/text/document.hpp"

namespace moeplan::tests {

/// Compares `output` with the golden file `name`; fails if they differ or the file is missing. If the environment
/// variable MOEPLAN_REWRITE_GOLDEN is set, writes the file instead and warns.
inline void check_golden(const std::string& name, std::string_view output,
                         const std::filesystem::path& folder = MOEPLAN_SOURCE_DIR "/tests/golden") {
  const std::filesystem::path path = folder / name;
  if (std::getenv("MOEPLAN_REWRITE_GOLDEN") != nullptr) {
    std::filesystem::create_directories(path.parent_path());
    write_file_atomically(path, output);
    WARN("golden file rewritten: " << name);
    return;
  }
  if (!std::filesystem::exists(path)) {
    FAIL("golden file " << name << " is missing; see CONTRIBUTING.md for how to write it");
  }
  const std::string expected = read_text_file(path, std::size_t{64} << 20);
  if (expected == output) {
    SUCCEED();
    return;
  }
  std::size_t at = 0;
  while (at < expected.size() && at < output.size() && expected[at] == output[at]) ++at;
  const auto line_at = [](std::string_view text, std::size_t i) {
    const std::size_t before = i == 0 ? std::string_view::npos : text.rfind('\n', i - 1);
    const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
    return std::string(text.substr(begin, std::min<std::size_t>(200, text.find('\n', begin) - begin)));
  };
  FAIL("golden file " << name << " differs first at byte " << at << ":\n  golden: " << line_at(expected, at)
                      << "\n  now:    " << line_at(output, at));
}

}  // namespace moeplan::tests
