#include "profiler/scores/collective_score.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "model/text/unit_text.hpp"
#include "profiler/scores/held_out.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kMiB = 1048576;

Prediction prediction_of(const CollectiveRow& row, const ModelsByCluster& models) {
  const FoundModels found = find_models(models, row.cluster, row.source);
  if (!found.models) return refused(found.reason);
  const auto op = std::find_if(kCollectiveNames.begin(), kCollectiveNames.end(),
                               [&](const auto& entry) { return entry.second == row.op; });
  if (op == kCollectiveNames.end()) return refused(fmt::format("{} is no collective", in_quotes(row.op)));
  const GroupShape shape{row.ranks, row.ranks / row.ranks_per_node};
  if (row.ranks_per_node > found.models->ranks_per_node) {
    return refused(fmt::format("{} ranks share a node; configs/collectives/{}.yaml has up to {}", row.ranks_per_node,
                               row.cluster, found.models->ranks_per_node));
  }
  const auto cost = collective_cost(*found.models, op->first, shape, row.bytes, row.in_place);
  if (!cost) {
    return refused(fmt::format("configs/collectives/{}.yaml has no figures of {} on {}", row.cluster, row.op,
                               shape.nodes == 1 ? "one node" : "several nodes"));
  }
  return {.time = cost->time(),
          .reason = "",
          .library = cost->algorithm,
          .is_fitted = !found.models->fits_none && row.ranks <= found.models->measured_ranks &&
                       (restates(*found.models, op->first, shape) || !is_held_out(row))};
}

/// The predicted rows that are the fastest of several of one machine, operation, shape and size.
std::vector<std::size_t> fastest_of_sources(std::span<const CollectiveRow> table, std::span<const ScoredRow> scored,
                                            const ModelsByCluster& models) {
  struct Best {
    std::size_t row, rows;
  };
  std::map<std::tuple<std::string, std::string, std::int64_t, std::int64_t, double, bool>, Best> best;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CollectiveRow& r = table[i];
    if (!scored[i].predicted || models.at(r.cluster).sources.size() < 2) continue;
    const auto [known, is_new] =
        best.try_emplace({r.cluster, r.op, r.ranks, r.ranks_per_node, r.bytes.value(), r.in_place}, Best{i, 0});
    ++known->second.rows;
    if (r.time < table[known->second.row].time) known->second.row = i;
  }
  std::vector<std::size_t> out;
  for (const auto& [shape, fastest] : best) {
    if (fastest.rows > 1) out.push_back(fastest.row);
  }
  return out;
}

}  // namespace

FoundModels find_models(const ModelsByCluster& models, const std::string& cluster, const std::string& source) {
  const auto it = models.find(cluster);
  if (it == models.end()) return {nullptr, fmt::format("configs/collectives has no file of {}", cluster)};
  if (!answers(it->second, source)) {
    return {nullptr, fmt::format("configs/collectives/{}.yaml has no figures of {}", cluster, in_quotes(source))};
  }
  return {&it->second, ""};
}

std::vector<ScoredRow> score_collectives(std::span<const CollectiveRow> table, const ModelsByCluster& models) {
  std::vector<ScoredRow> out;
  for (const CollectiveRow& row : table) {
    const Prediction p = prediction_of(row, models);
    out.push_back({.id = std::to_string(row.where.line),
                   .text = fmt::format("{} {} {} ranks, {} a node, {} {}", row.op, row.cluster, row.ranks,
                                       row.ranks_per_node, human(row.bytes), p.library),
                   .measured = row.time,
                   .predicted = p.time,
                   .reason = p.reason,
                   .groups = {fmt::format("{} {} {} ranks {} 1 MiB", row.op, row.cluster, row.ranks,
                                          row.bytes.value() < kMiB ? "below" : "from")},
                   .is_fitted = p.is_fitted});
  }
  for (const std::size_t i : fastest_of_sources(table, out, models))
    out[i].groups.push_back(out[i].groups.front() + std::string(kFastestOfSources));
  return out;
}

}  // namespace moeplan::profiler
