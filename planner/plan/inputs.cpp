#include "planner/plan/inputs.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "model/base/sha256.hpp"
#include "model/costs/compute.hpp"
#include "model/text/origins.hpp"
#include "model/text/unreadable_file.hpp"
#include "model/transformer/hf_config.hpp"

namespace moeplan::planner {

namespace fs = std::filesystem;

namespace {

/// An address in the program or module that this code is a part of.
const char kPlace[1] = {};

[[noreturn]] void fail(std::string what, std::string key, std::string message) {
  throw InputError({{std::move(what)}, std::move(key), std::move(message)});
}

void apply_override(PlanInputs& inputs, const std::string& text) {
  const std::string origin = "-C " + text;
  const std::size_t equals = text.find('=');
  const std::size_t dot = text.find('.');
  if (equals == std::string::npos || dot == std::string::npos || dot > equals) {
    fail(origin, "",
         "expected KEY=VALUE with a key such as cluster.gpu.memory, model.layers[0].repeat or workload.global_batch");
  }
  const std::string root = text.substr(0, dot), path = text.substr(dot + 1, equals - dot - 1);
  const std::vector<std::string> roots{"cluster", "model", "workload"};
  Node* document = root == "cluster"    ? &inputs.cluster
                   : root == "model"    ? &inputs.model
                   : root == "workload" ? &inputs.workload
                                        : nullptr;
  if (!document) fail(origin, "", fmt::format("{} is no root of a key{}", in_quotes(root), suggestion(root, roots)));
  override_value(*document, path, text.substr(equals + 1), origin);
}

/// Replaces a trace's path, relative to the file that names it, by an absolute path with a hash of the content: a plan
/// file may be stored elsewhere, and its trace may change.
void pin_trace(Node& workload) {
  Node* routing = workload.find("routing");
  Node* trace = routing ? routing->find("trace") : nullptr;
  if (!trace || trace->kind != Node::Kind::Scalar || routing->find("sha256")) return;
  const bool is_option = trace->where.file.starts_with("-C ");
  const fs::path folder = is_option ? fs::path() : fs::path(trace->where.file).parent_path();
  if (trace->scalar.empty()) throw InputError(Diagnostic{trace->where, "routing.trace", "is empty; expected a file"});
  std::error_code error;  // without a working directory the path stays relative
  const fs::path absolute = fs::absolute(folder / trace->scalar, error);
  if (!error) trace->scalar = absolute.lexically_normal();
  trace->is_string = true;
  constexpr std::size_t kMost = std::size_t{1} << 30;
  const std::string hash = sha256(read_text_file(trace->scalar, kMost));
  routing->set("sha256", Node::text(hash));
}

/// The first of the places that is a directory. Raises UnreadableFile if there is none but the system does not tell of
/// one of them.
std::optional<fs::path> first_directory(const std::vector<fs::path>& places) {
  std::optional<UnreadableFile> unknown;
  for (const fs::path& p : places) {
    try {
      if (fs::is_directory(file_status(p))) return p;
    } catch (const UnreadableFile& e) {
      unknown = e;
    }
  }
  if (unknown) throw *unknown;
  return std::nullopt;
}

}  // namespace

std::vector<fs::path> config_places() {
  if (const char* set = std::getenv("MOEPLAN_CONFIGS"); set && *set) return {set};
  std::error_code ignored;
  const fs::path executable = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  std::vector<fs::path> places{executable / "../share/moeplan/configs"};
  // As a part of a Python module: PREFIX/lib/python3/dist-packages/moeplan.
  if (Dl_info module{}; dladdr(kPlace, &module) != 0 && module.dli_fname)
    places.push_back(fs::absolute(module.dli_fname, ignored).parent_path() / "../../../../share/moeplan/configs");
  for (const char* place : {MOEPLAN_SOURCE_CONFIGS, MOEPLAN_INSTALLED_CONFIGS}) {
    if (*place) places.emplace_back(place);
  }
  // For source trees that were moved after the build, with the executable in build/PRESET/cli.
  places.push_back(executable / "../../../configs");
  for (fs::path& place : places) place = place.lexically_normal();
  return places;
}

fs::path config_directory(const std::vector<fs::path>& places) {
  if (const auto found = first_directory(places)) return *found;
  std::vector<std::string> names;
  for (const fs::path& p : places) names.push_back(p.string());
  fail("configs", "",
       fmt::format("no folder of configurations was found; looked for {}; name one with the environment variable "
                   "MOEPLAN_CONFIGS",
                   fmt::join(names, ", ")));
}

std::vector<fs::path> gpu_directories() {
  const auto found = first_directory(config_places());
  return found ? std::vector<fs::path>{*found / "gpus"} : std::vector<fs::path>();
}

std::vector<std::string> config_names(const std::string& kind) {
  std::vector<std::string> names;
  const fs::path folder = config_directory() / kind;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    if (it->path().extension() == ".yaml") names.push_back(it->path().stem());
  }
  if (error && error != std::errc::no_such_file_or_directory) throw UnreadableFile(folder, error.value());
  std::sort(names.begin(), names.end());
  return names;
}

