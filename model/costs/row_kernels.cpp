// Communications whose rows a dispatcher's kernels move.

#include <algorithm>

#include "model/collectives/collective_models.hpp"
#include "model/costs/communication.hpp"

namespace moeplan {

namespace {

/// The cluster's figures under a name: those of groups like this one, or else others.
const DispatcherModel* figures_of(const Cluster& cluster, const std::string& name, std::int64_t nodes) {
  if (!cluster.collective_models) return nullptr;
  const DispatcherModel* found = nullptr;
  for (const DispatcherModel& m : cluster.collective_models->dispatchers) {
    if (m.name() != name) continue;
    if (m.dispatch.nic.has_value() == (nodes > 1)) return &m;
    if (!found) found = &m;
  }
  return found;
}

/// Rows that a rank sends: those that leave it for other members of its node, and those that cross to other nodes.
TokenRows sent_rows(const Program& program, const Operation& operation, RankId rank, const Cluster& cluster,
                    double row_bytes) {
  TokenRows rows;
  for (const Flow& flow : flows_from(program, operation, rank)) {
    const bool inside = cluster.node_of_rank[flow.from.index()] == cluster.node_of_rank[flow.to.index()];
    (inside ? rows.linked : rows.crossing) += static_cast<double>(flow.bytes) / row_bytes;
  }
  return rows;
}

}  // namespace

std::optional<CommunicationCost> row_kernels_cost(const Program& program, const Operation& operation, RankId rank,
                                                  const Cluster& cluster, GroupShape shape) {
  const RowKernels& kernels = *operation.communication()->kernels;
  const DispatcherModel* figures = figures_of(cluster, kernels.name, shape.nodes);
  if (!figures) return std::nullopt;
  if (kernels.accompanies) return CommunicationCost{Seconds(0), std::nullopt, false};
  const Slice& input = operation.reads.front();
  const Buffer& buffer = program.buffer(input.buffer);
  const RoutingTable& routing = program.routings[input.rows.routing.index()];
  const auto row_bytes = static_cast<double>(buffer.columns * size_of(buffer.dtype));
  TokenRows sent = sent_rows(program, operation, rank, cluster, row_bytes);
  const double members = shape.per_node();
  const double held = members > 1 ? sent.linked * members / (members - 1) : 0;
  DispatchShape whole{.group = shape,
                      .tokens = 1,
                      .top_k = static_cast<double>(routing.top_k),
                      .experts = static_cast<double>(routing.num_experts()),
                      .sms = static_cast<double>(kernels.sms),
                      .row_bytes = row_bytes};
  const TokenRows even = token_rows(figures->merges, whole);
  whole.tokens = members > 1 ? sent.linked / even.linked : sent.crossing / even.crossing;
  if (!(whole.tokens > 0)) return CommunicationCost{Seconds(0), std::nullopt, false};
  const double tokens = whole.tokens, rows = sent.linked + sent.crossing;
  const TokenRows each{.ranks = held / tokens, .linked = sent.linked / tokens, .crossing = sent.crossing / tokens};
  const DispatchCost cost =
      dispatch_cost(*figures, kernels.combines ? figures->combine : figures->dispatch, whole, each);
  const Seconds moving = cost.overlapped;
  CommunicationCost out{cost.fixed + cost.casts, std::nullopt, false};
  if (moving > Seconds(0)) out.rate_cap = Bytes(rows * row_bytes) / moving;
  return out;
}

double slowdown_beside(const Operation& communication, const Cluster& cluster) {
  const Communication* c = communication.communication();
  const double by_nccl = cluster.gpu.slowdown_beside_communication;
  if (!c || !c->kernels) return by_nccl;
  double sms = static_cast<double>(c->kernels->sms);
  if (sms == 0) {
    const DispatcherModel* figures = figures_of(cluster, c->kernels->name, 1);
    if (!figures || !figures->sms) return by_nccl;
    sms = *figures->sms;
  }
  const auto all = static_cast<double>(cluster.gpu.num_sms);
  return all / std::max(1.0, all - sms);
}

}  // namespace moeplan
