#include "profiler/fits/source_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace moeplan::profiler {

std::string plain(std::string text) {
  constexpr std::size_t kLongest = 80;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return text;
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t kMostNamed = 4;
  std::vector<std::string> named;
  for (std::size_t i = 0; i < std::min(kMostNamed, names.size()); ++i) named.push_back(plain(names[i]));
  std::string text = fmt::format("{}", fmt::join(named, ", "));
  if (names.size() > kMostNamed) text += fmt::format(" and {} others", names.size() - kMostNamed);
  return text;
}

std::string listed_files(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(std::filesystem::path(file).filename().string());
  return listed(names);
}

}  // namespace moeplan::profiler
