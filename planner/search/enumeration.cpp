#include "planner/search/enumeration.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/frameworks/supported.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"

namespace moeplan::planner {

namespace {

std::vector<std::int64_t> divisors(std::int64_t n) {
  std::vector<std::int64_t> low, high;
  for (std::int64_t d = 1; d * d <= n; ++d) {
    if (n % d != 0) continue;
    low.push_back(d);
    if (d != n / d) high.push_back(n / d);
  }
  low.insert(low.end(), high.rbegin(), high.rend());
  return low;
}

bool allowed(const std::optional<std::int64_t>& fixed, std::int64_t value) { return !fixed || *fixed == value; }

/// Those of the modules that the model's layers have, or whole layers.
Recompute of_model(const Recompute& recompute, const ModelSpec& model) {
  if (recompute.has(RecomputeModule::WholeLayer)) return recompute;
  Recompute out;
  const auto add = [&](RecomputeModule module, bool is_there) {
    if (is_there && recompute.has(module)) out.add(module);
  };
  for (const RepeatedLayers& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      const TokenMixer& mixer = mixer_of(model, layer);
      const auto* heads = std::get_if<HeadAttention>(&mixer);
      const auto* moe = std::get_if<Moe>(&layer.ffn);
      const bool has_latents = std::holds_alternative<LatentAttention>(mixer), is_dense = !moe && has_ffn(layer),
                 has_shared = moe && moe->shared.hidden_size > 0;
      add(RecomputeModule::CoreAttention, heads || has_latents);
      add(RecomputeModule::MlaUpProjection, has_latents);
      add(RecomputeModule::Mlp, is_dense);
      add(RecomputeModule::Layernorm, true);
      add(RecomputeModule::MoeActivation, moe);
      add(RecomputeModule::Moe, moe);
      add(RecomputeModule::SharedExperts, has_shared);
      add(RecomputeModule::FfnActivation, is_dense || has_shared);
      add(RecomputeModule::Projections, heads && !heads->bias);
    }
  }
  return out;
}

std::int64_t gpus_per_node(const Cluster& cluster) {
  std::int64_t most = 0;
  std::map<int, std::int64_t> counts;
  for (const int node : cluster.node_of_rank) most = std::max(most, ++counts[node]);
  return most;
}

/// Weights and states of the fullest stage.
MemoryUse least_memory(const Problem& problem, const Candidate& c) {
  MemoryUse most{};
  for (const StageParameters& stage : stage_parameters(problem.model(), problem.workload(), c)) {
    const MemoryUse use = state_memory(stage, problem.workload(), c.degrees);
    if (use.total() > most.total()) most = use;
  }
  return most;
}

class Enumerator {
 public:
  Enumerator(const Problem& problem, const SearchSpace& space)
      : problem_(problem), space_(space), node_(gpus_per_node(problem.cluster())) {}

  /// Those with `pp` stages.
  Enumeration of(std::int64_t pp) {
    const std::int64_t stage = problem_.cluster().world_size() / pp;
    if (stage % problem_.cluster().ranks_per_gpu == 0 || pp == 1) {
      add_degrees(pp, stage);
    } else {
      ++out_.enumerated;
      reject("pipeline stages would share a GPU");
    }
    return std::move(out_);
  }

 private:
  void reject(const std::string& reason) { ++out_.rejected[reason]; }

  /// All degrees of stages of `stage` ranks.
  void add_degrees(std::int64_t pp, std::int64_t stage) {
    for (const std::int64_t cp : divisors(stage)) {
      if (!allowed(space_.cp, cp) || (!space_.cp && cp > most_context_parallel(problem_.workload()))) continue;
      for (const std::int64_t tp : divisors(stage / cp)) {
        if (!allowed(space_.tp, tp) || !allowed(space_.dp, stage / cp / tp)) continue;
        for (const std::int64_t ep : divisors(stage)) {
          if (!allowed(space_.ep, ep)) continue;
          for (const std::int64_t esp : divisors(stage / ep)) {
            if (!allowed(space_.esp, esp) || !allowed(space_.edp, stage / ep / esp)) continue;
            add_schedules(
                {.pp = pp, .dp = stage / cp / tp, .cp = cp, .tp = tp, .edp = stage / ep / esp, .ep = ep, .esp = esp});
          }
        }
      }
    }
  }

  /// Parts of the model on each stage: those asked for, or else those of the layout, or one. Other numbers are tried
  /// for the best pipelines later.
  std::int64_t parts_per_stage(std::int64_t pp) const {
    if (space_.virtual_stages) return *space_.virtual_stages;
    const bool needs_two = space_.ep_overlap.value_or(false) || space_.pipeline == PipelineShape::V;
    if (space_.layout.empty()) return needs_two && pp > 1 ? 2 : 1;
    return std::max<std::int64_t>(1, std::ssize(space_.layout.parts) / pp);
  }

