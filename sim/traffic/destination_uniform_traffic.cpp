#include "sim/traffic/destination_uniform_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "model/base/to_index.hpp"
#include "sim/traffic/destination_uniform_shape.hpp"
#include "sim/traffic/route_rows.hpp"
#include "sim/traffic/source_rates.hpp"
#include "sim/traffic/subtree_classes.hpp"
#include "sim/traffic/subtree_traffic.hpp"

namespace moeplan::sim {

namespace {

using Index = RouteBlocks::Index;
using Shape = DestinationUniformShape;

constexpr double kMostEngineSteps = 4e9;  // all subtrees together: some minutes

/// One simulation: the subtrees one after the other, then the links that they omit, then the pairs that do not use the
/// fabric.
class Run {
 public:
  Run(const Shape& shape, std::span<const double> bytes, bool with_columns)
      : shape_(shape),
        f_(shape.factors),
        bytes_(bytes),
        with_columns_(with_columns),
        local_link_(shape.capacity.size(), -1) {}

  std::variant<ColumnResult, std::string> result() {
    if (const auto link = overloaded_link_after_subtrees()) {
      const Link& l = shape_.cluster.topology.links[link->index()];
      const auto name = [&](VertexId v) { return shape_.cluster.topology.vertices[v.index()].name; };
      return fmt::format("the link from {} to {} may hold sources back", name(l.from), name(l.to));
    }
    add_near();
    std::stable_sort(result_.columns.begin(), result_.columns.end(),
                     [](const ColumnClass& a, const ColumnClass& b) { return a.dst < b.dst; });
    return std::move(result_);
  }

 private:
  std::optional<ResourceId> overloaded_link_after_subtrees() {
    SubtreeClasses classes(shape_, bytes_);
    SourceRates rates(shape_);
    double steps_left = kMostEngineSteps;
    for (const auto& subtree : shape_.subtrees) {
      const SubtreeTraffic& traffic = classes.build(subtree);
      if (traffic.classes.empty()) continue;
      const auto solved = simulate_subtree(traffic, steps_left);
      if (!solved) throw TooManyColumns{"its parts have too many flows that differ"};
      add_subtree(classes, *solved);
      classes.add_peaks(*solved, rates);
    }
    return overloaded_link(shape_, rates);
  }

  void add_subtree(const SubtreeClasses& classes, const SubtreeResult& solved) {
    const std::vector<RankId>& destinations = classes.destinations();
    for (std::size_t c = 0; c < destinations.size(); ++c) {
      add_flows(destinations[c], classes.traffic().classes[c].weight, solved.finish_s[c]);
    }
    result_.classes += static_cast<std::int64_t>(destinations.size());
    if (!solved.is_constant) result_.method = TrafficMethod::Classes;
  }

  void add_flows(RankId d, double flows, double finish_s) {
    result_.finish_s = std::max(result_.finish_s, finish_s);
    result_.sum_flow_finish_s += flows * finish_s;
    if (with_columns_) result_.columns.push_back({d, static_cast<std::int64_t>(flows), finish_s});
  }

  // --- Pairs that do not use the fabric ---

  void add_near() {
    for (std::size_t i = 0; i < f_.near.flows.size();) {
      std::size_t end = i;
      while (end < f_.near.flows.size() && f_.near.flows[end].network == f_.near.flows[i].network) ++end;
      add_near_network(std::span(f_.near.flows).subspan(i, end - i));
      i = end;
    }
  }

