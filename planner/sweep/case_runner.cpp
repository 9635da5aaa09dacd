#include "planner/sweep/case_runner.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>

#include "model/base/sha256.hpp"
#include "model/base/whole_numbers.hpp"
#include "model/costs/memory.hpp"
#include "model/text/unit_text.hpp"
#include "model/text/unreadable_file.hpp"
#include "model/workload/routing_statistics.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/fixed_decisions.hpp"
#include "planner/plan/plan.hpp"
#include "planner/report/json_parts.hpp"
#include "planner/search/enumeration.hpp"
#include "planner/search/place_experts.hpp"
#include "planner/search/search.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::sweep {

namespace {

/// The values from which outputs are taken.
struct Measures {
  planner::Candidate candidate;
  std::optional<SimTime> makespan = {};
  Estimate estimate = {};
  std::optional<MemoryUse> memory = {};
  std::optional<RankTime> binding = {};
  std::optional<planner::Throughput> rate = {};
  std::optional<double> balance_degree = {};
  const planner::SearchResult* search = nullptr;
};

Cell decision_cell(const planner::Candidate& candidate, const std::string& name) {
  const planner::Json decision = planner::decision_json(candidate);
  const planner::Json& value = decision.at(name);
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "true" : "false";
  if (value.is_number_integer()) return value.get<std::int64_t>();
  return value.get<double>();
}

Cell output(const std::string& name, const Measures& m) {
  const double makespan = m.makespan ? m.makespan->seconds().value() : 0;
  if (name == "makespan_s") return makespan;
  if (name == "closed_form_s") return m.estimate.closed_form.value();
  if (name == "schedule_bound_s") return m.estimate.lower_bound.value();
  if (name == "schedule_gap") return makespan / m.estimate.lower_bound.value() - 1;
  if (name == "compute_s") return m.binding->compute.value();
  if (name == "exposed_communication_s") return m.binding->exposed_communication.value();
  if (name == "memory_bytes") return static_cast<std::int64_t>(m.memory->total().value());
  if (name == "balance_degree") return *m.balance_degree;
  if (name == "tokens_per_s_per_gpu") return m.rate->tokens_per_s_per_gpu;
  if (name == "model_flops_utilization") return m.rate->model_flops_utilization;
  if (name == "lower_bound_s") return m.search->global_bound.value();
  if (name == "optimality_gap") return makespan / m.search->global_bound.value() - 1;
  if (name == "enumerated") return m.search->enumerated;
  if (name == "feasible") return std::int64_t{std::ssize(m.search->ranked)};
  if (name == "simulated") return m.search->simulated;
  return decision_cell(m.candidate, name);
}

/// The largest balance degree of the candidate's MoE layers.
double largest_balance_degree(const ModelSpec& model, const Workload& workload, const Cluster& stage,
                              const planner::Candidate& c) {
  const std::vector<planner::PlacedLayer> layers =
      planner::placed_layers(model, workload, stage, c, c.redundant_experts);
  double most = 0;
  for (std::size_t kind = 0; kind < layers.size(); ++kind) {
    const planner::PlacedLayer& l = layers[kind];
    const planner::Placement place = c.expert_places.empty()
                                         ? planner::contiguous_placement(l.counts.experts(), l.devices.ranks)
                                         : c.expert_places[kind];
    most = std::max(most, balance_degree(planner::rank_loads(l.counts, place, l.devices)));
  }
  return most;
}

/// The memory of a layer alone: its buffers, and the weights, gradients and optimizer states of the rank's experts.
MemoryUse layer_memory(const Program& program, const ModelSpec& model, const Workload& workload, const Cluster& cluster,
                       const planner::Candidate& c) {
  const LayerSpec& layer = model.layers.front().pattern.front();
  UnitParameters experts{.expert = layer_parameters(model, layer, c.degrees).expert};
  const auto own = static_cast<double>(ceil_div(std::get<Moe>(layer.ffn).num_experts, c.degrees.ep));
  if (!planner::holds_contiguous_experts(c))
    experts.copied = experts.expert / own * static_cast<double>(c.redundant_experts);
  return memory_use(program, {{experts, experts}}, workload, c.degrees, cluster.gpu.runtime_memory);
}

/// Runs one case. The result depends only on the arguments.
class OneCase {
 public:
  OneCase(const SweepSpec& sweep, const Cluster& cluster, const ModelSpec& model, const Workload& workload,
          const std::vector<Assignment>& decisions, int threads, const std::atomic<bool>& stop)
      : sweep_(sweep),
        problem_(model, workload, cluster),
        cluster_(cluster),
        model_(model),
        workload_(workload),
        decisions_(decisions),
        threads_(threads),
        stop_(stop) {}

