// What reads text from outside, each as one function of the text: for fuzzing, and for replaying what it found.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace moeplan::tests {

struct Reader {
  std::string name;                              // of its corpus, too
  std::vector<std::filesystem::path> seeds;      // good files that come with the project; none: `examples` alone
  std::vector<std::string> examples;             // good texts
  std::function<void(const std::string&)> read;  // raises InputError for a bad text, and nothing else
};

/// All readers. `source` is the root of the source tree.
[[nodiscard]] std::vector<Reader> readers(const std::filesystem::path& source);

}  // namespace moeplan::tests
