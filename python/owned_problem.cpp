#include "python/owned_problem.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "model/text/reader.hpp"
#include "planner/lowering/feasibility.hpp"

namespace moeplan::python {

namespace {

planner::Candidate read_candidate(const std::string& decision) {
  const Node document = parse_json(decision, "decision");
  Diagnostics wrong;
  planner::Candidate candidate = planner::read_decision(MapReader(document, "", wrong));
  wrong.throw_if_any();
  return candidate;
}

/// The holders of a matrix; the home of an expert is the position with its largest share. Raises InputError.
planner::Placement placement_of(const Matrix& matrix, const std::string& key) {
  planner::Placement placement{.nearest = planner::Nearest::Off, .experts = {}};
  for (std::int64_t e = 0; e < matrix.rows; ++e) {
    planner::ExpertPlacement place;
    std::int64_t most = 0;
    for (std::int64_t r = 0; r < matrix.columns; ++r) {
      const std::int64_t share = matrix.at(e, r);
      if (share < 0) throw_input_error({key}, fmt::format("[{}][{}]", e, r), fmt::format("{} is negative", share));
      if (share == 0) continue;
      const RankId rank(static_cast<std::int32_t>(r));
      planner::add_holder(place, rank, share);
      if (share > most) place.home = rank;
      most = std::max(most, share);
    }
    if (most == 0) throw_input_error({key}, fmt::format("[{}]", e), "no position holds this expert");
    placement.experts.push_back(std::move(place));
  }
  return placement;
}

}  // namespace

Node OwnedProblem::default_decision() const {
  planner::Candidate candidate;
  candidate.recompute = job_.inputs.workload.recompute.value_or(Recompute::None);
  return planner::decision_document(candidate);
}

void OwnedProblem::check(const planner::Candidate& candidate) const {
  const Degrees& d = candidate.degrees;
  const std::int64_t world = job_.cluster.world_size();
  Diagnostics wrong;
  if (d.world() != world) {
    wrong.add({"decision"}, "pp, dp, cp, tp",
              fmt::format("{} x {} x {} x {} is not the {} GPUs", d.pp, d.dp, d.cp, d.tp, world));
  }
  if (d.pp * d.edp * d.ep * d.esp != world) {
    wrong.add({"decision"}, "pp, edp, ep, esp",
              fmt::format("{} x {} x {} x {} is not the {} GPUs", d.pp, d.edp, d.ep, d.esp, world));
  }
  const Workload& workload = job_.inputs.workload;
  if (workload.recompute && *workload.recompute != candidate.recompute) {
    wrong.add({"decision"}, "recompute",
              fmt::format("{} contradicts the workload's, {}; override it with workload.recompute=auto",
                          in_quotes(name_of(candidate.recompute)), in_quotes(name_of(*workload.recompute))));
  }
  wrong.throw_if_any();
}

std::vector<planner::Placement> OwnedProblem::placements_of(const planner::Candidate& candidate,
                                                            const std::vector<Matrix>& matrices) const {
  const std::vector<planner::PlacedLayer> layers = planner::placed_layers(
      job_.inputs.model, job_.inputs.workload, job_.cluster, candidate, candidate.redundant_experts);
  if (matrices.size() != 1 && matrices.size() != layers.size()) {
    throw_input_error({"placement"}, "",
                      fmt::format("has {} matrices; expected 1, or one for each of {} kinds of MoE layers",
                                  matrices.size(), layers.size()));
  }
  std::vector<planner::Placement> placements;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    const Matrix& matrix = matrices.size() == 1 ? matrices.front() : matrices[kind];
    const std::string key = fmt::format("placement[{}]", kind);
    const std::int64_t experts = layers[kind].counts.experts();
    if (matrix.rows != experts || matrix.columns != candidate.degrees.ep) {
      throw_input_error(
          {key}, "",
          fmt::format("is {} x {}; expected a row for each of {} experts, a column for each of {} positions",
                      matrix.rows, matrix.columns, experts, candidate.degrees.ep));
    }
    placements.push_back(placement_of(matrix, key));
    if (const auto error = planner::placement_error(placements.back(), layers[kind].devices, experts))
      throw_input_error({key}, "", *error + "; see redundant_experts");
  }
  return placements;
}

planner::Candidate OwnedProblem::candidate(const std::string& decision, const OwnSchedule* schedule,
                                           const std::vector<Matrix>& placements) const {
  planner::Candidate c = read_candidate(decision);
  check(c);
  if (schedule) c.schedule = *schedule;
  if (placements.empty()) return c;
  if (const auto reason = planner::infeasibility(job_.inputs.model, job_.inputs.workload, c, problem_.ranks_per_node()))
    throw_input_error({"decision"}, "", fmt::format("cannot be lowered: {}", reason->text));
  c.expert_places = placements_of(c, placements);
  c.placement = "auto";  // a placement that serves many iterations
  return c;
}

std::vector<Matrix> OwnedProblem::loads(const std::string& decision) const {
  const planner::Candidate c = candidate(decision, nullptr, {});
  if (const auto reason = planner::infeasibility(job_.inputs.model, job_.inputs.workload, c, problem_.ranks_per_node()))
    throw_input_error({"decision"}, "", fmt::format("cannot be lowered: {}", reason->text));
  std::vector<Matrix> out;
  for (const planner::PlacedLayer& layer :
       planner::placed_layers(job_.inputs.model, job_.inputs.workload, job_.cluster, c, c.redundant_experts)) {
    const RoutingCounts& counts = layer.counts;
    Matrix matrix{.rows = counts.sources(), .columns = counts.experts(), .values = {}};
    for (std::int64_t s = 0; s < matrix.rows; ++s) {
      for (std::int64_t e = 0; e < matrix.columns; ++e)
        matrix.values.push_back(
            counts.at(RankId(static_cast<std::int32_t>(s)), ExpertId(static_cast<std::int32_t>(e))));
    }
    out.push_back(std::move(matrix));
  }
  return out;
}

}  // namespace moeplan::python