  CaseOutcome run() {
    out_.gpus = std::int64_t{cluster_.gpus()};
    out_.tokens = workload_.global_batch * workload_.sequence_length;
    out_.outputs.resize(sweep_.outputs.size());
    switch (sweep_.kind) {
      case SweepKind::Plan: plan(); break;
      case SweepKind::Candidate: candidate(); break;
      case SweepKind::Layer: layer(); break;
    }
    return std::move(out_);
  }

 private:
  bool wants(std::initializer_list<std::string_view> names) const {
    return std::any_of(sweep_.outputs.begin(), sweep_.outputs.end(), [&](const std::string& output) {
      return std::find(names.begin(), names.end(), output) != names.end();
    });
  }
  bool wants_classes() const { return wants({"compute_s", "exposed_communication_s"}); }
  bool wants_time() const {
    return wants_classes() || wants({"makespan_s", "schedule_gap", "tokens_per_s_per_gpu", "model_flops_utilization"});
  }

  void cannot(std::string reason) {
    out_.status = CaseStatus::Infeasible;
    out_.reason = std::move(reason);
  }

  void keep(const Measures& m) {
    std::transform(sweep_.outputs.begin(), sweep_.outputs.end(), out_.outputs.begin(),
                   [&](const std::string& name) { return output(name, m); });
  }

  void plan() {
    planner::SearchSpace space;
    space.threads = threads_;
    space.most_simulated = sweep_.budget;
    space.placements.emplace();
    Node fixed = Node::map();
    for (const Assignment& a : decisions_) fixed.set(a.key, Node::plain(a.value));
    Diagnostics wrong;
    planner::fix_decisions(fixed, space, wrong);
    wrong.throw_if_any();
    planner::check_dispatcher(space, cluster_, "all_to_all");
    planner::check_codec(space, workload_, "codec");
    const planner::SearchResult result =
        planner::search(problem_, space, [&](std::int64_t, std::int64_t) { check_stop(); });
    if (result.ranked.empty()) return cannot(why_nothing(result));
    const planner::Evaluated& best = result.ranked.front();
    Measures m{.candidate = best.candidate,
               .makespan = best.makespan,
               .estimate = best.estimate,
               .memory = best.memory,
               .rate = planner::throughput(problem_, best.candidate, *best.makespan),
               .search = &result};
    if (wants_classes()) m.binding = predict(problem_, best.candidate).binding;
    keep(m);
  }