  void add_near_network(std::span<const NearFlow> flows) {
    std::vector<RankId> ranks;
    for (const auto& n : flows) {
      ranks.push_back(n.src);
      ranks.push_back(n.dst);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const auto position = [&](RankId r) {
      return RankId(static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), r) - ranks.begin()));
    };
    std::vector<Index> flow_of(ranks.size() * ranks.size(), -1);
    std::vector<Index> links;
    TrafficMatrix matrix{static_cast<std::int64_t>(ranks.size()), {}};
    TrafficNetwork network;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const double bytes = bytes_[flows[i].dst.index()];
      if (bytes == 0) continue;
      const RankId src = position(flows[i].src), dst = position(flows[i].dst);
      matrix.flows.push_back({src, dst, bytes});
      flow_of[src.index() * ranks.size() + dst.index()] = static_cast<Index>(i);
      for (const FlowUse& use : f_.uses_of(flows[i])) {
        if (local_link_[use.resource.index()] >= 0) continue;
        local_link_[use.resource.index()] = static_cast<Index>(network.capacity.size());
        network.capacity.push_back(shape_.capacity[use.resource.index()]);
        links.push_back(use.resource.value());
      }
    }
    network.route = [&](RankId src, RankId dst, std::vector<FlowUse>& uses) {
      const auto& flow = flows[to_index(flow_of[src.index() * ranks.size() + dst.index()])];
      for (const FlowUse& use : f_.uses_of(flow)) {
        uses.push_back({ResourceId(local_link_[use.resource.index()]), use.share});
      }
    };
    const TrafficResult got = simulate_traffic(matrix, network, with_columns_);
    for (const Index l : links) local_link_[to_index(l)] = -1;
    result_.finish_s = std::max(result_.finish_s, got.finish_s);
    result_.sum_flow_finish_s += got.sum_flow_finish_s;
    result_.classes += got.classes;
    if (got.method != TrafficMethod::Decoupled) result_.method = TrafficMethod::Classes;
    for (std::size_t i = 0; i < got.flow_finish_s.size(); ++i) {
      result_.columns.push_back({ranks[matrix.flows[i].dst.index()], 1, got.flow_finish_s[i]});
    }
  }

  const Shape& shape_;
  const RouteBlocks& f_;
  std::span<const double> bytes_;
  bool with_columns_;
  std::vector<Index> local_link_;  // by link: its index in the network of near pairs at hand
  ColumnResult result_{0, 0, TrafficMethod::Decoupled, 0, false, {}};
};

ColumnResult by_pairs(const Cluster& cluster, std::span<const double> bytes, bool with_columns) {
  TrafficMatrix matrix{cluster.world_size(), {}};
  for (std::size_t s = 0; s < bytes.size(); ++s) {
    for (std::size_t d = 0; d < bytes.size(); ++d) {
      if (s != d && bytes[d] > 0) matrix.flows.push_back({RankId(s), RankId(d), bytes[d]});
    }
  }
  RouteRows routes(cluster);
  const TrafficResult got = simulate_traffic(matrix, routes.network(), with_columns);
  ColumnResult result{got.finish_s, got.sum_flow_finish_s, got.method, got.classes, true, {}};
  for (std::size_t i = 0; i < got.flow_finish_s.size(); ++i) {
    result.columns.push_back({matrix.flows[i].dst, 1, got.flow_finish_s[i]});
  }
  std::stable_sort(result.columns.begin(), result.columns.end(),
                   [](const ColumnClass& a, const ColumnClass& b) { return a.dst < b.dst; });
  return result;
}

}  // namespace

struct DestinationUniformTraffic::State {
  const Cluster& cluster;
  std::unique_ptr<const Shape> shape;
  std::string reason;  // why there is no shape
};

DestinationUniformTraffic::DestinationUniformTraffic(const Cluster& cluster) : state_(new State{cluster, nullptr, ""}) {
  auto factors = route_blocks(cluster);
  if (auto* reason = std::get_if<std::string>(&factors)) {
    state_->reason = std::move(*reason);
    return;
  }
  try {
    state_->shape = std::make_unique<const Shape>(cluster, std::move(std::get<RouteBlocks>(factors)));
  } catch (const TooManyColumns& e) {
    state_->reason = e.reason;
  }
}

DestinationUniformTraffic::~DestinationUniformTraffic() = default;

std::variant<ColumnResult, std::string> DestinationUniformTraffic::simulate(std::span<const double> bytes,
                                                                            bool with_columns,
                                                                            std::int64_t most_by_pairs) const {
  std::string reason = state_->reason;
  if (state_->shape) {
    try {
      auto result = Run(*state_->shape, bytes, with_columns).result();
      if (std::holds_alternative<ColumnResult>(result)) return result;
      reason = std::get<std::string>(result);
    } catch (const TooManyColumns& e) {
      reason = e.reason;
    }
  }
  if (state_->cluster.world_size() > most_by_pairs) return reason;
  return by_pairs(state_->cluster, bytes, with_columns);
}

}  // namespace moeplan::sim