  void add_schedules(const Degrees& degrees) {
    for (const bool sequence_parallel : {false, true}) {
      if (sequence_parallel && degrees.tp == 1) continue;
      if (space_.sequence_parallel && *space_.sequence_parallel != sequence_parallel) continue;
      Candidate c;
      c.degrees = degrees;
      c.sequence_parallel = sequence_parallel;
      c.pipeline = space_.pipeline.value_or(c.pipeline);
      c.ep_overlap = space_.ep_overlap.value_or(false);
      c.delays_weight_gradients = space_.delays_weight_gradients.value_or(false);
      c.dispatcher_sms = space_.dispatcher_sms;
      c.layout = space_.layout;
      c.virtual_stages = parts_per_stage(degrees.pp);
      c.all_to_all = space_.all_to_all.value_or(c.all_to_all);
      if (!space_.all_to_all && deduplicates(degrees)) c.all_to_all = "node_dedup";
      c.codec = space_.codec.value_or(c.codec);
      c.recompute = recompute_levels(problem_, space_).front();
      add_schedules(c);
      if (!has_rank_orders(degrees)) continue;
      c.rank_order = RankOrder::ReplicasInner;
      add_schedules(c);
    }
  }

  /// The requested schedule, which need not be in the table, or all for these shards of an expert.
  std::vector<BuiltIn<Schedule>> considered_schedules(std::int64_t esp) const {
    if (space_.schedule) return {*space_.schedule};
    std::vector<BuiltIn<Schedule>> all;
    for (const Schedule* schedule : schedules_for(esp)) all.emplace_back(*schedule);
    return all;
  }

  /// The candidate with every schedule.
  void add_schedules(Candidate c) {
    Degrees layer = c.degrees;
    if (c.sequence_parallel) layer.tp = 1;
    for (const BuiltIn<Schedule>& schedule : considered_schedules(layer.esp)) {
      ++out_.enumerated;
      c.schedule = schedule;
      // A requested schedule uses its smallest number of chunks; otherwise one chunk, and other numbers are tried for
      // the best candidates later.
      const std::int64_t fewest = space_.schedule ? schedule->pipeline_degrees(layer, node_).front() : 1;
      c.pipeline_degree = space_.pipeline_degree.value_or(fewest);
      if (c.degrees.tp > node_ && !space_.tp) {
        reject("tp spans nodes (ask for it with --tp)");
      } else if (c.degrees.esp > node_ && !space_.esp) {
        reject("etp spans nodes (ask for it with --etp)");
      } else if (!space_.schedule && !schedule->same_as(layer, c, problem_.workload().mode).empty()) {
        reject("the same as another schedule");
      } else {
        consider(c);
      }
    }
  }

  /// Whether the framework sends rows between nodes without duplicates only.
  bool deduplicates(const Degrees& degrees) const {
    return space_.framework && space_.framework->rules.contains(FrameworkRule::DirectExchangeInNode) &&
           degrees.ep > problem_.ranks_per_node();
  }

  /// Whether the other rank order gives a different feasible plan: experts are not sharded, have several replicas and
  /// are divided over several ranks, in a stage larger than a node.
  bool has_rank_orders(const Degrees& degrees) const {
    return degrees.esp == 1 && degrees.ep > 1 && degrees.edp > 1 && degrees.ranks_per_stage() > node_;
  }

  std::optional<Infeasibility> infeasibility_of(const Candidate& c) const {
    return infeasibility(problem_.model(), problem_.workload(), c, problem_.ranks_per_node());
  }

  void consider(Candidate c) {
    const Workload& workload = problem_.workload();
    if (space_.framework) {
      if (const auto reason = unsupported(*space_.framework, c, problem_.ranks_per_node())) return reject(*reason);
    }
    c.micro_batch = workload.micro_batch.value_or(1);
    if (c.degrees.pp > 1 && workload.global_batch % c.degrees.dp == 0) {
      const std::vector<std::int64_t> sizes = micro_batches(workload, c.degrees);
      const auto least = std::find_if(sizes.rbegin(), sizes.rend(), [&](std::int64_t size) {
        c.micro_batch = size;
        return !infeasibility_of(c);
      });
      if (least == sizes.rend()) c.micro_batch = sizes.back();
    }
    if (const auto reason = infeasibility_of(c)) return reject(reason->text);
    if (!states_ || states_->first != c.degrees) states_ = {c.degrees, least_memory(problem_, c)};
    const MemoryUse& states = states_->second;
    if (states.total() <= problem_.cluster().memory_per_rank()) {
      out_.feasible.push_back(std::move(c));
      return;
    }
    reject("memory");
    if (!out_.least_states || states.total() < out_.least_states->memory.total())
      out_.least_states = NearestMiss{std::move(c), states};
  }

