// Communications whose rows a dispatcher's kernels move.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "model/collectives/collective_models.hpp"
#include "model/costs/communication.hpp"

namespace moeplan {

namespace {

bool is_across_nodes(const DispatcherModel& figures) { return figures.dispatch.nic.has_value(); }

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

/// The most nodes of a group of the family that figures of its own do not price; 0: there is none.
std::int64_t most_unmeasured_nodes(const GroupFamily& family, const std::string& kernels, const Program& program,
                                   const Cluster& cluster) {
  std::int64_t most = 0;
  for (std::int32_t r = 0; r < program.world_size; ++r) {
    if (family.size == 1 || family.position(RankId(r)) != 0) continue;
    const std::int64_t nodes = shape_of(family, RankId(r), cluster).nodes;
    const DispatcherModel* figures = row_kernel_figures(cluster, kernels, nodes);
    if (!figures || is_across_nodes(*figures) != (nodes > 1)) most = std::max(most, nodes);
  }
  return most;
}

}  // namespace

const DispatcherModel* row_kernel_figures(const Cluster& cluster, std::string_view kernels, std::int64_t nodes) {
  if (!cluster.collective_models) return nullptr;
  const DispatcherModel* found = nullptr;
  for (const DispatcherModel& m : cluster.collective_models->dispatchers) {
    if (m.name() != kernels) continue;
    if (is_across_nodes(m) == (nodes > 1)) return &m;
    if (!found) found = &m;
  }
  return found;
}

std::vector<UnmeasuredKernels> unmeasured_kernels(const Program& program, const Cluster& cluster) {
  std::set<std::pair<std::string, GroupId>> seen;
  std::map<std::string, std::int64_t> nodes;  // by name
  for (const Block& block : program.blocks) {
    for (const Operation& operation : block.operations) {
      const Communication* c = operation.communication();
      if (!c || !c->kernels || !seen.emplace(c->kernels->name, c->group).second) continue;
      const std::int64_t most = most_unmeasured_nodes(program.group(c->group), c->kernels->name, program, cluster);
      if (most > 0) nodes[c->kernels->name] = std::max(nodes[c->kernels->name], most);
    }
  }
  std::vector<UnmeasuredKernels> out;
  for (const auto& [name, most] : nodes)
    out.push_back({name, most, row_kernel_figures(cluster, name, most) != nullptr});
  return out;
}

std::optional<CommunicationCost> row_kernels_cost(const Program& program, const Operation& operation, RankId rank,
                                                  const Cluster& cluster, GroupShape shape) {
  const RowKernels& kernels = *operation.communication()->kernels;
  const DispatcherModel* figures = row_kernel_figures(cluster, kernels.name, shape.nodes);
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

bool is_persistent(const Program& program, const Operation& operation) {
  return program.has_persistent_products &&
         (std::holds_alternative<Gemm>(operation.work) || std::holds_alternative<AttentionCore>(operation.work));
}

double slowdown_beside(const Operation& communication, const Cluster& cluster) {
  const Communication* c = communication.communication();
  const double by_nccl = cluster.gpu.slowdown_beside_communication;
  if (!c || !c->kernels) return by_nccl;
  double sms = static_cast<double>(c->kernels->sms);
  if (sms == 0) {
    const DispatcherModel* figures = row_kernel_figures(cluster, c->kernels->name, 1);
    if (!figures || !figures->sms) return by_nccl;
    sms = *figures->sms;
  }
  const auto all = static_cast<double>(cluster.gpu.num_sms);
  return all / std::max(1.0, all - sms);
}

}  // namespace moeplan
