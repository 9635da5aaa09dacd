#include "planner/report/paper_forms.hpp"

#include <algorithm>
#include <vector>

#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

namespace {

ParmProblem parm_problem(const Problem& problem, const Moe& moe, const Degrees& d, std::int64_t micro_batch) {
  const Workload& w = problem.workload();
  return {.P = d.ranks_per_stage(),
          .N_MP = d.tp,
          .N_EP = d.ep,
          .N_ESP = d.esp,
          .B = micro_batch,
          .L = w.sequence_length / d.cp,
          .M = problem.model().hidden_size,
          .H = moe.expert.hidden_size,
          .E = moe.num_experts,
          .k = moe.top_k,
          .f = w.capacity_factor.value_or(1),
          .b = static_cast<std::int64_t>(size_of(w.dtype))};
}

/// Least squares of t = alpha + n beta.
AlphaBeta line_through(const std::vector<std::pair<double, double>>& points) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, seconds] : points) {
    n += 1;
    x += bytes;
    y += seconds;
    xx += bytes * bytes;
    xy += bytes * seconds;
  }
  const double beta = (n * xy - x * y) / (n * xx - x * x);
  return {Seconds((y - beta * x) / n), SecondsPerByte(beta)};
}

/// eq. (12) for a collective whose message is that of the problem with up to 16 times the tokens.
template <class Message>
AlphaBeta fitted(ParmProblem problem, const Cluster& cluster, ParmCollective collective, Message message) {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 5; ++i, problem.B *= 2) {
    const Bytes n = message(problem);
    points.emplace_back(n.value(), parm_costs(problem, cluster)(collective, n).value());
  }
  return line_through(points);
}

ParmForms parm_forms(const ParmProblem& p, const Cluster& cluster) {
  const ParmCosts costs = parm_costs(p, cluster);
  ParmForms out{.input = p.blm(),
                .dispatched = p.etm(),
                .exchanged = p.y(),
                .baseline = parm_baseline_time(p, costs),
                .s1 = parm_s1_time(p, costs),
                .s2 = parm_s2_time(p, costs),
                .in_turn = parm_s2_time_in_turn(p, costs),
                .choice = {}};
  if (p.N_MP == 1) return out;
  const auto y = [](const ParmProblem& at) { return at.y(); };
  const auto blm = [](const ParmProblem& at) { return at.blm(); };
  const AlphaBeta all_to_all = fitted(p, cluster, ParmCollective::AllToAllEpEsp, y),
                  all_gather = fitted(p, cluster, ParmCollective::AllGatherMp, blm),
                  overlapped = fitted(p, cluster, ParmCollective::Overlapped, y);
  out.choice = {parm_t_d1(p, all_to_all, all_gather), parm_t_d2(p, all_to_all, overlapped),
                parm_choice(p, all_to_all, all_gather, overlapped)};
  return out;
}

std::optional<PipeForms> pipe_forms(const ParmProblem& p, const Cluster& cluster, GroupFamily ep) {
  Program scratch;
  scratch.ranks_per_node = cluster.ranks_per_node();
  const std::int64_t inside = members_per_node(scratch, ep);
  const std::int64_t nodes = ep.size / inside;
  if (inside == 1 || nodes == 1 || ep.size % inside != 0) return std::nullopt;
  const auto time = [&](std::int64_t first, std::int64_t count) {
    return group_part_time(cluster, p.P, {.first = first, .count = count, .of = nodes}, ep.size, ep.stride, p.etm());
  };
  return PipeForms{time(0, 1), time(1, nodes - 1)};
}

std::optional<LayerOverlap> layer_overlap(std::span<const LayerPoint> points) {
  if (points.empty() || points.front().name != "this plan") return std::nullopt;
  const DdlRoofline& r = points.front().roofline;
  const Seconds in_turn = r.computation + r.communication, time = points.front().makespan.seconds();
  return LayerOverlap{in_turn, time, in_turn - time, in_turn / std::max(r.computation, r.communication)};
}

}  // namespace

PaperForms paper_forms(const Problem& problem, const Candidate& plan, std::span<const LayerPoint> points) {
  PaperForms out;
  const LayerSpec* layer = problem.first_moe_layer();
  if (!layer) return out;
  out.overlap = layer_overlap(points);
  const Degrees& d = plan.degrees;
  const Cluster& cluster = problem.first_stage(plan);
  Program groups;
  const GroupFamily ep = groups.group(add_groups(groups, d, plan.rank_order).ep);
  const bool has_neighbouring_shards = plan.rank_order == RankOrder::Megatron;
  if (d.ep * d.esp == 1 || !has_neighbouring_shards) return out;
  const ParmProblem p = parm_problem(problem, std::get<Moe>(layer->ffn), d, plan.micro_batch);
  out.parm = parm_forms(p, cluster);
  out.pipe = pipe_forms(p, cluster, ep);
  return out;
}

}  // namespace moeplan::planner