  std::string why_nothing(const planner::SearchResult& result) const {
    if (result.enumerated == 0)
      return fmt::format("no division of the {} ranks has these degrees", cluster_.world_size());
    std::vector<std::pair<std::string, std::int64_t>> reasons(result.rejected.begin(), result.rejected.end());
    std::stable_sort(reasons.begin(), reasons.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    std::string text;
    for (const auto& [reason, count] : reasons)
      text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", reason, count);
    if (result.nearest_miss) text += "; nearest: " + memory_reason(result.nearest_miss->memory);
    return text;
  }

  std::string memory_reason(const MemoryUse& memory) const {
    return fmt::format("memory: {} GiB of {}", gib(memory.total()), gib(cluster_.memory_per_rank()));
  }

  /// The candidate for the case's decisions. Degrees that are not set follow from the number of ranks: dp and edp take
  /// the remaining ranks, the others are 1.
  std::optional<planner::Candidate> decided() {
    Node d = planner::decision_document({});
    for (const Assignment& a : decisions_) d.set(a.key, Node::plain(a.value));
    const auto is_set = [&](std::string_view key) {
      return std::any_of(decisions_.begin(), decisions_.end(), [&](const Assignment& a) { return a.key == key; });
    };
    if (!is_set("micro_batch") && workload_.micro_batch) d.set("micro_batch", Node::integer(*workload_.micro_batch));
    if (!is_set("micro_batch") && !workload_.micro_batch) {
      throw InputError({{}, "workload.micro_batch", "is auto; a sweep without search needs a number"});
    }
    Diagnostics wrong;
    planner::Candidate c = planner::read_decision(MapReader(d, "", wrong));
    wrong.throw_if_any();
    if (workload_.recompute) c.recompute = *workload_.recompute;
    const std::int64_t world = cluster_.world_size();
    Degrees& g = c.degrees;
    // Each of these products is at most 2^40.
    if (!is_set("dp")) g.dp = std::max<std::int64_t>(1, world / (g.pp * g.cp) / g.tp);
    if (!is_set("edp")) g.edp = std::max<std::int64_t>(1, world / (g.pp * g.ep) / g.esp);
    const auto makes_world = [&](std::initializer_list<std::int64_t> degrees) {
      std::int64_t product = 1;
      for (const std::int64_t degree : degrees) {
        if (product > world) break;
        product *= degree;
      }
      return product == world;
    };
    if (makes_world({g.pp, g.dp, g.cp, g.tp}) && makes_world({g.pp, g.edp, g.ep, g.esp})) return c;
    cannot(
        fmt::format("the degrees do not make {} ranks: pp {} x dp {} x cp {} x tp {}, pp {} x edp {} x ep {} x esp {}",
                    world, g.pp, g.dp, g.cp, g.tp, g.pp, g.edp, g.ep, g.esp));
    return std::nullopt;
  }

  /// The least recomputation with which the candidate fits, or else the most.
  Recompute least_recompute(planner::Candidate c) const {
    for (const Recompute& level : planner::recompute_levels(problem_, {})) {
      c.recompute = level;
      const auto reason = evaluate(problem_, c, planner::Depth::Memory).infeasibility;
      if (!reason || reason->constraint != Constraint::Memory) break;
    }
    return c.recompute;
  }

  void candidate() {
    std::optional<planner::Candidate> c = decided();
    if (!c) return;
    if (!workload_.recompute) c->recompute = least_recompute(*c);
    if (const auto reason = evaluate(problem_, *c, planner::Depth::Feasibility).infeasibility)
      return cannot(reason->text);
    if (!place_experts(*c, workload_, problem_.first_stage(*c), planner::PlacementGoal::Iteration)) return;
    check_stop();
    const planner::Depth depth = wants_classes() ? planner::Depth::Timeline
                                 : wants_time()  ? planner::Depth::Makespan
                                                 : planner::Depth::Estimate;
    const planner::Evaluation e = evaluate(problem_, *c, depth);
    if (e.infeasibility) {
      const bool is_memory = e.infeasibility->constraint == Constraint::Memory;
      return cannot(is_memory ? memory_reason(e.evaluated.memory) : e.infeasibility->text);
    }
    Measures m{.candidate = *c,
               .makespan = e.evaluated.makespan,
               .estimate = e.evaluated.estimate,
               .memory = e.evaluated.memory};
    if (wants_classes()) m.binding = binding_rank(rank_times(e.program, e.timeline));
    if (wants({"balance_degree"}))
      m.balance_degree = largest_balance_degree(model_, workload_, problem_.first_stage(*c), *c);
    if (m.makespan) m.rate = planner::throughput(problem_, m.candidate, *m.makespan);
    keep(m);
  }

  void layer() {
    std::optional<planner::Candidate> c = decided();
    if (!c) return;
    const Moe& moe = std::get<Moe>(model_.layers.front().pattern.front().ffn);
    const Workload workload = one_microbatch(*c);
    const std::int64_t tokens = workload.sequence_length;
    out_.tokens = tokens * c->degrees.dp;
    if (const auto reason = layer_infeasibility(workload, *c)) return cannot(reason->text);
    if (!place_experts(*c, workload, cluster_, planner::PlacementGoal::LayerAlone)) return;
    if (const auto reason = layer_infeasibility(workload, *c)) return cannot(reason->text);
    const Program program = planner::lower_moe_layer(moe, moe.row_columns(model_.hidden_size), tokens, workload, *c,
                                                     cluster_.ranks_per_node());
    Measures m{.candidate = *c};
    if (wants({"closed_form_s", "schedule_bound_s", "schedule_gap"})) m.estimate = estimate(program, cluster_);
    if (wants({"balance_degree"})) m.balance_degree = largest_balance_degree(model_, workload, cluster_, *c);
    if (wants({"memory_bytes"})) m.memory = layer_memory(program, model_, workload, cluster_, *c);
    if (wants_time()) {
      check_stop();
      take_time(m, program, sim::simulate(program, cluster_, {.keep_spans = wants_classes()}));
    }
    keep(m);
  }

  /// Places experts with the candidate's strategy by the closed form; false if it has no placement.
  bool place_experts(planner::Candidate& c, const Workload& workload, const Cluster& stage,
                     planner::PlacementGoal goal) {
    if (c.placement == planner::kContiguous) return true;
    planner::PlacedCandidate placed =
        planner::with_placement(model_, workload, stage, c, c.placement, c.redundant_experts, goal);
    if (placed.infeasibility) cannot(placed.infeasibility->text);
    if (!placed.infeasibility) c.expert_places = std::move(placed.candidate.expert_places);
    return !placed.infeasibility;
  }

  /// The workload with one microbatch per iteration: the layer and the transfers of its copies run once.
  Workload one_microbatch(const planner::Candidate& c) const {
    Workload workload = workload_;
    workload.global_batch = c.degrees.dp * c.micro_batch;
    return workload;
  }

  /// The infeasibility of an iteration with this layer and an attention that any tp divides.
  std::optional<Infeasibility> layer_infeasibility(const Workload& workload, const planner::Candidate& c) const {
    ModelSpec model = model_;
    model.attention = HeadAttention{.num_heads = c.degrees.tp,
                                    .num_kv_heads = c.degrees.tp,
                                    .head_dim = 1,
                                    .bias = false,
                                    .qk_norm = false,
                                    .sinks = false};
    return planner::infeasibility(model, workload, c, cluster_.ranks_per_node());
  }

  void take_time(Measures& m, const Program& program, const Timeline& timeline) const {
    m.makespan = timeline.makespan;
    if (wants_classes()) m.binding = binding_rank(rank_times(program, timeline));
  }

  void check_stop() const {
    if (stop_) throw Interrupted{};
  }

  const SweepSpec& sweep_;
  const planner::Problem problem_;
  const Cluster& cluster_;
  const ModelSpec& model_;
  const Workload& workload_;
  const std::vector<Assignment>& decisions_;
  int threads_;
  const std::atomic<bool>& stop_;
  CaseOutcome out_;
};

/// The model reduced to its first MoE layer.
ModelSpec first_moe_layer(ModelSpec model) {
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      if (!std::holds_alternative<Moe>(layer.ffn)) continue;
      model.layers = {RepeatedLayers{.repeat = 1, .pattern = {{.attention_window = 0, .ffn = layer.ffn}}}};
      return model;
    }
  }
  throw InputError({{}, "model", "has no MoE layer"});
}