std::map<std::string, std::string> models_by_hugging_face_id() {
  std::map<std::string, std::string> out;
  for (const std::string& name : config_names("models")) {
    const Node document = load_document(find_config("models", name));
    const Node* ids = document.find("hugging_face");
    if (!ids) continue;
    for (const Node& id : ids->items) out.emplace(id.scalar, name);
  }
  return out;
}

namespace {

/// The model with this id on Hugging Face. Raises InputError with the nearest id; none if the name is no such id.
std::optional<fs::path> model_of_id(const std::string& name) {
  const std::size_t slash = name.find('/');
  const bool is_id =
      slash != std::string::npos && slash > 0 && name.find('/', slash + 1) == std::string::npos && name.front() != '.';
  if (!is_id || fs::exists(file_status(name)) || name.ends_with(".json") || name.ends_with(".yaml"))
    return std::nullopt;
  if (fs::is_directory(file_status(name.substr(0, slash)))) return std::nullopt;  // a file of a folder that is there
  const std::map<std::string, std::string> ids = models_by_hugging_face_id();
  if (const auto it = ids.find(name); it != ids.end()) return config_directory() / "models" / (it->second + ".yaml");
  std::vector<std::string> known;
  for (const auto& [id, file] : ids) known.push_back(id);
  const std::string nearest = nearest_name(name, known);
  fail(name, "",
       fmt::format("is no file and no Hugging Face id of configs/models{}; of another model name its config.json",
                   nearest.empty() ? "" : fmt::format("; did you mean {}?", in_quotes(nearest))));
}

}  // namespace

fs::path find_config(const std::string& kind, const std::string& name) {
  if (name.empty()) fail("", "", fmt::format("the name of a file of configs/{} is empty", kind));
  const fs::path as_path(name);
  if (kind == "models") {
    if (const auto shipped = model_of_id(name)) return *shipped;
  }
  if (name.find('/') != std::string::npos || (as_path.has_extension() && fs::exists(file_status(as_path))))
    return as_path;
  const fs::path named = config_directory() / kind / (name + ".yaml");
  if (fs::is_regular_file(file_status(named))) return named;
  const std::vector<std::string> names = config_names(kind);
  fail(name, "",
       fmt::format("is no file of configs/{}{}; a path is written with a slash, as ./{}", kind, suggestion(name, names),
                   name));
}

Framework load_framework(const std::string& name_and_version) {
  const std::size_t at = name_and_version.find('@');
  const std::string name = name_and_version.substr(0, at);
  const std::string version = at == std::string::npos ? "" : name_and_version.substr(at + 1);
  return read_framework(load_document(find_config("frameworks", name)), version);
}

void settle_for_framework(const Framework& framework, PlanInputs& documents, Inputs& inputs) {
  check_workload(framework, inputs.workload, documents.workload);
  if (inputs.workload.recompute != Recompute::Selective) return;
  const Recompute there = recomputed_by(framework, Recompute::Selective);
  if (there == Recompute::Selective) return;
  apply_overrides(documents, {"workload.recompute=" + name_of(there)});
  inputs.workload.recompute = there;
}

Node load_cluster_document(const fs::path& path) {
  Node document = load_document(path);
  embed_files(document, gpu_directories());
  return document;
}

Node load_model_document(const fs::path& path, UnknownFamilies unknown) {
  const Node document = load_document(path);
  if (!is_hf_config(document)) return document;
  std::string name = path.stem() == "config" ? path.parent_path().filename() : path.stem();
  if (name.empty()) name = "model";
  if (unknown == UnknownFamilies::Refused) return model_document(model_from_hf_config(document, name));
  std::vector<std::string> approximations;
  Node model = model_document(approximate_hf_config(document, name, approximations));
  if (approximations.empty()) return model;
  Node list = Node::list();
  for (std::string& text : approximations) list.items.push_back(Node::text(std::move(text)));
  model.set("approximations", std::move(list));
  return model;
}

std::vector<std::string> approximations_of(const Node& model) {
  std::vector<std::string> out;
  if (const Node* list = model.find("approximations")) {
    for (const Node& text : list->items) out.push_back(text.scalar);
  }
  return out;
}

