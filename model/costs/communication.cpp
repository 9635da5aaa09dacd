#include "model/costs/communication.hpp"

#include "model/program/tree_edges.hpp"

namespace moeplan {

namespace {

Span span_of(const GroupFamily& family, RankId rank, const Cluster& cluster) {
  const int node = cluster.node_of_rank[rank.index()];
  for (std::int64_t p = 0; p < family.size; ++p) {
    if (cluster.node_of_rank[family.member(rank, p).index()] != node) return Span::InterNode;
  }
  return Span::IntraNode;
}

/// Bytes that a rank sends to others for each byte of the collective's n (rings and chains; MODELS section 0 and 2).
double sent_share(Collective collective, std::int64_t group_size) {
  const auto g = static_cast<double>(group_size);
  switch (collective) {
    case Collective::AllToAll:
    case Collective::AllGather:
    case Collective::ReduceScatter: return (g - 1) / g;
    case Collective::AllReduce: return 2 * (g - 1) / g;
    case Collective::Broadcast:
    case Collective::SendReceive: return 1;
  }
  return 1;
}

/// Of the messages that a rank sends to others in a whole all-to-all, those of this part of it.
double share_of_messages(const Communication& c, std::int64_t group_size) {
  if (c.of == 1) return 1;
  const std::int64_t self = c.first == 0 ? 1 : 0;
  return static_cast<double>(c.count * (group_size / c.of) - self) / static_cast<double>(group_size - 1);
}

/// What it costs the sender that what each of its peers gets does not lie in one piece.
Seconds cost_of_pieces(const Communication& c, std::int64_t group_size, const Cluster& cluster) {
  if (c.collective != Collective::AllToAll || c.messages == 1) return Seconds(0);
  const double peers = static_cast<double>(group_size - 1) * share_of_messages(c, group_size);
  return cluster.message_overhead * (peers * static_cast<double>(c.messages - 1));
}

/// What the depth of a tree costs: the latencies on its longest way, up and down for an all-reduce.
Seconds tree_latency(const Program& program, const Communication& c, RankId rank, const Cluster& cluster) {
  const GroupFamily& family = program.group(c.group);
  const std::vector<std::int64_t> way = longest_tree_way(c.collective, family.size, members_per_node(program, family));
  Seconds latency;
  for (std::size_t i = 1; i < way.size(); ++i) {
    latency += cluster.route(family.member(rank, way[i - 1]), family.member(rank, way[i])).latency;
  }
  return c.collective == Collective::AllReduce ? latency * 2.0 : latency;
}

CommunicationCost send_cost(const Program& program, const Send& send, RankId rank, const Cluster& cluster) {
  const RankId to = program.group(send.group).shifted(rank, send.shift);
  if (to == rank) return {Seconds(0), std::nullopt, false};
  const bool inside = cluster.node_of_rank[rank.index()] == cluster.node_of_rank[to.index()];
  const auto it = cluster.collectives.find({Collective::SendReceive, inside ? Span::IntraNode : Span::InterNode});
  if (it == cluster.collectives.end()) return {cluster.collective_startup, std::nullopt, true};
  return {it->second.alpha, BytesPerSecond(1 / it->second.beta.value()), false};
}

}  // namespace

CommunicationCost communication_cost(const Program& program, const Operation& operation, RankId rank,
                                     const Cluster& cluster) {
  if (const auto* send = std::get_if<Send>(&operation.work)) return send_cost(program, *send, rank, cluster);
  const Communication& c = *operation.communication();
  const GroupFamily& family = program.group(c.group);
  if (family.size == 1) return {Seconds(0), std::nullopt, false};
  if (c.pattern == Pattern::Tree) {
    return {cluster.collective_startup + tree_latency(program, c, rank, cluster), std::nullopt, false};
  }
  const Span span = span_of(family, rank, cluster);
  const bool in_parts = c.collective == Collective::AllToAll && c.of > 1;
  const Seconds pieces = cost_of_pieces(c, family.size, cluster);
  if (in_parts) {
    if (const auto it = cluster.collectives.find({Collective::SendReceive, span}); it != cluster.collectives.end()) {
      return {it->second.alpha + pieces, BytesPerSecond(1 / it->second.beta.value()), false};
    }
  }
  const double part = in_parts ? share_of_messages(c, family.size) : 1.0;
  if (const auto it = cluster.collectives.find({c.collective, span}); it != cluster.collectives.end()) {
    const double cap = sent_share(c.collective, family.size) / it->second.beta.value();
    return {it->second.alpha * part + pieces, BytesPerSecond(cap), false};
  }
  Seconds startup = cluster.collective_startup + pieces;
  if (c.collective == Collective::AllToAll) {
    startup += cluster.message_overhead * (static_cast<double>(family.size - 1) * part);
  }
  return {startup, std::nullopt, true};
}

}  // namespace moeplan
