#include "planner/report/placement_payoff.hpp"

#include <algorithm>

#include "model/workload/routing_statistics.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/migration_program.hpp"
#include "planner/placement/slots.hpp"
#include "sim/program/simulate_stages.hpp"

namespace moeplan::planner {

namespace {

class Question {
 public:
  Question(const Problem& problem, const Candidate& candidate)
      : problem_(problem),
        model_(problem.model()),
        workload_(problem.workload()),
        candidate_(candidate),
        stage_(problem.first_stage(candidate)),
        layers_(placed_layers(model_, workload_, stage_, candidate, candidate.redundant_experts)),
        plain_(candidate) {
    plain_.placement = kContiguous;
    plain_.redundant_experts = 0;
    plain_.expert_places.clear();
  }

  [[nodiscard]] bool is_uneven() const { return imbalance(layers_) > kUnevenLoads; }

  std::optional<PlacementPayoff> answer(const Prediction& prediction) {
    PlacementPayoff w{};
    const bool is_placed = !candidate_.expert_places.empty();
    const std::optional<SimTime> contiguous = time_of(plain_, prediction);
    if (!contiguous) return std::nullopt;  // it does not fit: nothing to compare with
    w.strategy = is_placed ? candidate_.placement.name() : "auto";
    const std::vector<std::int64_t> redundant = counts_to_try();
    std::vector<Candidate> tried;
    for (const std::int64_t n : redundant) {
      tried.push_back(candidate_.redundant_experts == n && is_placed ? candidate_ : placed(w.strategy, n));
      w.curve.push_back({n, memory_of(tried.back()), time_of(tried.back(), prediction)});
    }
    w.contiguous = *contiguous;
    const Candidate* chosen = &candidate_;
    w.placed = prediction.makespan;
    if (!is_placed) {
      std::optional<SimTime> best;
      for (std::size_t i = 0; i < tried.size(); ++i) {
        if (!w.curve[i].makespan || (best && *best <= *w.curve[i].makespan)) continue;
        best = w.placed = *w.curve[i].makespan;
        chosen = &tried[i];
      }
    }
    w.redundant_experts = chosen->redundant_experts;
    w.memory = memory_of(*chosen);
    w.imbalance_before = imbalance(layers_);
    w.imbalance = imbalance(layers_, chosen->expert_places);
    note_forms(*chosen, w);
    if (is_placed) note_transfers(prediction, w);
    if (!is_placed && !chosen->expert_places.empty()) note_transfers(predict(problem_, *chosen), w);
    w.migration = migration_of(*chosen);
    if (w.gain() > Seconds(0)) w.break_even = w.migration / w.gain();
    if (workload_.recorded && w.gain() > Seconds(0)) note_how_long(*chosen, w);
    return w;
  }

 private:
  std::vector<std::int64_t> counts_to_try() const {
    std::vector<std::int64_t> out{0, 1, 2, 4, 8};
    out.push_back(candidate_.redundant_experts);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }

  Candidate placed(const std::string& strategy, std::int64_t redundant) const {
    constexpr std::int64_t kMostRanks = 64;
    const PlacementGoal goal = goal_within_iteration(std::ssize(layers_), candidate_, kMostRanks);
    PlacedCandidate p = with_placement(model_, workload_, stage_, plain_, strategy, redundant, goal);
    p.candidate.redundant_experts = redundant;
    return p.candidate;
  }

  std::optional<SimTime> time_of(const Candidate& c, const Prediction& prediction) {
    if (c == candidate_) return prediction.makespan;
    if (c.placement != kContiguous && c.expert_places.empty()) return std::nullopt;  // it has no placement
    return evaluate(problem_, c, Depth::Makespan).evaluated.makespan;
  }

  Bytes memory_of(const Candidate& c) const {
    const std::vector<StageParameters> with = stage_parameters(model_, workload_, c),
                                       without = stage_parameters(model_, workload_, plain_);
    Bytes most;
    for (std::size_t s = 0; s < with.size(); ++s) {
      most = std::max(most, state_memory(with[s], workload_, c.degrees).total() -
                                state_memory(without[s], workload_, c.degrees).total());
    }
    return most;
  }