  const Problem& problem_;
  const SearchSpace& space_;
  std::int64_t node_;                                    // GPUs per node
  std::optional<std::pair<Degrees, MemoryUse>> states_;  // of these degrees, whatever else candidates have
  Enumeration out_;
};

}  // namespace

Enumeration enumerated(const Problem& problem, const SearchSpace& space) {
  std::vector<std::int64_t> stages = divisors(problem.cluster().world_size());
  std::erase_if(stages, [&](std::int64_t pp) { return !allowed(space.pp, pp); });
  std::vector<Enumeration> parts(stages.size());
  in_parallel(stages.size(), space.thread_count(),
              [&](std::size_t i) { parts[i] = Enumerator(problem, space).of(stages[i]); });
  Enumeration out;
  for (Enumeration& part : parts) {
    out.enumerated += part.enumerated;
    for (const auto& [reason, count] : part.rejected) out.rejected[reason] += count;
    std::ranges::move(part.feasible, std::back_inserter(out.feasible));
    if (!part.least_states) continue;
    if (!out.least_states || part.least_states->memory.total() < out.least_states->memory.total())
      out.least_states = std::move(part.least_states);
  }
  return out;
}

std::int64_t most_context_parallel(const Workload& workload) {
  constexpr std::int64_t kTokens = 8192;  // minimum per rank
  return std::max<std::int64_t>(1, workload.sequence_length / kTokens);
}

std::vector<std::int64_t> micro_batches(const Workload& workload, const Degrees& degrees) {
  if (workload.micro_batch) return {*workload.micro_batch};
  const std::int64_t batch = workload.global_batch / degrees.dp;
  std::vector<std::int64_t> out{batch};
  std::int64_t power = 1;
  while (power * 2 <= batch) power *= 2;
  for (; power >= 1; power /= 2) {
    if (batch % power == 0 && power != batch) out.push_back(power);
  }
  return out;
}

std::vector<Recompute> recompute_levels(const Problem& problem, const SearchSpace& space) {
  const Workload& workload = problem.workload();
  if (workload.mode == Mode::Forward) return {Recompute::None};
  if (workload.recompute) return {*workload.recompute};
  const std::optional<Framework>& framework = space.framework;
  const std::vector<Recompute> all =
      framework ? recompute_levels(*framework)
                : std::vector{Recompute::None, Recompute::Selective, Recompute::SelectiveAndMoe,
                              Recompute::AllButAttention, Recompute::Full};
  const bool overlaps_whole_passes =
      framework && space.ep_overlap.value_or(false) && framework->rules.contains(FrameworkRule::OverlapOfWholePasses);
  std::vector<Recompute> levels;
  std::optional<Recompute> last;
  for (const Recompute& level : all) {
    const Recompute own = of_model(level, problem.model());
    if (std::exchange(last, own) == own) continue;
    if (overlaps_whole_passes && own.has_experts()) continue;
    if (framework && !recomputes_beside(*framework, workload.cuda_graphs, own)) continue;
    const bool has_name = level == Recompute::Selective || level == Recompute::PerOperation;
    levels.push_back(has_name ? level : own);
  }
  return levels;
}

bool spans_nodes(const Problem& problem, const Candidate& c) {
  return c.degrees.ep * c.degrees.esp > problem.ranks_per_node();
}

bool may_overlap(const Problem& problem, const SearchSpace& space, const Candidate& overlapped) {
  const bool has_one_microbatch = overlapped.degrees.dp * overlapped.micro_batch == problem.workload().global_batch;
  return overlapped.degrees.ep > 1 && !has_one_microbatch &&
         !evaluate(problem, overlapped, Depth::Feasibility).infeasibility &&
         !(space.framework && unsupported(*space.framework, overlapped, problem.ranks_per_node()));
}

std::optional<Candidate> with_deduplicated_rows(const Problem& problem, const SearchSpace& space, Candidate c) {
  if (space.all_to_all || !spans_nodes(problem, c) || c.all_to_all->deduplicates()) return std::nullopt;
  c.all_to_all = "node_dedup";
  if (space.framework && unsupported(*space.framework, c, problem.ranks_per_node())) return std::nullopt;
  if (evaluate(problem, c, Depth::Feasibility).infeasibility) return std::nullopt;
  return c;
}

}  // namespace moeplan::planner
