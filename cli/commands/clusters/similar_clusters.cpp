#include "cli/commands/clusters/similar_clusters.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <variant>

#include "model/base/diagnostics.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

namespace fs = std::filesystem;

/// The name of a GPU without the size of its memory, in which boards of one kind differ: a100_sxm of a100_sxm_40gb.
std::string without_memory(const std::string& gpu) {
  const std::size_t end = gpu.ends_with("gb") ? gpu.rfind('_') : std::string::npos;
  return gpu.substr(0, end);
}

/// Whether the cluster's models of collectives are those of another machine.
bool borrows_models(const Node& cluster) {
  const Node* origins = cluster.find("origins");
  const Node* origin = origins ? origins->find("collectives") : nullptr;
  return origin && origin->scalar.starts_with("assumed");
}

}  // namespace

std::vector<std::string> clusters_with(const std::string& gpu) {
  std::vector<std::string> out;
  for (const std::string& name : planner::config_names("clusters")) {
    const Node document = load_document(planner::find_config("clusters", name));
    const Node *its_gpu = document.find("gpu"), *collectives = document.find("collectives");
    const bool has_models = collectives && collectives->kind == Node::Kind::Scalar && collectives->scalar != "none";
    const bool has_gpu = its_gpu && without_memory(its_gpu->scalar) == without_memory(gpu);
    if (has_gpu && has_models && !borrows_models(document) && document.find("template")) out.push_back(name);
  }
  return out;
}

profiler::SimilarCluster similar_cluster(const std::string& name) {
  const fs::path file = planner::find_config("clusters", name);
  const Node embedded = planner::load_cluster_document(file);
  const ClusterSpec spec = read_cluster(embedded);
  const auto* machine = std::get_if<ClusterTemplate>(&spec.machine);
  if (!machine) {
    throw InputError(
        Diagnostic{{"--like"}, "", fmt::format("{} lists its links; expected a cluster with a template", name)});
  }
  Node document = load_document(file);
  // Relative paths are those of its folder, not of the new file's.
  if (Node* gpu = document.find("gpu"); gpu && gpu->scalar.find('/') != std::string::npos) {
    document.set("gpu", Node::text(fs::absolute(file.parent_path() / gpu->scalar).string()));
  }
  profiler::SimilarCluster out{name, std::move(document), *machine};
  for (const char* key : {"collectives", "collective_models"}) {
    if (const Node* models = embedded.find(key); models && models->kind == Node::Kind::Map) out.models = *models;
  }
  return out;
}

std::string path_in_file(const std::string& name) {
  return name.find('/') == std::string::npos && !fs::path(name).has_extension() ? name : fs::absolute(name).string();
}

}  // namespace moeplan::cli
