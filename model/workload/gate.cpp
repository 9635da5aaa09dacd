#include "model/workload/gate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/base/whole_numbers.hpp"

namespace moeplan {

namespace {

using Counts = std::vector<std::int64_t>;

std::int64_t sum_of(const Counts& counts) { return std::accumulate(counts.begin(), counts.end(), std::int64_t{0}); }

Counts row_of(const RoutingCounts& counts, std::int64_t source) {
  Counts row;
  row.reserve(static_cast<std::size_t>(counts.experts()));
  for (std::int64_t e = 0; e < counts.experts(); ++e) {
    row.push_back(counts.at(RankId(static_cast<std::int32_t>(source)), ExpertId(static_cast<std::int32_t>(e))));
  }
  return row;
}

/// Distributes `total` items in proportion to the weights, none above its room: integers by largest remainder (ties:
/// the first); items without room go to the first that has room. Distributes fewer than `total` if there is less room.
Counts in_proportion(const Counts& weights, std::int64_t total, const Counts& room) {
  const double sum = static_cast<double>(sum_of(weights));
  const double equal = 1 / static_cast<double>(weights.size());
  Counts out(weights.size());
  std::vector<double> remainder(weights.size());
  std::int64_t left = total;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const double exact = (sum > 0 ? static_cast<double>(weights[i]) / sum : equal) * static_cast<double>(total);
    out[i] = std::min({static_cast<std::int64_t>(exact), room[i], left});
    remainder[i] = exact - static_cast<double>(out[i]);
    left -= out[i];
  }
  std::vector<std::size_t> order(weights.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (const std::size_t i : order) {
    if (left == 0) break;
    if (out[i] == room[i]) continue;
    ++out[i];
    --left;
  }
  for (std::size_t i = 0; i < out.size() && left > 0; ++i) {
    const std::int64_t more = std::min(left, room[i] - out[i]);
    out[i] += more;
    left -= more;
  }
  return out;
}

/// One source's row after the topology gate.
Counts stay_near(const Counts& asked, const std::vector<bool>& is_near, std::int64_t most_far, std::int64_t tokens) {
  Counts far_asked, near_asked;
  for (std::size_t e = 0; e < asked.size(); ++e) (is_near[e] ? near_asked : far_asked).push_back(asked[e]);
  const std::int64_t excess = sum_of(far_asked) - most_far;
  if (excess <= 0) return asked;
  const Counts far = in_proportion(far_asked, most_far, far_asked);
  Counts near = near_asked;
  if (!near.empty()) {
    Counts room;
    for (const std::int64_t n : near_asked) room.push_back(std::max<std::int64_t>(0, tokens - n));
    const Counts more = in_proportion(near_asked, excess, room);
    for (std::size_t i = 0; i < near.size(); ++i) near[i] += more[i];
  }
  Counts out;
  auto next_far = far.begin();
  auto next_near = near.cbegin();
  for (std::size_t e = 0; e < asked.size(); ++e) out.push_back(is_near[e] ? *next_near++ : *next_far++);
  return out;
}

constexpr double kLeastRatio = 1e-6, kMostRatio = 1e6, kMostFactor = 1000;

}  // namespace

Gate read_gate(MapReader r) {
  Gate gate;
  gate.kind = r.choice<GateKind>("kind", kGateKindNames);
  if (gate.kind == GateKind::Topology && r.find("net_over_local")) {
    gate.net_over_local = r.number("net_over_local", kLeastRatio, kMostRatio);
  }
  if (gate.kind == GateKind::Capacity) {
    gate.factor = r.number_or("factor", gate.factor, -kMostFactor, kMostFactor);
    gate.is_padded = r.boolean_or("padded", gate.is_padded);
  }
  r.finish();
  return gate;
}

Node gate_document(const Gate& gate) {
  Node out = Node::map();
  out.set("kind", Node::text(std::string(name_of<GateKind>(kGateKindNames, gate.kind))));
  if (gate.kind == GateKind::Topology && gate.net_over_local) {
    out.set("net_over_local", Node::number(*gate.net_over_local));
  }
  if (gate.kind == GateKind::Capacity) {
    out.set("factor", Node::number(gate.factor));
    out.set("padded", Node::boolean(gate.is_padded));
  }
  return out;
}

std::string gate_text(const Gate& gate) {
  switch (gate.kind) {
    case GateKind::TopK: return "";
    case GateKind::Topology:
      return fmt::format("topology gate (W_net / W_local {:.3g})", gate.net_over_local.value_or(0));
    case GateKind::Capacity:
      return fmt::format("capacity gate (factor {}{}{})", gate.factor,
                         gate.factor > 0    ? ""
                         : gate.factor == 0 ? ": the least that drops nothing"
                                            : ": the least that drops nothing, bounded",
                         gate.is_padded ? ", padded" : "");
  }
  return "";
}

std::optional<double> net_over_local(const ClusterSpec& cluster) {
  const auto* machine = std::get_if<ClusterTemplate>(&cluster.machine);
  if (!machine || !machine->fabric) return std::nullopt;
  struct LocalBandwidth {
    BytesPerSecond operator()(const PcieTree& t) const { return t.pcie_bandwidth; }
    BytesPerSecond operator()(const NvSwitch& s) const { return s.bandwidth; }
    BytesPerSecond operator()(const NvlinkMesh& m) const {  // of the links of GPU 0, if it has any
      BytesPerSecond sum{};
      for (const NvLink& l : m.links) {
        if (l.a == 0 || l.b == 0) sum += l.bandwidth;
      }
      return sum > BytesPerSecond(0) ? sum : m.pcie.pcie_bandwidth;
    }
  };
  const BytesPerSecond local = std::visit(LocalBandwidth{}, machine->intra_node);
  return machine->fabric->nic_bandwidth * static_cast<double>(machine->fabric->nics_per_node) / local;
}

GatedRouting topology_gated(const RoutingCounts& asked, std::int64_t top_k, double net_over_local,
                            std::int64_t workers_per_node, const IsNear& is_near) {
  assert(workers_per_node > 0 && top_k > 0 && "a rank is a worker of its node");
  GatedRouting out{.counts = asked};
  Counts all;
  for (std::int64_t source = 0; source < asked.sources(); ++source) {
    const Counts row = row_of(asked, source);
    std::vector<bool> near;
    for (std::size_t e = 0; e < row.size(); ++e) {
      near.push_back(is_near(RankId(static_cast<std::int32_t>(source)), ExpertId(static_cast<std::int32_t>(e))));
    }
    const std::int64_t selections = sum_of(row);
    const double share = std::min(1.0, net_over_local / static_cast<double>(workers_per_node));
    const auto most_far = static_cast<std::int64_t>(share * static_cast<double>(selections));
    const Counts gated = stay_near(row, near, most_far, ceil_div(selections, top_k));
    for (std::size_t e = 0; e < row.size(); ++e) out.rerouted += std::max<std::int64_t>(0, gated[e] - row[e]);
    out.selections += selections;
    out.dropped += selections - sum_of(gated);
    all.insert(all.end(), gated.begin(), gated.end());
  }
  if (out.rerouted > 0 || out.dropped > 0) {
    out.counts = RoutingCounts::dense(asked.sources(), asked.experts(), std::move(all));
  }
  return out;
}

GatedRouting capacity_gated(const RoutingCounts& asked, std::int64_t top_k, std::int64_t tokens, double factor,
                            bool is_padded, std::int64_t multiple_of) {
  assert(multiple_of > 0 && "parts are at least one");
  const std::int64_t rows = asked.same_for_all_sources() ? 1 : asked.sources();
  const std::int64_t times = asked.sources() / rows;
  std::int64_t least = 0;  // the smallest that drops nothing
  for (std::int64_t source = 0; source < rows; ++source)
    least = std::max(least, std::ranges::max(row_of(asked, source)));
  const double exact = static_cast<double>(top_k) * std::abs(factor) * static_cast<double>(tokens) /
                       static_cast<double>(asked.experts());
  const auto bound = static_cast<std::int64_t>(std::ceil(exact));
  std::int64_t capacity = factor > 0 ? bound : factor == 0 ? least : std::min(least, bound);
  if (is_padded) capacity = ceil_div(capacity, multiple_of) * multiple_of;

  GatedRouting out;
  Counts kept;
  for (std::int64_t source = 0; source < rows; ++source) {
    for (const std::int64_t count : row_of(asked, source)) {
      kept.push_back(std::min(count, capacity));
      out.selections += times * count;
      out.dropped += times * (count - kept.back());
      if (is_padded) out.padding += times * (capacity - kept.back());
    }
  }
  if (is_padded) {
    out.counts = RoutingCounts::uniform(asked.sources(), asked.experts(), capacity);
  } else if (rows == 1) {
    out.counts = RoutingCounts::by_expert(asked.sources(), std::move(kept));
  } else {
    out.counts = RoutingCounts::dense(asked.sources(), asked.experts(), std::move(kept));
  }
  return out;
}

}  // namespace moeplan
