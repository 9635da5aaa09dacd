#include "profiler/scores/dispatch_score.hpp"

#include <fmt/format.h>

#include "model/collectives/exchange.hpp"
#include "profiler/scores/held_out.hpp"

namespace moeplan::profiler {

namespace {

Prediction prediction_of(const DispatchRow& row, ExchangeDirection direction, const ModelsByCluster& models) {
  const FoundModels found = find_models(models, row.cluster, row.source);
  if (!found.models) return refused(found.reason);
  const ExchangeRequest request{.dispatcher = row.dispatcher,
                                .mode = row.mode,
                                .dispatch_format = row.dispatch_format,
                                .combine_format = row.combine_format,
                                .group = {row.ranks, row.nodes},
                                .tokens = static_cast<double>(row.tokens),
                                .hidden = static_cast<double>(row.hidden),
                                .top_k = static_cast<double>(row.top_k),
                                .experts = static_cast<double>(row.experts),
                                .sms = static_cast<double>(row.sms.value_or(0))};
  const Exchange e = exchange(*found.models, request, direction);
  return {.time = e.time,
          .reason = e.reason,
          .library = e.algorithm,
          .is_fitted = e.time && row.ranks <= e.measured_ranks && !is_held_out(row)};
}

}  // namespace

std::vector<ScoredRow> score_dispatches(std::span<const DispatchRow> table, const ModelsByCluster& models) {
  std::vector<ScoredRow> out;
  for (const DispatchRow& row : table) {
    for (const ExchangeDirection direction : {ExchangeDirection::Dispatch, ExchangeDirection::Combine}) {
      const bool is_dispatch = direction == ExchangeDirection::Dispatch;
      const char* name = is_dispatch ? "dispatch" : "combine";
      const Prediction p = prediction_of(row, direction, models);
      const std::string group = fmt::format("{} {} {} {} {} {}", name, row.dispatcher, row.mode, row.cluster, row.nodes,
                                            row.nodes == 1 ? "node" : "nodes");
      out.push_back({.id = fmt::format("{}/{}", row.where.line, name),
                     .text = fmt::format("{} {} of {} tokens of {}, {} ranks", row.dispatcher, name, row.tokens,
                                         row.hidden, row.ranks),
                     .measured = is_dispatch ? row.dispatch : row.combine,
                     .predicted = p.time,
                     .reason = p.reason,
                     .groups = {group},
                     .is_fitted = p.is_fitted});
    }
  }
  return out;
}

}  // namespace moeplan::profiler
