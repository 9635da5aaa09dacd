#include "cli/pages/scores/score_plots.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "cli/pages/scores/log_log_plot.hpp"

namespace moeplan::cli {

namespace {

using profiler::CollectiveRow;
using PlotName = std::pair<std::string, std::string>;               // machine, operation
using SeriesKey = std::tuple<std::int64_t, std::int64_t>;           // nodes, ranks
using Columns = std::map<bool, std::vector<const CollectiveRow*>>;  // by in place: out of place comes first

std::string label_of(const SeriesKey& key) {
  const auto [nodes, ranks] = key;
  return fmt::format("{} ranks, {} {}", ranks, nodes, nodes == 1 ? "node" : "nodes");
}

/// Predictions from the smallest to the largest of the rows' sizes, two for each doubling.
std::vector<PlotPoint> predicted_line(const std::vector<const CollectiveRow*>& rows,
                                      const profiler::ModelsByCluster& models) {
  const auto [least, most] = std::minmax_element(
      rows.begin(), rows.end(), [](const CollectiveRow* a, const CollectiveRow* b) { return a->bytes < b->bytes; });
  std::vector<CollectiveRow> line;
  for (double bytes = (*least)->bytes.value(); bytes < (*most)->bytes.value(); bytes *= std::sqrt(2.0)) {
    line.push_back(*rows.front());
    line.back().bytes = Bytes(std::round(bytes));
  }
  line.push_back(**most);
  const std::vector<profiler::ScoredRow> scored = score_collectives(line, models);
  std::vector<PlotPoint> out;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (scored[i].predicted) out.push_back({line[i].bytes, *scored[i].predicted});
  }
  return out;
}

}  // namespace

std::map<std::string, std::string> collective_plots(std::span<const CollectiveRow> table,
                                                    const profiler::ModelsByCluster& models) {
  const std::vector<profiler::ScoredRow> scored = score_collectives(table, models);
  std::map<PlotName, std::map<SeriesKey, Columns>> plots;
  for (std::size_t i = 0; i < table.size(); ++i) {
    const CollectiveRow& row = table[i];
    if (!scored[i].predicted) continue;
    plots[{row.cluster, row.op}][{row.ranks / row.ranks_per_node, row.ranks}][row.in_place].push_back(&row);
  }
  std::map<std::string, std::string> out;
  for (const auto& [name, shapes] : plots) {
    LogLogPlot plot{.title = fmt::format("{}: {}", name.first, name.second), .series = {}};
    for (const auto& [key, columns] : shapes) {
      const std::vector<const CollectiveRow*>& rows = columns.begin()->second;
      PlotSeries series{.label = label_of(key), .measured = {}, .predicted = predicted_line(rows, models)};
      for (const CollectiveRow* row : rows) series.measured.push_back({row->bytes, row->time});
      plot.series.push_back(std::move(series));
    }
    out[fmt::format("{}_{}.svg", name.first, name.second)] = svg(plot);
  }
  return out;
}

}  // namespace moeplan::cli
