#include "model/costs/communication.hpp"

#include <algorithm>

#include "model/collectives/collective_models.hpp"
#include "model/costs/measured_cost.hpp"
#include "model/program/tree_edges.hpp"

namespace moeplan {

namespace {

/// The n of a communication; for a part of an all-to-all, that of the whole, whose parts are about equal.
Bytes whole_message(const Program& program, const Operation& operation, RankId rank) {
  const Communication& c = *operation.communication();
  const auto n = static_cast<double>(message_size(program, operation, rank));
  return Bytes(n * static_cast<double>(c.of) / static_cast<double>(c.count));
}

/// The number of messages of this part among those that a rank sends to others in the whole all-to-all.
double share_of_messages(const Communication& c, std::int64_t group_size) {
  if (c.of == 1) return 1;
  const std::int64_t self = c.first == 0 ? 1 : 0;
  return static_cast<double>(c.count * (group_size / c.of) - self) / static_cast<double>(group_size - 1);
}

/// The start-up time of a part of a collective whose whole has the start-up time alpha: a launch, unless an earlier
/// part launched it too, and its share of what alpha exceeds a launch by.
Seconds startup_of_part(Seconds alpha, const Communication& c, double share, const Cluster& cluster) {
  const Seconds launch = std::min(alpha, cluster.collective_startup);
  return (alpha - launch) * share + (c.continues ? Seconds(0) : launch);
}

/// The sender's cost of splitting a peer's non-contiguous data into several messages.
Seconds cost_of_pieces(const Communication& c, std::int64_t group_size, const Cluster& cluster) {
  if (c.collective != Collective::AllToAll || c.messages == 1) return Seconds(0);
  const double peers = static_cast<double>(group_size - 1) * share_of_messages(c, group_size);
  return cluster.message_overhead * (peers * static_cast<double>(c.messages - 1));
}

/// The latency of a tree's depth: the latencies along its longest path, up and down for an all-reduce.
Seconds tree_latency(const Program& program, const Communication& c, RankId rank, const Cluster& cluster) {
  const GroupFamily& family = program.group(c.group);
  const std::vector<std::int64_t> path =
      longest_tree_path(c.collective, family.size, members_per_node(program, family));
  Seconds latency;
  for (std::size_t i = 1; i < path.size(); ++i) {
    latency += cluster.route(family.member(rank, path[i - 1]), family.member(rank, path[i])).latency;
  }
  return c.collective == Collective::AllReduce ? latency * 2.0 : latency;
}

/// The models' time as a start-up time and a time per byte: that up to twice the bytes, but no less than the transfer
/// takes, which goes on while steps decide. Else links would carry the bytes once more after the steps.
std::optional<AlphaBeta> modelled_cost(const CollectiveModels& models, Collective collective, GroupShape shape,
                                       Bytes n) {
  const auto cost = collective_cost(models, collective, shape, n);
  if (!cost) return std::nullopt;
  if (n == Bytes(0)) return AlphaBeta{cost->time(), SecondsPerByte(0)};
  const auto twice = collective_cost(models, collective, shape, n * 2.0);
  const Seconds slope = std::max(twice->time() - cost->time(), cost->transfer);
  const double beta = std::min(slope, cost->time()).value() / n.value();
  return AlphaBeta{cost->time() - n * SecondsPerByte(beta), SecondsPerByte(beta)};
}

CommunicationCost send_cost(const Program& program, const Operation& operation, RankId rank, const Cluster& cluster) {
  const Send& send = std::get<Send>(operation.work);
  const RankId to = program.group(send.group).shifted(rank, send.shift);
  if (to == rank) return {Seconds(0), std::nullopt, false};
  const bool inside = cluster.node_of_rank[rank.index()] == cluster.node_of_rank[to.index()];
  constexpr double kLarge = 1e12;
  const bool is_sized = !operation.reads.empty() && depends_on_message(cluster.collectives);
  const Bytes bytes(is_sized ? static_cast<double>(byte_count(program, operation.reads.front(), rank)) : kLarge);
  const auto cost = measured_cost(cluster.collectives, Collective::SendReceive, {2, inside ? 1 : 2}, bytes);
  if (!cost) return {cluster.collective_startup, std::nullopt, true};
  return {cost->alpha, BytesPerSecond(1 / cost->beta.value()), false};
}

}  // namespace

GroupShape shape_of(const GroupFamily& family, RankId rank, const Cluster& cluster) {
  GroupShape shape{family.size, 1};  // ranks are ordered by node, and so are a group's members
  for (std::int64_t p = 1; p < family.size; ++p) {
    const auto node = [&](std::int64_t position) {
      return cluster.node_of_rank[family.member(rank, position).index()];
    };
    if (node(p) != node(p - 1)) ++shape.nodes;
  }
  return shape;
}

CommunicationCost communication_cost(const Program& program, const Operation& operation, RankId rank,
                                     const Cluster& cluster) {
  if (std::holds_alternative<Send>(operation.work)) return send_cost(program, operation, rank, cluster);
  const Communication& c = *operation.communication();
  const GroupFamily& family = program.group(c.group);
  if (family.size == 1) return {Seconds(0), std::nullopt, false};
  if (c.pattern == Pattern::Tree) {
    return {cluster.collective_startup + tree_latency(program, c, rank, cluster), std::nullopt, false};
  }
  if (c.kernels) {
    const auto cost = row_kernels_cost(program, operation, rank, cluster, shape_of(family, rank, cluster));
    CommunicationCost out = cost.value_or(CommunicationCost{cluster.collective_startup, std::nullopt, true});
    if (c.continues) out.startup = Seconds(0);
    return out;
  }
  const bool in_parts = c.collective == Collective::AllToAll && c.of > 1;
  const double part = in_parts ? share_of_messages(c, family.size) : 1.0;
  const Seconds pieces = cost_of_pieces(c, family.size, cluster);
  const GroupShape shape = shape_of(family, rank, cluster);
  // Models know larger groups better than the lines of smaller ones.
  const bool has_curve = !cluster.collective_models || is_measured(cluster.collectives, c.collective, shape);
  if (!cluster.collectives.empty() && has_curve) {
    const Bytes n = depends_on_message(cluster.collectives) ? whole_message(program, operation, rank) : Bytes(1);
    if (in_parts) {
      const Bytes message = n / static_cast<double>(family.size);
      if (const auto cost = measured_cost(cluster.collectives, Collective::SendReceive, shape, message)) {
        return {cost->alpha + pieces, BytesPerSecond(1 / cost->beta.value()), false};
      }
    }
    if (const auto cost = measured_cost(cluster.collectives, c.collective, shape, n)) {
      const double cap = sent_share(c.collective, family.size) / cost->beta.value();
      return {startup_of_part(cost->alpha, c, part, cluster) + pieces, BytesPerSecond(cap), false};
    }
  }
  if (cluster.collective_models) {
    const Bytes n = whole_message(program, operation, rank);
    if (const auto cost = modelled_cost(*cluster.collective_models, c.collective, shape, n)) {
      std::optional<BytesPerSecond> cap;
      if (cost->beta > SecondsPerByte(0))
        cap = BytesPerSecond(sent_share(c.collective, family.size) / cost->beta.value());
      return {startup_of_part(cost->alpha, c, part, cluster) + pieces, cap, false};
    }
  }
  Seconds startup = (c.continues ? Seconds(0) : cluster.collective_startup) + pieces;
  if (c.collective == Collective::AllToAll) {
    startup += cluster.message_overhead * (static_cast<double>(family.size - 1) * part);
  }
  const bool reduces = c.collective == Collective::ReduceScatter || c.collective == Collective::AllReduce;
  if (reduces && cluster.reduction_bandwidth) {
    startup += whole_message(program, operation, rank) / *cluster.reduction_bandwidth;
  }
  return {startup, std::nullopt, true};
}

}  // namespace moeplan
