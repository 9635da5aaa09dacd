#include "planner/report/accuracy.hpp"

#include <algorithm>

#include "model/text/reader.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::planner {

namespace {

constexpr double kMost = 1000;  // a prediction 1,000 times too large

/// Of the shipped file; nothing without it.
Accuracies shipped() {
  if (gpu_directories().empty()) return {};  // there are no configurations: a plan file stands alone
  const std::vector<std::string> names = config_names("accuracy");
  if (std::find(names.begin(), names.end(), "iterations") == names.end()) return {};
  return read_accuracy(load_document(find_config("accuracy", "iterations")));
}

}  // namespace

Accuracies read_accuracy(const Node& document) {
  Diagnostics diagnostics;
  MapReader reader(document, "", diagnostics);
  Accuracies out;
  for (const auto& [node, path] : reader.list("accuracy")) {
    MapReader entry(*node, path, diagnostics);
    out.iterations.push_back({.gpu = entry.text("gpu"),
                              .precision = entry.text_or("precision", ""),
                              .is_of_pytorch = entry.boolean_or("pytorch_modules", false),
                              .runs = entry.integer("runs", 1),
                              .most_gpus = entry.integer("most_gpus", 1),
                              .median = entry.number("median", 0, kMost),
                              .p90 = entry.number("p90", 0, kMost),
                              .bias = entry.number("bias", -kMost, kMost)});
    entry.finish();
  }
  const auto memory_of = [&](const char* key) -> std::optional<MemoryAccuracy> {
    if (!reader.has(key)) return std::nullopt;
    MapReader memory = reader.map(key);
    const MemoryAccuracy read{.runs = memory.integer("runs", 1), .p90 = memory.number("p90", 0, kMost)};
    memory.finish();
    return read;
  };
  out.memory = memory_of("memory");
  out.pytorch_memory = memory_of("pytorch_memory");
  reader.finish();
  diagnostics.throw_if_any();
  return out;
}

std::optional<Accuracy> accuracy_of(std::span<const Accuracy> known, const GpuSpec& gpu, const Workload& workload) {
  if (workload.mode == Mode::Forward) return std::nullopt;
  const bool is_of_pytorch = workload.pytorch_modules != PyTorchModules::None;
  for (const std::string& precision : {precision_text(workload), std::string()}) {
    const auto it = std::find_if(known.begin(), known.end(), [&](const Accuracy& a) {
      return a.gpu == gpu.name && a.precision == precision && a.is_of_pytorch == is_of_pytorch && a.runs >= kFewestRuns;
    });
    if (it != known.end()) return *it;
  }
  return std::nullopt;
}

std::optional<Accuracy> shipped_accuracy_of(const GpuSpec& gpu, const Workload& workload) {
  return accuracy_of(shipped().iterations, gpu, workload);
}

std::optional<MemoryAccuracy> shipped_memory_accuracy(const Workload& workload) {
  return workload.pytorch_modules == PyTorchModules::None ? shipped().memory : shipped().pytorch_memory;
}

}  // namespace moeplan::planner
