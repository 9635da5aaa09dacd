#include "planner/evaluation/common_work.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <utility>

#include "model/costs/block_price.hpp"
#include "model/costs/compute.hpp"
#include "planner/evaluation/least_exchange.hpp"
#include "planner/lowering/blocks/launches.hpp"

namespace moeplan::planner {

namespace {

/// The model with each of its layers that has experts changed.
template <class Change>
ModelSpec with_moe_layers(ModelSpec model, const Change& change) {
  const auto change_if_moe = [&](LayerSpec& layer) {
    if (std::holds_alternative<Moe>(layer.ffn)) change(layer);
  };
  if (model.num_mtp_layers > 0) model.mtp_layer = mtp_layer(model);
  if (model.mtp_layer) change_if_moe(*model.mtp_layer);
  for (RepeatedLayers& run : model.layers) std::for_each(run.pattern.begin(), run.pattern.end(), change_if_moe);
  return model;
}

/// The model with nothing in place of its MoE feed-forward parts.
ModelSpec without_experts(const ModelSpec& model) {
  constexpr Ffn kNone{.hidden_size = 0, .gated = false, .bias = false};
  return with_moe_layers(model, [&](LayerSpec& layer) { layer.ffn = kNone; });
}

/// The model whose MoE layers have no token mixers.
ModelSpec experts_alone(const ModelSpec& model) {
  return with_moe_layers(model, [](LayerSpec& layer) { layer.mixer = NoMixer{}; });
}

/// Forward FLOPs a token of the routed experts of the units before each unit of the model and, at the end, of all.
std::vector<double> expert_flops(const ModelSpec& model) {
  const auto of = [&](const LayerSpec& layer) {
    const auto* moe = std::get_if<Moe>(&layer.ffn);
    if (!moe) return 0.0;
    Ffn products = moe->expert;
    products.bias = false;
    return 2.0 * static_cast<double>(moe->top_k * ffn_parameters(products, moe->row_columns(model.hidden_size)));
  };
  const StagePart whole = whole_model(model);
  std::vector<double> before{0.0};
  const auto add = [&](double flops) { before.push_back(before.back() + flops); };
  add(0);  // embedding
  for (const LayerSpec& layer : whole.layers) add(of(layer));
  for (std::int64_t i = 0; i < whole.mtp_layers; ++i) {
    add(0);
    add(of(mtp_layer(model)));
    add(0);
  }
  add(0);  // head
  return before;
}

/// The units that have experts, by FLOPs of the units before each.
std::vector<std::size_t> units_with_experts(const std::vector<double>& flops_before) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i + 1 < flops_before.size(); ++i) {
    if (flops_before[i + 1] > flops_before[i]) out.push_back(i);
  }
  return out;
}

/// What the host launches apart from the GPU's waits for it.
std::int64_t launches_of(const Block& block) {
  std::int64_t out = 0;
  for (const Operation& operation : block.operations) {
    const auto* launches = std::get_if<Launches>(&operation.work);
    if (launches && operation.stream == Stream::Host) out += launches->operations;
  }
  return out;
}

std::int64_t launches_of_experts(const Block& block, const Workload& workload) {
  Block experts;
  for (const Operation& operation : block.operations) {
    const OpClass of = operation.op_class;
    const bool is_common = of == OpClass::Gate || of == OpClass::Expert || of == OpClass::SharedExpert;
    if (is_common && operation.computes()) experts.operations.push_back(operation);
  }
  return launched_at_least(experts, workload);
}

/// Whether a rank has the same rows however many replicas and stages there are.
bool has_equal_ranks(const Workload& workload) {
  return !workload.recorded && workload.routing.shape == RoutingShape::Uniform && !workload.routing.sampled &&
         workload.gate == Gate{};
}

}  // namespace

CommonWork::CommonWork(const Problem& problem)
    : problem_(problem),
      without_experts_(without_experts(problem.model())),
      experts_alone_(experts_alone(problem.model())),
      expert_flops_(expert_flops(problem.model())),
      moe_units_(units_with_experts(expert_flops_)),
      has_equal_ranks_(has_equal_ranks(problem.workload())) {}

CommonWork::Priced CommonWork::priced_of(const Candidate& candidate) {
  if (candidate.ep_overlap) return Priced::ComputeStream;
  return problem_.stage_clusters().are_equivalent(candidate.degrees.pp) ? Priced::All : Priced::WithoutCommunication;
}

