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

  /// Examples, seeds, and what fuzzing found earlier.
  [[nodiscard]] std::vector<std::string> texts(const std::filesystem::path& source) const;
};

/// All readers. `source` is the root of the source tree.
[[nodiscard]] std::vector<Reader> readers(const std::filesystem::path& source);

/// Those of jobs of frameworks, of what executions store, and of databases.
[[nodiscard]] std::vector<Reader> job_readers(const std::filesystem::path& source);

}  // namespace moeplan::tests