PlanInputs load_inputs(const std::string& cluster, const std::string& model, const std::string& workload,
                       const std::vector<std::string>& overrides, UnknownFamilies unknown) {
  // Errors in all three documents are reported together.
  std::vector<Diagnostic> wrong;
  const auto collect = [&](auto load) {
    try {
      load();
    } catch (const InputError& e) {
      for (const Diagnostic& d : e.diagnostics()) {
        const auto is_same = [&](const Diagnostic& other) { return other.text() == d.text(); };
        if (std::none_of(wrong.begin(), wrong.end(), is_same)) wrong.push_back(d);
      }
    }
  };
  PlanInputs inputs;
  collect([&] {
    inputs.cluster_source = find_config("clusters", cluster);
    inputs.cluster = load_cluster_document(inputs.cluster_source);
  });
  collect([&] {
    inputs.model_source = find_config("models", model);
    inputs.model = load_model_document(inputs.model_source, unknown);
  });
  collect([&] {
    inputs.workload_source = find_config("workloads", workload);
    inputs.workload = load_document(inputs.workload_source);
  });
  if (!wrong.empty()) throw InputError(wrong);
  apply_overrides(inputs, overrides);
  pin_trace(inputs.workload);
  return inputs;
}

void apply_overrides(PlanInputs& inputs, const std::vector<std::string>& overrides) {
  std::vector<Diagnostic> wrong;
  for (const std::string& text : overrides) {
    try {
      apply_override(inputs, text);
    } catch (const InputError& e) {
      wrong.insert(wrong.end(), e.diagnostics().begin(), e.diagnostics().end());
    }
    inputs.overrides.push_back(text);
  }
  if (!wrong.empty()) throw InputError(wrong);
  for (Node* document : {&inputs.cluster, &inputs.model, &inputs.workload}) drop_replaced_origins(*document);
  embed_files(inputs.cluster, gpu_directories());  // an override may name a GPU, its operators or collectives
  record_overrides(inputs.cluster);
}

Cluster build_cluster_of(const std::string& file, const ClusterSpec& spec, std::optional<std::int64_t> world) {
  try {
    return build_cluster(spec, world);
  } catch (const InputError& e) {
    std::vector<Diagnostic> wrong(e.diagnostics().begin(), e.diagnostics().end());
    for (Diagnostic& d : wrong) {
      if (d.where.file.empty()) d.where.file = file;
    }
    throw InputError(std::move(wrong));
  }
}

Cluster load_cluster(const std::string& name, const std::vector<std::string>& overrides,
                     std::optional<std::int64_t> world) {
  PlanInputs documents;
  documents.cluster = load_cluster_document(find_config("clusters", name));
  apply_overrides(documents, overrides);
  return build_cluster(read_cluster(documents.cluster), world);
}

void resolve_gate(Workload& workload, std::optional<double> cluster_ratio, const Node& document) {
  Gate& gate = workload.gate;
  if (!needs_net_over_local(workload)) return;
  gate.net_over_local = cluster_ratio;
  if (gate.net_over_local) return;
  throw InputError(
      {document.find("gate")->where, "gate",
       "the cluster's file has no template with a network to take W_net / W_local from; expected net_over_local"});
}

std::optional<MissingFigures> missing_figures(const Workload& workload, const GpuSpec& gpu) {
  if (workload.offload != Offload::None && !gpu.host_bandwidth)
    return MissingFigures{"offload", gpu.name +
                                         " has no host_bandwidth, that of copies to its host's memory; expected "
                                         "it in the GPU's file or as cluster.gpu.host_bandwidth"};
  if (!workload.precision || figures_of_products(gpu, workload.dtype, workload.precision)) return std::nullopt;
  if (!gpu.operators && gpu.peak.contains(Dtype::Fp8)) return std::nullopt;
  std::vector<std::string_view> known;
  for (const auto& [precision, name] : kPrecisionNames) {
    if (figures_of_products(gpu, workload.dtype, precision)) known.push_back(name);
  }
  return MissingFigures{"precision",
                        fmt::format("{} has no measured products in {}{}", gpu.name, precision_text(workload),
                                    known.empty() ? "" : fmt::format("; it has those of {}", fmt::join(known, ", ")))};
}

void check_figures(const Workload& workload, const GpuSpec& gpu, const Node& document) {
  if (const auto missing = missing_figures(workload, gpu))
    throw InputError({document.find(missing->key)->where, missing->key, missing->what});
}

Inputs read_inputs(const PlanInputs& documents) {
  std::vector<Diagnostic> wrong;
  Inputs inputs;
  const auto collect = [&](auto read) {
    try {
      read();
    } catch (const InputError& e) {
      wrong.insert(wrong.end(), e.diagnostics().begin(), e.diagnostics().end());
    }
  };
  collect([&] { inputs.cluster = read_cluster(documents.cluster); });
  collect([&] { inputs.model = read_model(documents.model); });
  collect([&] { inputs.workload = read_workload(documents.workload, WorkloadLimits::of(inputs.model)); });
  if (wrong.empty())
    collect([&] { resolve_gate(inputs.workload, net_over_local(inputs.cluster), documents.workload); });
  if (wrong.empty()) collect([&] { check_figures(inputs.workload, inputs.cluster.gpu, documents.workload); });
  if (!wrong.empty()) throw InputError(wrong);
  return inputs;
}

}  // namespace moeplan::planner
