#include "cuda_runtime/validate/execution_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <vector>

#include "cuda_runtime/layer_reference.hpp"
#include "model/program/resolve.hpp"
#include "model/text/unit_text.hpp"
#include "planner/lowering/feasibility.hpp"

namespace moeplan::validate {

namespace {

/// Adds the buffers and products of one rank.
void add_rank(const Program& program, RankId rank, ExecutionSize& size) {
  std::vector<std::int64_t> most(program.buffers.size(), 0);
  for (const Block& block : program.blocks) {
    for (const Operation& operation : block.operations) {
      if (std::holds_alternative<Gemm>(operation.work)) size.flops += compute_load(program, operation, rank).flops;
      for (const auto* slices : {&operation.reads, &operation.writes}) {
        for (const Slice& s : *slices) {
          if (program.buffer(s.buffer).part) continue;
          std::int64_t& bytes = most[s.buffer.index()];
          bytes = std::max(bytes, byte_count(program, s, rank));
        }
      }
    }
  }
  for (const std::int64_t bytes : most) size.buffers += Bytes(static_cast<double>(bytes));
}

Seconds least_time(const ExecutionSize& size, const HostCapacity& host) {
  return Seconds(host.runs * size.flops / (kMostFlopsOfCore * static_cast<double>(host.cores)));
}

bool fits(const planner::LayerCase& layer, const HostCapacity& host) {
  const ExecutionSize size = execution_size(layer, host.most_reference_flops);
  return size.memory() <= host.memory && least_time(size, host) <= host.limit;
}

/// The smallest scale at which the layer may be executed.
std::optional<std::int64_t> helpful_scale(const planner::LayerCase& layer, const HostCapacity& host) {
  if (!layer.candidate.expert_places.empty()) return std::nullopt;
  for (std::int64_t by = 2; by <= layer.candidate.degrees.ep; ++by) {
    if (layer.candidate.degrees.ep % by != 0) continue;
    const planner::LayerCase small = planner::scaled(layer, by);
    const bool can_run =
        !planner::layer_infeasibility(small.hidden_size, small.workload, small.candidate, small.ranks_per_node);
    if (can_run && fits(small, host)) return by;
  }
  return std::nullopt;
}

/// The first number of a file, or the number that follows a word.
std::optional<double> number_in(const char* file, std::string_view word = "") {
  std::ifstream in(file);
  for (std::string text; in >> text;) {
    if (!word.empty() && text != word) continue;
    if (!word.empty() && !(in >> text)) break;
    const Parsed<double> number = parse_number(text);
    return std::holds_alternative<double>(number) ? std::optional(std::get<double>(number)) : std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

ExecutionSize execution_size(const planner::LayerCase& layer, double most_reference_flops) {
  const Program program = planner::lower(layer);
  ExecutionSize size{};
  for (std::int64_t r = 0; r < layer.ranks(); ++r) add_rank(program, RankId(static_cast<std::int32_t>(r)), size);
  constexpr double kDoubleBytes = sizeof(double);
  // Weights and summed gradients; in training also the gradients of one source.
  const double copies = layer.workload.mode == Mode::Train ? 3 : 2;
  const double parameters = static_cast<double>(layer.moe.num_experts) *
                            static_cast<double>(ffn_parameters(layer.moe.expert, layer.hidden_size));
  const runtime::MoeShape shape{layer.hidden_size, layer.moe.expert.hidden_size, layer.moe.num_experts, layer.moe.top_k,
                                layer.moe.expert.gated};
  const auto tokens = static_cast<double>(layer.ranks() * layer.tokens_of_source());
  // Where only some tokens are compared, weights are generated when they are read.
  if (runtime::reference_step(shape, tokens, most_reference_flops) > 1) return size;
  size.reference = static_cast<double>(layer.ranks()) * copies *
                   std::min(Bytes(parameters * kDoubleBytes), Bytes(runtime::kMostReferenceBytes));
  return size;
}

std::optional<std::string> why_too_large(const planner::LayerCase& layer, const HostCapacity& host) {
  const ExecutionSize size = execution_size(layer, host.most_reference_flops);
  std::string why;
  if (size.memory() > host.memory) {
    why = fmt::format(
        "its {} ranks take at least {} of memory ({} of buffers, {} for the reference that values are compared with), "
        "and {} are available",
        layer.ranks(), human(size.memory()), human(size.buffers), human(size.reference), human(host.memory));
  } else if (least_time(size, host) > host.limit) {
    why = fmt::format("{:.0f} runs of {:.3g} TFLOP each take {} at the least on {} cores, and ranks are ended after {}",
                      host.runs, size.flops * 1e-12, human(least_time(size, host)), host.cores, human(host.limit));
  } else {
    return std::nullopt;
  }
  const std::optional<std::int64_t> scale = helpful_scale(layer, host);
  return fmt::format("the layer is too large for this machine: {}; {}", why,
                     scale ? fmt::format("--scale {} makes it small enough", *scale)
                           : "no --scale makes it small enough: plan a smaller model, or fewer tokens");
}

std::optional<Bytes> available_memory() {
  constexpr double kKiB = 1024;
  const std::optional<double> available = number_in("/proc/meminfo", "MemAvailable:");
  if (!available) return std::nullopt;
  double bytes = *available * kKiB;
  if (const auto limit = number_in("/sys/fs/cgroup/memory.max")) bytes = std::min(bytes, *limit);
  return Bytes(bytes);
}

}  // namespace moeplan::validate
