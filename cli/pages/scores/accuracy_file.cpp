#include "cli/pages/scores/accuracy_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <tuple>
#include <utility>

#include "model/base/diagnostics.hpp"
#include "model/machine/cluster.hpp"
#include "planner/plan/inputs.hpp"

namespace moeplan::cli {

namespace {

/// Three digits of an error.
Node rounded(double error) { return Node::number(std::round(1000 * error) / 1000); }

using Key = std::tuple<std::string, bool, std::string>;  // GPU, whether of PyTorch's modules, precision

struct Runs {
  std::vector<profiler::ScoredRun> scored;
  std::int64_t most_gpus = 1;
  void add(const profiler::ScoredRun& run, std::int64_t gpus) {
    scored.push_back(run);
    most_gpus = std::max(most_gpus, gpus);
  }
};

/// torchtitan's jobs too whose experts' kernels are not PyTorch's: its FSDP and its allocator are.
bool is_of_pytorch(const profiler::RunRow& row) {
  return !row.pytorch_modules.empty() || row.stack.starts_with("torchtitan");
}

Node entry(const Key& key, const Runs& runs) {
  const profiler::RunSummary s = profiler::summarise(runs.scored);
  const auto& [gpu, of_pytorch, precision] = key;
  Node out = Node::map();
  out.set("gpu", Node::text(gpu));
  if (of_pytorch) out.set("pytorch_modules", Node::boolean(true));
  if (!precision.empty()) out.set("precision", Node::text(precision));
  out.set("runs", Node::integer(static_cast<long long>(s.scored)));
  out.set("most_gpus", Node::integer(runs.most_gpus));
  out.set("median", rounded(s.median));
  out.set("p90", rounded(s.p90));
  out.set("bias", rounded(s.bias));
  return out;
}

Node memory_node(const profiler::RunSummary& stated) {
  Node out = Node::map();
  out.set("runs", Node::integer(static_cast<long long>(stated.memory_rows)));
  out.set("p90", rounded(stated.memory_p90));
  return out;
}

}  // namespace

std::string accuracy_file(const std::vector<ScoreReport>& reports) {
  std::map<Key, Runs> runs;
  Diagnostics wrong;
  std::map<std::string, std::string> gpus;  // by cluster
  const auto gpu_of = [&](const std::string& cluster) -> const std::string& {
    const auto [it, is_new] = gpus.try_emplace(cluster);
    if (is_new)
      it->second = read_cluster(planner::load_cluster_document(planner::find_config("clusters", cluster))).gpu.name;
    return it->second;
  };
  std::string files;
  std::vector<profiler::ScoredRun> of_frameworks, of_pytorch;  // whose work is stated
  for (const ScoreReport& report : reports) {
    if (!report.runs) {
      wrong.add({report.file}, "", "is no table of runs, of which alone --accuracy makes a file");
      continue;
    }
    for (const profiler::ScoredRun& run : profiler::with_stated_work(report.runs->table, report.runs->rows))
      (is_of_pytorch(report.runs->table[run.row]) ? of_pytorch : of_frameworks).push_back(run);
    files += ' ' + std::filesystem::path(report.file).filename().string();
    for (const profiler::ScoredRun& run : report.runs->rows) {
      if (!run.has_error()) continue;
      const profiler::RunRow& row = report.runs->table[run.row];
      const std::string& gpu = gpu_of(row.cluster);
      runs[{gpu, is_of_pytorch(row), ""}].add(run, row.world);
      if (!row.precision.empty()) runs[{gpu, is_of_pytorch(row), row.precision}].add(run, row.world);
    }
  }
  wrong.throw_if_any();
  Node list = Node::list();
  for (const auto& [key, of_key] : runs) list.items.push_back(entry(key, of_key));
  Node document = Node::map();
  document.set("accuracy", std::move(list));
  for (const auto& [key, stated] : {std::pair("memory", &of_frameworks), std::pair("pytorch_memory", &of_pytorch)}) {
    if (const profiler::RunSummary s = profiler::summarise(*stated); s.memory_rows > 0)
      document.set(key, memory_node(s));
  }
  return fmt::format("# Errors of predicted iterations (docs/trust.md), by `moeplan score{} --accuracy FILE`.\n{}",
                     files, to_yaml(document));
}

}  // namespace moeplan::cli