/// If ranks are equal however many there are: the first rank of a stage, of which bounds are, has the same peers and
/// links among so few.
Candidate CommonWork::on_fewest_ranks(Candidate stage) const {
  if (!has_equal_ranks_) return stage;
  Degrees& d = stage.degrees;
  const std::int64_t ranks = std::lcm(d.cp * d.tp, d.ep * d.esp);
  d.dp = ranks / (d.cp * d.tp);
  d.edp = ranks / (d.ep * d.esp);
  stage.rank_order = RankOrder::Megatron;
  return stage;
}

Candidate CommonWork::with_links_on_fewest_ranks(Candidate stage) {
  if (stage.rank_order != RankOrder::Megatron) return stage;
  Candidate fewest = on_fewest_ranks(stage);
  const std::int64_t groups = problem_.cluster().world_size() / fewest.degrees.ranks_per_stage();
  return problem_.stage_clusters().are_equivalent(groups) ? fewest : stage;
}

/// Of so many ranks as the stage has, those that begin with the rank `first`, or others with the same links.
std::int64_t CommonWork::place_of(std::int64_t first, const Candidate& stage) {
  if (first == 0) return 0;
  const std::int64_t ranks = stage.degrees.ranks_per_stage();
  return first / ranks % problem_.stage_clusters().period(problem_.cluster().world_size() / ranks);
}

/// The candidate whose passes are priced for this one: on one stage's ranks.
Candidate CommonWork::representative(const Candidate& candidate) const {
  return on_fewest_ranks(with_least_exchange(stage_alone(candidate)));
}

LoweredPasses CommonWork::lowered(const ModelSpec& model, const Candidate& c,
                                  const std::optional<std::vector<std::size_t>>& units) const {
  return lower_passes(model, problem_.workload(), c, problem_.ranks_per_node(), units);
}

/// Work without exchange on the ranks and links of a stage.
CommonWork::Work CommonWork::priced(LoweredPasses lowered, Priced operations, std::int64_t stage) {
  lowered.program = without_exchange(std::move(lowered.program), problem_.workload());
  const auto is_omitted = [&](const Operation& o) {
    switch (operations) {
      case Priced::All: return false;
      case Priced::WithoutCommunication: return o.communication() != nullptr;
      case Priced::ComputeStream: return o.communication() || o.stream != Stream::Compute;
      case Priced::Host: return o.stream != Stream::Host;
    }
    return false;
  };
  if (operations != Priced::All) {
    for (Block& block : lowered.program.blocks) leave_out(block, is_omitted);
  }
  return priced_by_first_rank(std::move(lowered), stage);
}

template <class SecondsOf>
CommonWork::Passes CommonWork::passes_of(const LoweredPasses& lowered, const SecondsOf& seconds_of) {
  const auto sums = [&](const std::vector<BlockId>& units) {
    std::vector<double> before{0.0};
    for (const BlockId block : units) before.push_back(before.back() + seconds_of(block));
    return before;
  };
  return {.forward = sums(lowered.forward), .backward = sums(lowered.backward)};
}

CommonWork::Work CommonWork::priced_by_first_rank(LoweredPasses lowered, std::int64_t stage) const {
  StageClusters& machines = problem_.stage_clusters();
  std::vector<Block>& blocks = lowered.program.blocks;
  const std::int64_t stages = machines.cluster().world_size() / lowered.program.world_size;
  const Cluster& ranks = stage == 0 ? machines.first_of(stages) : machines.of(stages, stage).cluster;
  Work out;
  out.host = passes_of(lowered, [&](BlockId block) {
    return host_time(ranks.gpu, Launches{launches_of(blocks[block.index()])}).value();
  });
  for (Block& block : blocks) leave_out(block, [](const Operation& o) { return o.stream == Stream::Host; });
  BlockPricer pricer(lowered.program, ranks, PricedRanks::First, &machines.prices());
  out.streams = passes_of(lowered, [&](BlockId block) { return pricer.price(block).alone.front(); });
  return out;
}

CommonWork::Key CommonWork::key_of(const Candidate& c, Priced operations) {
  const Degrees& d = c.degrees;
  return {d.dp,        d.cp,         d.tp,          d.edp,         d.ep,
          d.esp,       &*c.schedule, c.rank_order,  c.micro_batch, c.sequence_parallel,
          c.recompute, operations,   &*c.all_to_all};
}

const CommonWork::Times& CommonWork::passes(const Candidate& candidate, Priced operations) {
  const Candidate c = representative(candidate);
  return known(passes_, key_of(c, operations), [&] {
    const bool has_links = operations == Priced::All;
    if (has_links && c.rank_order != RankOrder::Megatron)
      return together(priced(lowered(problem_.model(), c), operations));
    return with_experts(work_without_experts(c, operations), priced(lowered(experts_alone_, c, moe_units_), operations),
                        c.recompute);
  });
}

