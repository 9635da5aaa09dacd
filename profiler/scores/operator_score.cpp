#include "profiler/scores/operator_score.hpp"

#include <fmt/format.h>

#include "profiler/scores/operator_prediction.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kLeastFlops = 1e8;  // smaller products measure the launch; they are scored, but in no group

std::string text_of(const OperatorRow& r) {
  std::string shape;
  if (r.kind == "gemm") shape = fmt::format("{} x {} x {}", r.m, r.n, r.k);
  if (r.kind == "attention") {
    shape = fmt::format("batch {}, {} tokens, {}/{} heads of {}", r.batch, r.sequence_length, r.query_heads, r.kv_heads,
                        r.head_dim);
  }
  return fmt::format("{} {} {} {}", r.kind, r.gpu, r.format, shape);
}

std::vector<std::string> groups_of(const OperatorRow& row, const std::string& library) {
  const double flops = flops_of(row);
  if (flops > 0 && flops < kLeastFlops) return {};
  return {fmt::format("{} {} {} {} {}", row.kind, row.gpu, row.format, row.phase, library)};
}

ScoredRow scored(const OperatorRow& row, const ModelsByGpu& models) {
  const auto gpu = models.find(row.gpu);
  const Prediction p = gpu == models.end() ? refused(fmt::format("configs/operators has no file of {}", row.gpu))
                                           : prediction_of(row, gpu->second);
  return {.id = std::to_string(row.where.line),
          .text = text_of(row),
          .measured = row.time,
          .predicted = p.time,
          .reason = p.reason,
          .groups = groups_of(row, p.library),
          .is_fitted = p.is_fitted};
}

}  // namespace

std::vector<ScoredRow> score_operators(std::span<const OperatorRow> table, const ModelsByGpu& models) {
  std::vector<ScoredRow> out;
  for (const OperatorRow& row : table) out.push_back(scored(row, models));
  return out;
}

}  // namespace moeplan::profiler