/// The workload with a rank's tokens as a single sequence.
Workload tokens_of_a_rank(Workload workload) {
  if (!workload.micro_batch) {
    throw InputError({{}, "workload.micro_batch", "is auto; a sweep of single layers needs a number"});
  }
  workload.sequence_length *= *workload.micro_batch;
  workload.micro_batch = 1;
  workload.global_batch = 1;
  workload.zero_stage = 0;
  workload.optimizer = Optimizer::Adam;
  return workload;
}

/// The workload with the `recompute` that the sweep sets instead of its own.
Workload with_decided_recompute(Workload workload, const std::vector<Assignment>& decisions, SweepKind kind) {
  const auto decision =
      std::find_if(decisions.begin(), decisions.end(), [](const Assignment& a) { return a.key == "recompute"; });
  if (kind == SweepKind::Plan || decision == decisions.end()) return workload;
  Node settings = Node::map();
  settings.set("recompute", Node::plain(decision->value));
  Diagnostics wrong;
  MapReader reader(settings, "", wrong);
  const Recompute recompute = read_recompute(reader);
  wrong.throw_if_any();
  const auto refuse = [&](const char* why) {
    throw InputError({{}, "recompute", fmt::format("{} {}", in_quotes(decision->value), why)});
  };
  if (recompute != Recompute::None && workload.mode == Mode::Forward)
    refuse("has no effect on a forward workload; expected none");
  if (recompute == Recompute::Full && kind == SweepKind::Layer)
    refuse("is of an iteration, whose backward runs whole layers again; a layer alone takes none or selective");
  workload.recompute = recompute;
  return workload;
}

