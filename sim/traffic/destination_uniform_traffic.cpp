#include "sim/traffic/destination_uniform_traffic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "model/base/to_index.hpp"
#include "sim/traffic/destination_uniform_shape.hpp"
#include "sim/traffic/route_rows.hpp"
#include "sim/traffic/subtree_traffic.hpp"

namespace moeplan::sim {

namespace {

using Index = RouteBlocks::Index;
using Block = RouteBlocks::Block;
using Shape = DestinationUniformShape;
using NearJoin = DestinationUniformShape::NearJoin;

constexpr double kRateRounding = 1e-11;                      // relative: sums of up to a million rates
constexpr double kMostEngineSteps = 4e9;                     // all limbs together: some minutes
constexpr double kMostUses = 2e9;                            // links on the ways of all classes: some seconds
constexpr std::size_t kMostLimbUses = std::size_t{1} << 26;  // of one limb: 1 GiB

/// One run: the limbs one after the other, then what they were simulated without.
class Run {
 public:
  Run(const Shape& shape, std::span<const double> bytes, bool with_columns)
      : shape_(shape),
        f_(shape.factors),
        bytes_(bytes),
        with_columns_(with_columns),
        local_link_(shape.capacity.size(), -1),
        local_sum_(shape.sums, -1),
        most_(shape.sums, 0),
        less_up_(shape.cluster.topology.vertices.size(), 0),
        less_across_(shape.sums, 0) {}

