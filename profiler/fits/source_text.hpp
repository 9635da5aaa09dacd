// Names of files and devices as the origins of fitted figures cite them.
#pragma once

#include <string>
#include <vector>

namespace moeplan::profiler {

/// The text as used in a line of a document: printable and of limited length.
[[nodiscard]] std::string plain(std::string text);

/// A list such as "a.log, b.log and 3 others" of plain() names.
[[nodiscard]] std::string listed(const std::vector<std::string>& names);

/// The same of the files' names, without folders.
[[nodiscard]] std::string listed_files(const std::vector<std::string>& files);

}  // namespace moeplan::profiler