  Seconds migration_of(const Candidate& c) {
    const Program moving = migration_program(model_, workload_, c, /*from=*/{}, problem_.ranks_per_node());
    if (moving.blocks.empty()) return Seconds(0);
    return sim::simulate(moving, problem_.stage_clusters(), {.keep_spans = false}).makespan.seconds();
  }

  /// Sets the closed forms of the layer whose loads are least even with contiguous experts.
  void note_forms(const Candidate& c, PlacementPayoff& w) const {
    double most = 0;
    for (std::size_t k = 0; k < layers_.size(); ++k) {
      const PlacedLayer& l = layers_[k];
      const Placement contiguous = contiguous_placement(l.counts.experts(), l.devices.ranks);
      const double uneven = max_over_mean(rank_loads(l.counts, contiguous, l.devices));
      if (uneven <= most) continue;
      most = uneven;
      w.forms_before = placement_forms(l.counts, contiguous, l.devices);
      w.forms = c.expert_places.empty() ? w.forms_before : placement_forms(l.counts, c.expert_places[k], l.devices);
    }
  }

  static void note_transfers(const Prediction& p, PlacementPayoff& w) {
    w.weights = p.binding.total(OpClass::ExpertTransfer);
    w.gradients = p.binding.total(OpClass::ExpertGradientTransfer);
  }

  /// Sets the lifetime by the closed form, over the whole trace.
  void note_how_long(const Candidate& c, PlacementPayoff& w) const {
    const RoutingTrace trace = read_routing_trace(workload_.recorded->file);
    const auto numbers = trace.iterations();
    const auto first = std::find(numbers.begin(), numbers.end(), workload_.recorded->iteration);
    w.lasts = 0;
    for (auto it = first; it != numbers.end(); ++it) {
      const auto index = static_cast<std::size_t>(it - numbers.begin());
      Workload then = workload_;
      then.recorded->counts = one_iteration(trace, index);
      Seconds gain{};
      const std::vector<PlacedLayer> layers = placed_layers(model_, then, stage_, candidate_, c.redundant_experts);
      for (std::size_t k = 0; k < layers.size(); ++k) {
        const PlacedLayer& l = layers[k];
        const Placement contiguous = contiguous_placement(l.counts.experts(), l.devices.ranks);
        gain += layer_time(l.counts, contiguous, l.devices).total -
                layer_time(l.counts, c.expert_places[k], l.devices).total;
      }
      if (gain <= Seconds(0)) return;
      w.lasts = *it - workload_.recorded->iteration;
    }
    w.outlasts_trace = true;
  }

  const Problem& problem_;
  const ModelSpec& model_;
  const Workload& workload_;
  const Candidate& candidate_;
  const Cluster& stage_;
  std::vector<PlacedLayer> layers_;
  Candidate plain_;
};

}  // namespace

bool PlacementPayoff::breaks_even() const {
  if (!break_even) return false;
  return !lasts || outlasts_trace || static_cast<double>(*lasts) >= *break_even;
}

std::optional<std::int64_t> PlacementPayoff::best_redundancy() const {
  std::optional<std::int64_t> best;
  SimTime least = contiguous;
  for (const RedundantExperts& r : curve) {
    if (!r.makespan || !(*r.makespan < least)) continue;
    least = *r.makespan;
    best = r.redundant;
  }
  return best;
}

std::optional<PlacementPayoff> placement_payoff(const Problem& problem, const Candidate& candidate,
                                                const Prediction& prediction, std::int64_t most_ranks) {
  const bool is_placed = !candidate.expert_places.empty();
  if (problem.model().num_moe_layers() == 0 || candidate.degrees.ep == 1) return std::nullopt;
  const bool has_even_loads = problem.workload().capacity_factor.has_value();
  if (!is_placed && (candidate.degrees.ranks_per_stage() > most_ranks || has_even_loads)) return std::nullopt;
  Question question(problem, candidate);
  if (!is_placed && !question.is_uneven()) return std::nullopt;
  return question.answer(prediction);
}

}  // namespace moeplan::planner