/// The candidate's attention and dense parts, for all that have them in common.
Candidate CommonWork::without_expert_degrees(const Candidate& candidate) {
  Candidate c = LayerStrategy{}.in(stage_alone(candidate));
  Degrees& d = c.degrees;
  d.ep = d.esp = d.dp = 1;
  d.edp = d.cp * d.tp;
  c.rank_order = RankOrder::Megatron;
  return c;
}

const CommonWork::Work& CommonWork::work_without_experts(const Candidate& candidate, Priced operations,
                                                         std::int64_t first) {
  const Candidate c = without_expert_degrees(candidate);
  const std::int64_t place = place_of(first, c);
  return known(without_experts_work_, {key_of(c, operations), place},
               [&] { return priced(lowered(without_experts_, c), operations, place); });
}

CommonWork::Times CommonWork::together(Work work) {
  return {.longest = longer_of_each(work.streams, work.host), .host = std::move(work.host)};
}

/// The passes through all units, with those of the experts added where units have any, less what both have counted.
CommonWork::Passes CommonWork::with_experts(const Passes& dense, const Passes& experts, double counted_twice) const {
  const auto sums = [&](const std::vector<double>& all, const std::vector<double>& added) {
    std::vector<double> before{0.0};
    std::size_t next = 0;
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
      double time = all[i + 1] - all[i];
      if (next < moe_units_.size() && moe_units_[next] == i) {
        time += std::max(0.0, added[next + 1] - added[next] - counted_twice);
        ++next;
      }
      before.push_back(before.back() + time);
    }
    return before;
  };
  return {.forward = sums(dense.forward, experts.forward), .backward = sums(dense.backward, experts.backward)};
}

/// The host's time for what the launches of mixers and of MoE parts may both count: they are rounded, and have a layer
/// that is recomputed as a whole.
double CommonWork::launched_twice(Recompute recompute) const {
  return host_time(problem_.cluster().gpu, Launches{recompute.has(RecomputeModule::WholeLayer) ? 2 : 1}).value();
}

/// Mixers and MoE parts follow one another on the GPU.
CommonWork::Times CommonWork::with_experts(const Work& dense, const Work& experts, Recompute recompute) const {
  return together({.streams = with_experts(dense.streams, experts.streams),
                   .host = with_experts(dense.host, experts.host, launched_twice(recompute))});
}

/// The MoE parts alone, without communication.
const CommonWork::Work& CommonWork::experts_without_links(const Candidate& candidate, Priced operations,
                                                          bool has_weight_gradients) {
  const Candidate c = representative(candidate);
  return known(experts_work_, {key_of(c, operations), has_weight_gradients}, [&] {
    LoweredPasses all = lowered(experts_alone_, c, moe_units_);
    const auto is_weight_gradient = [](const Operation& o) {
      return o.op_class == OpClass::Expert && o.computes_weight_gradient();
    };
    if (!has_weight_gradients) {
      for (Block& block : all.program.blocks) leave_out(block, is_weight_gradient);
    }
    return priced(std::move(all), operations);
  });
}

/// With the candidate's exchange, on the ranks and links of a stage.
const CommonWork::Times& CommonWork::own_passes(const Candidate& candidate, std::int64_t stage) {
  Candidate c = stage_alone(candidate);
  const bool has_known_rest = c.rank_order == RankOrder::Megatron;
  const std::int64_t first = stage * c.degrees.ranks_per_stage();
  if (has_known_rest) c = on_fewest_ranks(std::move(c));
  const std::int64_t place = place_of(first, c);
  const OwnKey key{key_of(c, Priced::All), c.pipeline_degree, codec_pair_name(c.codec), place};
  return known(own_passes_, key, [&] {
    if (!has_known_rest) return together(priced_by_first_rank(lowered(problem_.model(), c), place));
    return with_experts(work_without_experts(c, Priced::All, first),
                        priced_by_first_rank(lowered(experts_alone_, c, moe_units_), place), c.recompute);
  });
}

CommonWork::Streams CommonWork::streams_of(const LoweredPasses& all) {
  StageClusters& clusters = problem_.stage_clusters();
  BlockPricer pricer(all.program, clusters.first_of(problem_.cluster().world_size() / all.program.world_size),
                     PricedRanks::First, &clusters.prices());
  Streams out;
  for (std::size_t stream = 0; stream < kStreams; ++stream)
    out[stream] = passes_of(all, [&](BlockId block) { return pricer.price(block).busy[stream]; });
  return out;
}

