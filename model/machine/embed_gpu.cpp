// Replaces the names of a GPU and of its operator models by the content of their files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "model/machine/cluster.hpp"

namespace moeplan {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> names_in(const std::vector<fs::path>& dirs) {
  std::vector<std::string> names;
  for (const fs::path& dir : dirs) {
    std::error_code error;
    for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
      if (it->path().extension() == ".yaml") names.push_back(it->path().stem().string());
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

/// A name is looked up in the directories; a path (it contains a slash) is relative to the file that contains it.
std::optional<fs::path> named_file(const Node& gpu, const std::vector<fs::path>& dirs) {
  std::error_code ignored;
  if (gpu.scalar.find('/') != std::string::npos) {
    const fs::path path = fs::path(gpu.where.file).parent_path() / gpu.scalar;
    return fs::is_regular_file(path, ignored) ? std::optional(path) : std::nullopt;
  }
  for (const fs::path& dir : dirs) {
    const fs::path path = dir / (gpu.scalar + ".yaml");
    if (fs::is_regular_file(path, ignored)) return path;
  }
  return std::nullopt;
}

/// Replaces a name by the content of its file.
void embed(Node& name, std::string key, std::string_view unknown, const std::vector<fs::path>& dirs) {
  if (name.kind != Node::Kind::Scalar) return;
  const std::optional<fs::path> path = named_file(name, dirs);
  if (!path) {
    throw InputError(
        {name.where, std::move(key),
         fmt::format("{} {}{}", in_quotes(name.scalar), unknown, suggestion(name.scalar, names_in(dirs)))});
  }
  name = load_document(*path);
}

}  // namespace

void embed_gpu(Node& cluster, const std::vector<fs::path>& gpu_dirs) {
  Node* gpu = cluster.find("gpu");
  if (!gpu) return;
  embed(*gpu, "gpu", "is no known GPU", gpu_dirs);
  embed_operators(*gpu, gpu_dirs);
}

void embed_operators(Node& gpu, const std::vector<fs::path>& gpu_dirs) {
  std::vector<fs::path> dirs;
  for (const fs::path& dir : gpu_dirs) dirs.push_back(dir.parent_path() / "operators");
  Node* operators = gpu.find("operators");
  if (operators && operators->scalar != "none") embed(*operators, "operators", "is no file of configs/operators", dirs);
}

}  // namespace moeplan