std::string one_line(const InputError& e) {
  std::string text;
  for (const Diagnostic& d : e.diagnostics()) text += (text.empty() ? "" : "; ") + d.text();
  return text;
}

}  // namespace

CaseOutcome CaseRunner::outcome_of(const CaseInputs& inputs, const std::atomic<bool>& stop) {
  ModelSpec model = inputs.model->value;
  Workload workload = inputs.workload->value;
  model.name = workload.name = "";
  if (workload.capacity_factor) workload.routing = {};
  workload = with_decided_recompute(std::move(workload), inputs.decisions, sweep_.kind);
  if (sweep_.kind == SweepKind::Layer) {
    model = first_moe_layer(std::move(model));
    workload = tokens_of_a_rank(std::move(workload));
  }
  const std::string key = sha256(fmt::format("{}\n{}\n{}\n{}", inputs.cluster->digest, to_yaml(model_document(model)),
                                             to_yaml(workload_document(workload)), text_of(inputs.decisions)));
  ++asked_;
  return *outcomes_.get(key, [&] {
    ++computed_;
    return OneCase(sweep_, inputs.cluster->value, model, workload, inputs.decisions, threads_, stop).run();
  });
}

CaseResult CaseRunner::run(std::int64_t number, const std::atomic<bool>& stop) {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t place = sweep_.cases[static_cast<std::size_t>(number)];
  CaseResult result{.number = number, .key = {}, .settings = sweep_.cells_at(place), .outcome = {}, .wall_s = 0};
  result.settings.erase(result.settings.begin(), result.settings.begin() + std::ssize(sweep_.base));
  try {
    const CaseInputs inputs = resolver_.resolved(place);
    result.key = inputs.key;
    result.outcome = outcome_of(inputs, stop);
  } catch (const UnreadableFile&) {
    throw;  // no result of the case: another attempt can succeed
  } catch (const InputError& e) {
    if (result.key.empty()) result.key = resolver_.key_of_unreadable(place);
    result.outcome = {.status = CaseStatus::BadInput, .reason = one_line(e)};
    result.outcome.outputs.resize(sweep_.outputs.size());
  }
  result.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace moeplan::sweep