/// With the candidate's exchange, on the ranks and links of the first stage.
const CommonWork::Streams& CommonWork::own_streams(const Candidate& candidate) {
  Candidate c = stage_alone(candidate);
  if (c.rank_order == RankOrder::Megatron) c = on_fewest_ranks(std::move(c));
  return known(own_streams_, {key_of(c, Priced::All), c.pipeline_degree, codec_pair_name(c.codec), 0}, [&] {
    if (c.rank_order != RankOrder::Megatron) return streams_of(lowered(problem_.model(), c));
    const Candidate dense = without_expert_degrees(c);
    const Streams& rest = known(streams_without_experts_, key_of(dense, Priced::All),
                                [&] { return streams_of(lowered(without_experts_, dense)); });
    Streams out = streams_of(lowered(experts_alone_, c, moe_units_));
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      const bool is_host = stream == static_cast<std::size_t>(Stream::Host);
      out[stream] = with_experts(rest[stream], out[stream], is_host ? launched_twice(c.recompute) : 0);
    }
    return out;
  });
}

const CommonWork::Rough& CommonWork::rough(const Candidate& candidate) {
  const bool has_links = priced_of(candidate) == Priced::All && candidate.rank_order == RankOrder::Megatron;
  const Candidate c = without_expert_degrees(candidate);
  return known(rough_, key_of(c, has_links ? Priced::All : Priced::ComputeStream), [&] {
    Passes computation = work_without_experts(c, Priced::ComputeStream).streams;
    add_mean_load(c, computation);
    const Passes host = launched(lowered(problem_.model(), c), lowered(without_experts_, c));
    Passes longest = longer_of_each(computation, host);
    if (has_links) longest = longer_of_each(longest, together(work_without_experts(c, Priced::All)).longest);
    return Rough{
        .computation = {std::move(computation), {}}, .host = {host, host}, .together = {std::move(longest), host}};
  });
}

/// Adds what the experts would take if they computed a mean load at the peak rate; nothing where tokens may be dropped.
void CommonWork::add_mean_load(const Candidate& c, Passes& passes) const {
  const Workload& workload = problem_.workload();
  if (workload.capacity_factor) return;
  const double tokens =
      static_cast<double>(c.micro_batch * workload.sequence_length) / static_cast<double>(c.degrees.cp * c.degrees.tp);
  const FlopsPerSecond peak = peak_rate(problem_.cluster().gpu, workload.precision ? Dtype::Fp8 : workload.dtype);
  assert(passes.forward.size() == expert_flops_.size() && "both list the same units");
  for (std::size_t unit = 0; unit < expert_flops_.size(); ++unit) {
    const double forward = (Flops(tokens * expert_flops_[unit]) / peak).value();
    passes.forward[unit] += forward;
    if (passes.backward.size() > 1) passes.backward[unit] += 2 * forward;
  }
}

/// The host's time: of MoE layers the gate's and the experts' computations, which all schedules launch.
CommonWork::Passes CommonWork::launched(const LoweredPasses& all, const LoweredPasses& dense) const {
  const auto sums = [&](const std::vector<BlockId>& of_all, const std::vector<BlockId>& of_dense) {
    std::vector<double> before{0.0};
    for (std::size_t i = 0; i < of_all.size(); ++i) {
      // Both rounded down, since the sum of a layer's is what is rounded.
      const Workload& workload = problem_.workload();
      const Block& rest = dense.program.blocks[of_dense[i].index()];
      const std::int64_t rounded = launched_operations(rest, workload) - launched_at_least(rest, workload);
      const Launches launches{launches_of_experts(all.program.blocks[of_all[i].index()], workload) + launches_of(rest) -
                              rounded};
      before.push_back(before.back() + host_time(problem_.cluster().gpu, launches).value());
    }
    return before;
  };
  return {.forward = sums(all.forward, dense.forward), .backward = sums(all.backward, dense.backward)};
}

CommonWork::Passes CommonWork::longer_of_each(const Passes& a, const Passes& b) {
  const auto longer = [](const std::vector<double>& x, const std::vector<double>& y) {
    std::vector<double> before{0.0};
    for (std::size_t i = 1; i < x.size(); ++i)
      before.push_back(before.back() + std::max(x[i] - x[i - 1], y[i] - y[i - 1]));
    return before;
  };
  return {.forward = longer(a.forward, b.forward), .backward = longer(a.backward, b.backward)};
}

}  // namespace moeplan::planner
