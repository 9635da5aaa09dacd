#include "planner/report/layer_roofline.hpp"

#include <fmt/format.h>

#include <numeric>

#include "model/base/in_parallel.hpp"
#include "model/costs/memory.hpp"
#include "planner/layer/block_builder.hpp"
#include "planner/layer/moe_parts.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/plan.hpp"
#include "sim/flows/rank_classes.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::planner {

namespace {

/// assumed: where all ranks differ, a layer whose exchanges have more flows between ranks takes seconds.
constexpr std::int64_t kMostFlows = 50'000;

/// The flows of one exchange, in all of its chunks.
std::int64_t exchange_flows(const Candidate& c) {
  return c.pipeline_degree * c.degrees.ranks_per_stage() * (c.degrees.ep * c.degrees.esp - 1);
}

/// Appends an all-reduce of the gradients of `parameters` weights on every rank, once the last gradient is available.
void all_reduce_gradients(Program& program, double parameters) {
  Block& backward = program.blocks.back();
  Operation op = collective("gradient all-reduce", OpClass::Gradient, Stream::Inter, {}, {}, {});
  for (std::size_t i = 0; i < backward.operations.size(); ++i) {
    const Operation& operation = backward.operations[i];
    if (operation.computes_weight_gradient() && operation.op_class == OpClass::Expert) {
      op.after.push_back(static_cast<std::int32_t>(i));
    }
  }
  const GroupId all(program.groups.size());
  program.groups.push_back({"all", program.world_size, 1});
  const BufferId gradients(program.buffers.size());
  program.buffers.push_back({"gradients", 1, Dtype::Fp32});  // kept and summed in fp32, as in replica_parts.hpp
  const Slice slice{gradients, Rows::fixed(static_cast<std::int64_t>(parameters))};
  op.work = Communication{.collective = Collective::AllReduce, .group = all};
  op.reads = op.writes = {slice};
  backward.operations.push_back(std::move(op));
}

class Points {
 public:
  Points(const Problem& problem, const LayerSpec& layer, const Candidate& plan)
      : problem_(problem),
        model_(problem.model()),
        layer_(layer),
        workload_(problem.workload()),
        first_stage_(problem.first_stage(plan)),
        plan_(plan) {
    plan_.degrees.pp = plan_.virtual_stages = 1;
    plan_.layout = {};
    plan_.order = OperationOrder::Listed;
  }

  std::vector<LayerPoint> all() {
    const std::int64_t ranks = plan_.degrees.ranks_per_stage();
    add("this plan", plan_);
    Candidate plain;
    plain.micro_batch = plan_.micro_batch;
    plain.recompute = plan_.recompute;
    plain.degrees = {.dp = ranks / plan_.degrees.cp, .cp = plan_.degrees.cp};
    const auto with = [&](std::int64_t ep, std::int64_t esp) {
      Candidate c = plain;
      c.degrees.ep = ep;
      c.degrees.esp = esp;
      c.degrees.edp = ranks / ep / esp;
      return c;
    };
    const Candidate experts = with(std::gcd(ranks, std::get<Moe>(layer_.ffn).num_experts), 1);
    add("expert parallelism", experts);
    add("data parallelism", with(1, 1));
    add("model parallelism", with(1, ranks));
    for (const auto& schedule : schedules()) {
      if (plain.schedule != *schedule) add_in_chunks(*schedule, experts);
    }
    return fastest();
  }

 private:
  struct Variant {
    std::string name;
    Candidate candidate;
    std::size_t point;  // variants of one point differ in their number of chunks
  };

  void add(const std::string& name, const Candidate& c) { variants_.push_back({name, c, points_++}); }

  void add_in_chunks(const Schedule& schedule, Candidate c) {
    c.schedule = schedule;
    for (const std::int64_t chunks : {1, 2, 4, 8}) {
      c.pipeline_degree = chunks;
      const std::string name(schedule.name());
      variants_.push_back({chunks == 1 ? name : fmt::format("{}, {} chunks", name, chunks), c, points_});
    }
    ++points_;
  }

  /// Of each point the fastest variant that can run.
  std::vector<LayerPoint> fastest() const {
    std::vector<std::optional<LayerPoint>> all(variants_.size()), best(points_);
    in_parallel(all.size(), threads_or_cores(0),
                [&](std::size_t i) { all[i] = point(variants_[i].name, variants_[i].candidate); });
    for (std::size_t i = 0; i < all.size(); ++i) {
      std::optional<LayerPoint>& known = best[variants_[i].point];
      if (all[i] && (!known || all[i]->makespan < known->makespan)) known = std::move(all[i]);
    }
    std::vector<LayerPoint> out;
    for (std::optional<LayerPoint>& p : best) {
      if (p) out.push_back(std::move(*p));
    }
    return out;
  }

  std::optional<LayerPoint> point(const std::string& name, const Candidate& c) const {
    Workload one = workload_;  // one microbatch per replica
    one.global_batch = c.degrees.dp * c.micro_batch;
    if (infeasibility(model_, one, c, problem_.ranks_per_node())) return std::nullopt;
    // In the plan a tensor-parallel group shares one set of tokens; here each of its ranks has an equal part of them.
    const std::int64_t group_tokens = plan_.micro_batch * (workload_.sequence_length / plan_.degrees.cp);
    const std::int64_t tokens = group_tokens / plan_.degrees.tp * c.degrees.tp;
    const Moe& moe = std::get<Moe>(layer_.ffn);
    Program program =
        lower_moe_layer(moe, moe.row_columns(model_.hidden_size), tokens, one, c, problem_.ranks_per_node());
    const bool replicates_experts = c.degrees.edp == c.degrees.ranks_per_stage() && c.degrees.edp > 1;
    if (workload_.mode == Mode::Train && replicates_experts) {
      all_reduce_gradients(program, layer_parameters(model_, layer_, c.degrees).expert);
    }
    const auto symmetry = sim::simulated_view(program, first_stage_);
    if (!symmetry && exchange_flows(c) > kMostFlows && c != plan_) return std::nullopt;
    const Timeline timeline =
        sim::simulate(program, first_stage_, {.use_symmetry = symmetry != nullptr, .symmetry = symmetry});
    return LayerPoint{name, c, timeline.makespan,
                      ddl_roofline(program, timeline.makespan, binding_rank(rank_times(program, timeline)))};
  }

  const Problem& problem_;
  const ModelSpec& model_;
  const LayerSpec& layer_;
  const Workload& workload_;
  const Cluster& first_stage_;
  Candidate plan_;
  std::vector<Variant> variants_;
  std::size_t points_ = 0;
};

}  // namespace

std::vector<LayerPoint> layer_roofline(const Problem& problem, const Candidate& plan) {
  const LayerSpec* layer = problem.first_moe_layer();
  return layer ? Points(problem, *layer, plan).all() : std::vector<LayerPoint>{};
}

}  // namespace moeplan::planner
