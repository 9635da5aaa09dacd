// Replaces the names of a GPU, of its operator models and of models of collectives by the content of their files.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "model/machine/cluster.hpp"
#include "model/text/unreadable_file.hpp"

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
  if (gpu.scalar.find('/') != std::string::npos) {
    const fs::path path = fs::path(gpu.where.file).parent_path() / gpu.scalar;
    return fs::is_regular_file(file_status(path)) ? std::optional(path) : std::nullopt;
  }
  for (const fs::path& dir : dirs) {
    const fs::path path = dir / (gpu.scalar + ".yaml");
    if (fs::is_regular_file(file_status(path))) return path;
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

/// The folders of this name next to the folders of GPUs.
std::vector<fs::path> siblings(const std::vector<fs::path>& gpu_dirs, std::string_view folder) {
  std::vector<fs::path> out;
  for (const fs::path& dir : gpu_dirs) out.push_back(dir.parent_path() / folder);
  return out;
}

}  // namespace

void embed_files(Node& cluster, const std::vector<fs::path>& gpu_dirs) {
  if (Node* gpu = cluster.find("gpu")) {
    embed(*gpu, "gpu", "is no known GPU", gpu_dirs);
    embed_operators(*gpu, gpu_dirs);
  }
  for (const char* key : {"collectives", "collective_models"}) {
    Node* collectives = cluster.find(key);
    if (collectives && collectives->scalar != "none")
      embed(*collectives, key, "is no file of configs/collectives", siblings(gpu_dirs, "collectives"));
  }
}

void embed_operators(Node& gpu, const std::vector<fs::path>& gpu_dirs) {
  Node* operators = gpu.find("operators");
  if (operators && operators->scalar != "none") {
    embed(*operators, "operators", "is no file of configs/operators", siblings(gpu_dirs, "operators"));
  }
}

}  // namespace moeplan
