#include "cli/pages/log_import.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "cli/pages/collectives/collective_report.hpp"
#include "cli/pages/page_parts.hpp"
#include "model/costs/measured_cost.hpp"
#include "model/text/reader.hpp"
#include "profiler/scores/score.hpp"

namespace moeplan::cli {

namespace {

using profiler::CollectiveSample;
using ShapeKey = std::tuple<Collective, std::int64_t, std::int64_t>;  // nodes before ranks
constexpr std::int64_t kMostRanksByPairs = 2048;

ShapeKey key_of(const CollectiveSample& s) { return {s.collective, s.shape.nodes, s.shape.ranks}; }

/// The cluster with nodes of as many GPUs, and their NICs, as a group has of a node.
Cluster cluster_of_group(ClusterSpec spec, GroupShape shape) {
  auto& machine = std::get<ClusterTemplate>(spec.machine);
  const std::int64_t gpus = shape.ranks / shape.nodes;
  if (machine.fabric) {
    std::int64_t& nics = machine.fabric->nics_per_node;
    nics = std::max<std::int64_t>(1, nics * gpus / machine.gpus_per_node);
  }
  machine.gpus_per_node = gpus;
  machine.nodes = shape.nodes;
  return build_cluster(spec, shape.ranks);
}

std::string_view name_of_op(Collective c) { return name_of<Collective>(kCollectiveNames, c); }

/// The largest ratio of two times of one size and column: repeated measurements, pairs of nodes, settings.
double scatter(const std::vector<PredictedSample>& samples) {
  std::map<std::pair<bool, Bytes>, std::pair<Seconds, Seconds>> extremes;
  for (const PredictedSample& s : samples) {
    const auto [it, is_new] =
        extremes.try_emplace({s.sample.in_place, s.sample.n}, std::pair(s.sample.time, s.sample.time));
    it->second = {std::min(it->second.first, s.sample.time), std::max(it->second.second, s.sample.time)};
  }
  double most = 1;
  for (const auto& [size, times] : extremes) most = std::max(most, times.second / times.first);
  return most;
}

/// One line for each operation and shape of group: sizes, and errors of the times out of place.
std::string table(const std::vector<PredictedSample>& samples) {
  std::map<ShapeKey, std::vector<PredictedSample>> shapes;
  for (const PredictedSample& s : samples) shapes[key_of(s.sample)].push_back(s);
  std::string out = fmt::format("{:<15}{:>6}{:>6}{:>7}  {:<26}{:>8}{:>10}{:>8}{:>8}{:>8}\n", "operation", "ranks",
                                "nodes", "times", "sizes", "scatter", "predicted", "mean", "worst", "bias");
  for (const auto& [key, of_shape] : shapes) {
    std::vector<profiler::ScoredRow> rows;
    for (const PredictedSample& s : of_shape) {
      rows.push_back({.id = "",
                      .text = "",
                      .measured = s.sample.time,
                      .predicted = s.predicted,
                      .reason = "",
                      .groups = {},
                      .is_fitted = true});
    }
    const auto [least, most] = std::minmax_element(
        of_shape.begin(), of_shape.end(), [](const auto& a, const auto& b) { return a.sample.n < b.sample.n; });
    const profiler::ErrorSummary errors = profiler::summarise(rows);
    out += fmt::format("{:<15}{:>6}{:>6}{:>7}  {:<26}{:>8}{:>10}", name_of_op(std::get<0>(key)), std::get<2>(key),
                       std::get<1>(key), of_shape.size(),
                       fmt::format("{} .. {}", human(least->sample.n), human(most->sample.n)),
                       fmt::format("{:.3g}x", scatter(of_shape)), errors.scored);
    if (errors.scored > 0) {
      out += fmt::format("{:>8}{:>8}{:>8}", in_percent(errors.mape), in_percent(errors.worst),
                         signed_percent(errors.bias));
    }
    out += '\n';
  }
  return out + in_lines(
                   "scatter: the longest time of one size over the shortest, of repeated "
                   "measurements and pairs of nodes; mean and worst |error| and bias of the predicted times, out of "
                   "place");
}

std::string rate_line(const std::string& what, const profiler::LinkRate& rate, BytesPerSecond like,
                      const std::string& like_name) {
  return fmt::format("{:<22}{:>11}  ({}: {}) from {}\n", what, human(rate.rate), like_name, human(like), rate.source());
}

std::string links(const LogImport& o) {
  std::string out;
  const profiler::MeasuredCluster& c = o.cluster;
  if (c.intra_node) {
    out += rate_line("a GPU inside a node", *c.intra_node, std::get<NvSwitch>(o.like_machine.intra_node).bandwidth,
                     o.like);
  }
  if (c.nic) out += rate_line("a NIC", *c.nic, o.like_machine.fabric->nic_bandwidth, o.like);
  const auto adds_up = [](const std::optional<profiler::LinkRate>& rate) {
    return rate && rate->sample.collective == Collective::AllReduce;
  };
  if (adds_up(c.intra_node) || adds_up(c.nic)) {
    out += in_lines(
        "All-reduces show bus bandwidth: where a switch or a tree adds up, fewer bytes cross the links, and the rate "
        "exceeds what other operations reach.");
  }
  return out;
}

/// What prices groups of other shapes, and how well it does where it was measured.
std::string models_of(const LogImport& o) {
  const std::optional<profiler::FittedModels>& m = o.cluster.models;
  if (!m) return "";
  const auto error = [](const profiler::ModelError& e) {
    return e.samples > 0 ? in_percent(e.mean) + " off" : std::string("not in the logs");
  };
  return in_lines(fmt::format(
      "groups of other shapes: steps and latencies of {}, bandwidths x{:.3g} inside nodes ({}) and x{:.3g} of NICs "
      "({}), "
      "latencies x{:.3g}; on average, where there are logs",
      o.like, m->factors.intra_node, error(m->inside), m->factors.nic, error(m->between), m->factors.latency));
}

std::string not_measured(const LogImport& o) {
  std::vector<std::string_view> names;
  for (const auto& [collective, name] : kCollectiveNames) {
    if (std::none_of(o.samples.begin(), o.samples.end(),
                     [c = collective](const PredictedSample& s) { return s.sample.collective == c; }))
      names.push_back(name);
  }
  return names.empty() ? ""
                       : in_lines(fmt::format("not in the logs, hence from {} or from other operations: {}",
                                              o.cluster.models ? "the models" : "the links", fmt::join(names, ", ")));
}

}  // namespace

std::vector<PredictedSample> predicted_samples(const ClusterSpec& cluster,
                                               const std::vector<CollectiveSample>& samples) {
  std::map<ShapeKey, Cluster> clusters;
  std::map<std::tuple<ShapeKey, Bytes>, Seconds> times;
  std::vector<PredictedSample> out;
  for (const CollectiveSample& s : samples) {
    out.push_back({s, std::nullopt});
    const bool is_large = s.collective == Collective::AllToAll && s.shape.ranks > kMostRanksByPairs;
    if (s.in_place || is_large) continue;
    const auto [time, is_new] = times.try_emplace({key_of(s), s.n});
    if (is_new) {
      const std::vector<std::string> algorithms = planner::algorithm_names(s.collective);
      if (algorithms.empty()) {  // a message alone takes its measured time
        time->second = measured_cost(cluster.collectives, s.collective, s.shape, s.n).value().time(s.n);
      } else {
        auto it = clusters.find(key_of(s));
        if (it == clusters.end()) it = clusters.emplace(key_of(s), cluster_of_group(cluster, s.shape)).first;
        time->second = time_collective(*planner::find_algorithm(s.collective, algorithms.front()), it->second,
                                       static_cast<std::int64_t>(s.n.value()))
                           .time;
      }
    }
    out.back().predicted = time->second;
  }
  return out;
}

std::string log_import_page(const LogImport& o) {
  const ClusterTemplate& machine = o.cluster.machine;
  std::string page = fmt::format("{} {} of nccl-tests: {} {} of {} {} {}{}\n\n", o.logs, o.logs == 1 ? "log" : "logs",
                                 machine.nodes, machine.nodes == 1 ? "node" : "nodes", machine.gpus_per_node, o.gpu,
                                 machine.gpus_per_node == 1 ? "GPU" : "GPUs",
                                 o.devices.empty() ? "" : fmt::format(" ({})", o.devices));
  page += table(o.samples) + '\n' + links(o) + models_of(o) + not_measured(o);
  page += in_lines(fmt::format("all else as {}: latencies, fabric, start-up of what is not measured", o.like));
  return page + fmt::format("written to {}; use it: moeplan plan --cluster {} ...\n", o.output, o.output);
}

}  // namespace moeplan::cli