  std::variant<ColumnResult, std::string> result() {
    for (const auto& limb : shape_.limbs) {
      build(limb);
      if (traffic_.classes.empty()) continue;
      const auto limb_result = simulate_subtree(traffic_, steps_left_);
      if (!limb_result) throw TooManyColumns{"its parts have too many flows that differ"};
      take(*limb_result);
    }
    if (const auto link = overloaded_link()) {
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
  // --- The classes of one subtree ---

  void build(const std::vector<RankId>& limb) {
    for (const Index l : links_) local_link_[to_index(l)] = -1;
    for (const Index s : sums_) local_sum_[to_index(s)] = -1;
    links_.clear();
    sums_.clear();
    slots_.clear();
    slot_places_.clear();
    class_dst_.clear();
    traffic_ = {};
    for (const RankId d : limb) {
      if (bytes_[d.index()] > 0) add_destination(d);
    }
  }

  void add_destination(RankId d) {
    const std::size_t first = traffic_.classes.size();
    std::vector<FlowUse>& way = way_;  // path from the current vertex down to d
    way.clear();
    Index v = shape_.gpu(d).value();
    while (f_.block_of[to_index(v)] >= 0) {
      const auto b = to_index(f_.block_of[to_index(v)]);
      const Block& block = f_.blocks[b];
      const std::size_t u = to_index(f_.place_of[to_index(v)]);
      if (shape_.has_crossings(block)) add_crossings(d, b, u, way);
      if (block.top < 0) break;
      append_kept(f_.route(block, 0, u), 1, way);
      const auto joining = static_cast<double>(f_.ranks[to_index(block.top)] - block.ranks);
      add_class(d, joining, static_cast<Index>(b), way);
      v = block.top;
    }
    for (const NearJoin& n : shape_.near_of(d)) note_near(n, first);
  }

  void add_crossings(RankId d, std::size_t b, std::size_t u, std::vector<FlowUse>& way) {
    const Block& block = f_.blocks[b];
    const auto terminals = f_.terminals_of(block);
    const std::size_t common = way.size();
    for (std::size_t t = block.top >= 0 ? 1 : 0; t < block.terminals; ++t) {
      const Index sum = shape_.crossing(b, t, u);
      if (t == u || shape_.stands_for[to_index(sum)] != static_cast<Index>(t)) continue;
      const auto members = static_cast<double>(shape_.members[to_index(sum)]);
      append_kept(f_.route(block, t, u), 1 / members, way);
      add_class(d, members * static_cast<double>(f_.ranks[to_index(terminals[t])]), sum, way);
      way.resize(common);
    }
  }

  void append_kept(std::span<const FlowUse> route, double part, std::vector<FlowUse>& way) {
    for (const FlowUse& use : route) {
      if (!shape_.kept[use.resource.index()]) continue;
      Index& local = local_link_[use.resource.index()];
      if (local < 0) {
        local = static_cast<Index>(links_.size());
        links_.push_back(use.resource.value());
        traffic_.capacity.push_back(shape_.capacity[use.resource.index()]);
      }
      way.push_back({ResourceId(local), use.share * part});
    }
  }

  void add_class(RankId d, double flows, Index sum, const std::vector<FlowUse>& way) {
    uses_left_ -= static_cast<double>(way.size());
    if (uses_left_ < 0 || traffic_.uses.size() + way.size() > kMostLimbUses) {
      throw TooManyColumns{"its parts have too many flows that differ"};
    }
    for (const NearJoin& n : shape_.near_of(d)) flows -= n.sum == sum ? 1 : 0;
    if (flows <= 0) return;
    Index& local = local_sum_[to_index(sum)];
    if (local < 0) {
      local = traffic_.sums++;
      sums_.push_back(sum);
    }
    traffic_.classes.push_back({bytes_[d.index()], flows, static_cast<std::uint32_t>(traffic_.uses.size()),
                                static_cast<std::uint32_t>(way.size()), local});
    traffic_.uses.insert(traffic_.uses.end(), way.begin(), way.end());
    class_dst_.push_back(d);
  }

  /// Notes that the source does not send to this destination over the fabric, so that the links on its ascending route
  /// carry less than the sums of the other sources say.
  void note_near(const NearJoin& n, std::size_t first_class) {
    const Index local = local_sum_[to_index(n.sum)];
    std::size_t c = first_class;
    while (c < traffic_.classes.size() && traffic_.classes[c].sum != local) ++c;
    if (local < 0 || c == traffic_.classes.size()) return;
    for (const Index v : shape_.steps_of(n)) {
      const auto key = static_cast<std::uint64_t>(v) << 32U | static_cast<std::uint32_t>(local);
      const auto [it, is_new] = slots_.try_emplace(key, traffic_.slots.size());
      if (is_new) {
        traffic_.slots.push_back({static_cast<double>(f_.ranks[to_index(v)]), local, {}});
        slot_places_.push_back(v);
      }
      traffic_.slots[it->second].without.push_back(static_cast<Index>(c));
    }
  }

  void take(const LimbResult& limb) {
    for (std::size_t c = 0; c < class_dst_.size(); ++c) {
      add_flows(class_dst_[c], traffic_.classes[c].weight, limb.finish_s[c]);
    }
    result_.classes += static_cast<std::int64_t>(class_dst_.size());
    if (!limb.is_constant) result_.method = TrafficMethod::Classes;
    for (std::size_t s = 0; s < sums_.size(); ++s) most_[to_index(sums_[s])] = limb.most[s];
    for (std::size_t i = 0; i < slot_places_.size(); ++i) {
      const auto& slot = traffic_.slots[i];
      const Index sum = sums_[to_index(slot.sum)];
      const double less = slot.factor * limb.most[to_index(slot.sum)] - limb.slot_most[i];
      (is_across(slot_places_[i], sum) ? less_across_[to_index(sum)] : less_up_[to_index(slot_places_[i])]) += less;
    }
  }

  /// Whether the routes join in the block above the vertex, so that the block is crossed and not ascended.
  bool is_across(Index vertex, Index sum) const {
    const Index b = f_.block_of[to_index(vertex)];
    if (to_index(sum) < f_.blocks.size() || to_index(sum) < shape_.first_crossing[to_index(b)]) return false;
    const Block& block = f_.blocks[to_index(b)];
    return to_index(sum) < shape_.first_crossing[to_index(b)] + std::size_t{block.terminals} * block.terminals &&
           shape_.has_crossings(block);
  }

  void add_flows(RankId d, double flows, double finish_s) {
    result_.finish_s = std::max(result_.finish_s, finish_s);
    result_.sum_flow_finish_s += flows * finish_s;
    if (with_columns_) result_.columns.push_back({d, static_cast<std::int64_t>(flows), finish_s});
  }

  // --- The dropped links ---

  /// A dropped link that might be overloaded, if any.
  std::optional<ResourceId> overloaded_link() {
    // Upper bounds on the rate of one source: out of a block through its top, and out of a vertex to all others.
    std::vector<double> out_of_block(f_.blocks.size(), 0), out_of_vertex(less_up_.size(), 0);
    std::vector<double> load(shape_.capacity.size(), 0);
    const auto most_across = [&](std::size_t b, std::size_t t, std::size_t u) {
      return most_[to_index(shape_.crossing(b, to_index(shape_.stands_for[to_index(shape_.crossing(b, t, u))]), u))];
    };
    for (std::size_t b = 0; b < f_.blocks.size();) {
      std::size_t end = b + 1;
      while (f_.blocks[b].top >= 0 && end < f_.blocks.size() && f_.blocks[end].top == f_.blocks[b].top) ++end;
      if (f_.blocks[b].top >= 0) others_of(b, end, out_of_vertex[to_index(f_.blocks[b].top)], out_of_block);
      for (; b < end; ++b) {
        const Block& block = f_.blocks[b];
        const auto terminals = f_.terminals_of(block);
        for (std::size_t t = block.top >= 0 ? 1 : 0; t < block.terminals; ++t) {
          const Index v = terminals[t];
          const auto behind = static_cast<double>(f_.ranks[to_index(v)]);
          const auto add = [&](std::size_t u, double rate) {
            for (const FlowUse& use : f_.route(block, t, u)) load[use.resource.index()] += use.share * rate;
          };
          out_of_vertex[to_index(v)] = out_of_block[b];
          if (block.top >= 0) add(0, behind * out_of_block[b] - less_up_[to_index(v)]);
          if (!shape_.has_crossings(block)) continue;
          for (std::size_t u = block.top >= 0 ? 1 : 0; u < block.terminals; ++u) {
            if (u == t) continue;
            const double rate = most_across(b, t, u);
            out_of_vertex[to_index(v)] += rate;
            add(u, behind * rate - less_across_[to_index(shape_.crossing(b, t, u))]);
          }
        }
        // Traffic that descends over a link that is also part of an ascending route was not counted.
        for (std::size_t u = 1; block.top >= 0 && u < block.terminals; ++u) {
          for (const FlowUse& use : f_.route(block, 0, u)) {
            if (!shape_.kept[use.resource.index()]) return use.resource;
          }
        }
      }
    }
    for (std::size_t l = 0; l < load.size(); ++l) {
      if (!shape_.kept[l] && load[l] > shape_.capacity[l] * (1 + kRateRounding)) return ResourceId(l);
    }
    return std::nullopt;
  }

  /// The rate of one source out of each of the blocks [begin, end) that share a top: what leaves that vertex, plus what
  /// enters the other blocks. Summed from both ends to avoid subtraction.
  void others_of(std::size_t begin, std::size_t end, double out_of_top, std::vector<double>& out) const {
    double sum = 0;
    for (std::size_t b = begin; b < end; ++b) {
      out[b] = out_of_top + sum;
      sum += most_[b];
    }
    sum = 0;
    for (std::size_t b = end; b-- > begin;) {
      out[b] += sum;
      sum += most_[b];
    }
  }

  // --- Pairs that do not use the fabric ---

  void add_near() {
    for (std::size_t i = 0; i < f_.near.size();) {
      std::size_t end = i;
      while (end < f_.near.size() && f_.near[end].network == f_.near[i].network) ++end;
      add_near_network(std::span(f_.near).subspan(i, end - i));
      i = end;
    }
  }

  void add_near_network(std::span<const RouteBlocks::NearFlow> flows) {
    std::vector<RankId> ranks;
    for (const auto& n : flows) {
      ranks.push_back(n.src);
      ranks.push_back(n.dst);
    }
    std::sort(ranks.begin(), ranks.end());
    ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
    const auto place = [&](RankId r) {
      return RankId(static_cast<std::size_t>(std::lower_bound(ranks.begin(), ranks.end(), r) - ranks.begin()));
    };
    std::vector<Index> flow_of(ranks.size() * ranks.size(), -1);
    std::vector<Index> links;
    TrafficMatrix matrix{static_cast<std::int64_t>(ranks.size()), {}};
    TrafficNetwork network;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      const double bytes = bytes_[flows[i].dst.index()];
      if (bytes == 0) continue;
      const RankId src = place(flows[i].src), dst = place(flows[i].dst);
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
  double steps_left_ = kMostEngineSteps;
  double uses_left_ = kMostUses;
  ColumnResult result_{0, 0, TrafficMethod::Decoupled, 0, false, {}};

  SubtreeTraffic traffic_;
  std::vector<Index> local_link_;  // by link: its index in the subtree
  std::vector<Index> local_sum_;   // by sum
  std::vector<Index> links_;       // of the subtree
  std::vector<Index> sums_;
  std::vector<RankId> class_dst_;
  std::unordered_map<std::uint64_t, std::size_t> slots_;  // by vertex and sum
  std::vector<Index> slot_places_;
  std::vector<FlowUse> way_;

  std::vector<double> most_;         // by sum: the maximum over time of the rates from one source
  std::vector<double> less_up_;      // by vertex: reduction by near pairs of the rate that ascends from it
  std::vector<double> less_across_;  // by sum: reduction by near pairs of the rate that crosses a block
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
