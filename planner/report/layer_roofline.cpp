#include "planner/report/layer_roofline.hpp"

#include <fmt/format.h>

#include <numeric>

#include "model/costs/memory.hpp"
#include "planner/layer/block_builder.hpp"
#include "planner/layer/moe_parts.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/plan.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::planner {

namespace {

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
      if (plain.schedule != *schedule) add_fastest(*schedule, experts);
    }
    return std::move(points_);
  }

 private:
  void add(const std::string& name, const Candidate& c) {
    if (std::optional<LayerPoint> p = point(name, c)) points_.push_back(std::move(*p));
  }

  /// Adds the schedule with its fastest number of chunks.
  void add_fastest(const Schedule& schedule, Candidate c) {
    c.schedule = schedule;
    std::optional<LayerPoint> best;
    for (const std::int64_t chunks : {1, 2, 4, 8}) {
      c.pipeline_degree = chunks;
      std::optional<LayerPoint> p =
          point(chunks == 1 ? std::string(schedule.name()) : fmt::format("{}, {} chunks", schedule.name(), chunks), c);
      if (p && (!best || p->makespan < best->makespan)) best = std::move(p);
    }
    if (best) points_.push_back(std::move(*best));
  }

  std::optional<LayerPoint> point(const std::string& name, const Candidate& c) {
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
    const Timeline timeline = sim::simulate(program, first_stage_, {.keep_spans = true});
    return LayerPoint{name, c, timeline.makespan,
                      ddl_roofline(program, timeline.makespan, binding_rank(rank_times(program, timeline)))};
  }

  const Problem& problem_;
  const ModelSpec& model_;
  const LayerSpec& layer_;
  const Workload& workload_;
  const Cluster& first_stage_;
  Candidate plan_;
  std::vector<LayerPoint> points_;
};

}  // namespace

std::vector<LayerPoint> layer_roofline(const Problem& problem, const Candidate& plan) {
  const LayerSpec* layer = problem.first_moe_layer();
  return layer ? Points(problem, *layer, plan).all() : std::vector<LayerPoint>{};
}

}  // namespace moeplan::planner
