#include "profiler/operator_score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "profiler/fit_gemm_model.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kLeastFlops = 1e8;  // smaller products measure the launch; they are scored, but in no group

/// The format of a row, or none.
std::optional<MathFormat> format_of(const OperatorRow& row) {
  for (const auto& [format, name] : kMathFormatNames) {
    if (name == row.format) return format;
  }
  return std::nullopt;
}

std::string no_figures(const OperatorRow& row) {
  return fmt::format("configs/operators/{}.yaml has no {} figures in {} of {}", row.gpu,
                     row.phase == "forward" ? row.kind : row.kind + " " + row.phase, row.format, in_quotes(row.source));
}

void predict_gemm(const OperatorRow& row, MathFormat format, const OperatorModels& models, ScoredRow& out) {
  const GemmModel* model = find_gemm_model(models, format, row.source);
  if (!model || row.phase != "forward") {
    out.reason = no_figures(row);
  } else if (row.m == 0 || row.n == 0 || row.k == 0) {
    out.reason = "m, n and k are needed";
  } else {
    out.predicted = gemm_cost(*model, models.num_sms, gemm_shape(row)).time();
    out.library = model->library;
    out.is_fitted = !is_held_out(gemm_shape(row));
  }
}

void predict_attention(const OperatorRow& row, MathFormat format, const OperatorModels& models, ScoredRow& out) {
  const AttentionModel* model = find_attention_model(models, format, row.phase == "backward", row.source);
  const AttentionShape shape = attention_shape(row);
  if (!model || (row.phase != "forward" && row.phase != "backward")) {
    out.reason = no_figures(row);
  } else if (std::min({shape.batch, shape.sequence_length, shape.query_heads, shape.kv_heads, shape.head_dim}) == 0) {
    out.reason = "batch, sequence_length, query_heads, kv_heads and head_dim are needed";
  } else {
    out.predicted = attention_call_time(*model, models.num_sms, shape);
    out.library = model->library;
    out.is_fitted = model->fits_all || !is_held_out(shape);
  }
}

ScoredRow scored(const OperatorRow& row, std::size_t index, const ModelsByGpu& models) {
  ScoredRow out{.row = index, .measured = row.time, .predicted = {}, .reason = "", .library = "", .is_fitted = false};
  const auto gpu = models.find(row.gpu);
  if (gpu == models.end()) {
    out.reason = fmt::format("configs/operators has no file of {}", row.gpu);
  } else if (row.kind == "gemm" || row.kind == "attention") {
    const auto format = format_of(row);
    if (!format) {
      out.reason = fmt::format("{} is no format of products", in_quotes(row.format));
    } else if (row.kind == "gemm") {
      predict_gemm(row, *format, gpu->second, out);
    } else {
      predict_attention(row, *format, gpu->second, out);
    }
  } else {
    out.reason = fmt::format("{} is not modelled by shape yet", row.kind);
  }
  return out;
}

}  // namespace

ErrorSummary summarise(std::span<const ScoredRow> rows) {
  ErrorSummary s{.rows = rows.size()};
  std::vector<double> errors;
  for (const ScoredRow& r : rows) {
    if (!r.predicted) continue;
    errors.push_back(std::abs(r.error()));
    s.bias += std::log(*r.predicted / r.measured);
  }
  s.scored = errors.size();
  s.refused = s.rows - s.scored;
  if (errors.empty()) return s;
  std::sort(errors.begin(), errors.end());
  const auto n = static_cast<double>(errors.size());
  s.bias /= n;
  s.mape = std::accumulate(errors.begin(), errors.end(), 0.0) / n;
  s.p90 = errors[(errors.size() - 1) * 9 / 10];
  s.worst = errors.back();
  s.median = median(std::move(errors));
  return s;
}

std::vector<ScoredRow> score_operators(std::span<const OperatorRow> table, const ModelsByGpu& models) {
  std::vector<ScoredRow> out;
  for (std::size_t i = 0; i < table.size(); ++i) out.push_back(scored(table[i], i, models));
  return out;
}

std::vector<ScoredGroup> score_groups(std::span<const OperatorRow> table, std::span<const ScoredRow> scored) {
  std::map<std::string, std::vector<ScoredRow>> by_name;
  for (const ScoredRow& s : scored) {
    const OperatorRow& row = table[s.row];
    const double flops = flops_of(row);
    if (flops > 0 && flops < kLeastFlops) continue;
    by_name[fmt::format("{} {} {} {} {}", row.kind, row.gpu, row.format, row.phase, s.library)].push_back(s);
  }
  std::vector<ScoredGroup> out;
  for (const auto& [name, rows] : by_name) {
    std::vector<ScoredRow> held_out;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(held_out),
                 [](const ScoredRow& r) { return !r.is_fitted; });
    out.push_back({name, summarise(rows), summarise(held_out)});
  }
  return out;
}

}  // namespace moeplan::profiler
