// Expert placement on a recorded run, simulated: whole blocks with their attention, transfers to copies beside the
// block before. The tables of docs/placement.md whose times are simulated.
//
//   placement_simulated TRACE [EVERY [LAYERS]]      every 14th of its iterations and every 4th layer, or as given
//
// A block is what a model of three takes longer than one of one, halved: in the middle of a model, where transfers have
// another block to hide beside ([Pro-Prophet] sec. V). Deterministic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "cli/inputs.hpp"
#include "model/specs/routing_statistics.hpp"
#include "planner/lower.hpp"
#include "planner/place_experts.hpp"
#include "planner/plan.hpp"

namespace {

using namespace moeplan;

struct Machine {
  std::string name;
  Cluster cluster;
  ModelSpec model;  // of one block
  Workload workload;
  Candidate candidate;
};

/// 16 ranks, 8,192 tokens each, 32 experts and two of them a token, as in the trace.
Machine machine(const std::string& name, const std::string& cluster, const std::string& model, const char* dtype,
                const std::string& sequence, const std::string& micro_batch) {
  const PlanInputs documents = load_inputs(
      cluster, model, "default",
      {std::string("workload.dtype=") + dtype, "workload.sequence_length=" + sequence,
       "workload.micro_batch=" + micro_batch, "workload.global_batch=" + std::to_string(16 * std::stoi(micro_batch)),
       "workload.recompute=none", "workload.zero_stage=0"});
  const Inputs inputs = read_inputs(documents);
  Machine m{name, build_cluster(inputs.cluster, 16), inputs.model, inputs.workload, {}};
  const auto moe_run = std::find_if(inputs.model.layers.begin(), inputs.model.layers.end(), [](const LayerRun& run) {
    return std::holds_alternative<Moe>(run.pattern.front().ffn);
  });
  LayerSpec layer = moe_run->pattern.front();
  Moe& moe = std::get<Moe>(layer.ffn);
  moe.num_experts = 32;
  moe.top_k = 2;
  moe.shared.hidden_size = 0;
  moe.shared_gate = false;
  m.model.layers = {{1, {layer}}};
  m.candidate.degrees = {.dp = 16, .ep = 16};
  m.candidate.micro_batch = *m.workload.micro_batch;
  return m;
}

/// The workload in an iteration and layer of the trace, in `blocks` blocks alike.
Workload at(const Machine& m, const RoutingTrace& trace, std::size_t iteration, std::int64_t layer,
            std::int64_t blocks) {
  std::vector<std::uint32_t> counts;
  for (std::int64_t b = 0; b < blocks; ++b) {
    for (std::int32_t s = 0; s < trace.sources(); ++s) {
      const auto row = trace.row(iteration, layer, RankId(s));
      counts.insert(counts.end(), row.begin(), row.end());
    }
  }
  Workload w = m.workload;
  w.recorded =
      RecordedRouting{.file = "",
                      .sha256 = "",
                      .iteration = 0,
                      .counts = RoutingTrace({0}, blocks, trace.sources(), trace.experts(), std::move(counts))};
  return w;
}

class Blocks {
 public:
  Blocks(const Machine& m, const RoutingTrace& trace, std::size_t iteration, std::int64_t layer)
      : m_(m),
        one_(at(m, trace, iteration, layer, 1)),
        three_(at(m, trace, iteration, layer, 3)),
        machines_(m.cluster) {
    layer_ = placed_layers(m.model, one_, m.cluster, m.candidate, 4).front();
  }

  [[nodiscard]] const PlacedLayer& layer() const { return layer_; }

  double time(const Placement& placement, const std::string& strategy) {
    return (of(3, three_, placement, strategy) - of(1, one_, placement, strategy)) / 2;
  }

 private:
  double of(std::int64_t blocks, const Workload& w, const Placement& placement, const std::string& strategy) {
    ModelSpec model = m_.model;
    model.layers.front().repeat = blocks;
    Candidate c = m_.candidate;
    c.placement = strategy;
    c.expert_places.assign(static_cast<std::size_t>(blocks), placement);
    const Program program = lower_iteration(model, w, c, m_.cluster.ranks_per_node());
    return simulated(program, machines_, /*keep_spans=*/false).makespan.seconds().value();
  }

  const Machine& m_;
  Workload one_, three_;
  StageMachines machines_;
  PlacedLayer layer_;
};

struct Column {
  double seconds = 0, closed = 0, max_over_mean = 0, rb = 0, finite = 0, ratio = 0, largest = 0, n = 0;
};

void print(const Machine& m, const RoutingTrace& trace, std::size_t every, std::int64_t layers) {
  std::map<std::string, Column> columns;
  std::vector<std::string> names = placement_names();
  for (std::size_t i = 0; i < trace.iterations().size(); i += every) {
    for (std::int64_t layer = 0; layer < trace.layers(); layer += layers) {
      Blocks blocks(m, trace, i, layer);
      const PlacedLayer& l = blocks.layer();
      const std::vector<std::int64_t> before =
          rank_loads(l.counts, contiguous_placement(32, l.devices.ranks), l.devices);
      std::map<std::string, double> times;
      for (const std::string& name : names) {
        PlacementProblem problem{.counts = l.counts, .devices = l.devices, .options = {.expert_groups = 8}};
        if (name == "auto")
          problem.price = [&](const RoutingCounts&, const Placement& p) { return Seconds(blocks.time(p, name)); };
        const PlacementAnswer answer = find_placement_strategy(name)->place(problem);
        if (!answer.placement) continue;
        Column& c = columns[name];
        times[name] = blocks.time(*answer.placement, name);
        c.seconds += times[name];
        c.closed += layer_time(l.counts, *answer.placement, l.devices).total.value();
        const std::vector<std::int64_t> after = rank_loads(l.counts, *answer.placement, l.devices);
        c.max_over_mean += max_over_mean(after);
        ++c.n;
        if (balance_degree(before) == 0 || balance_degree(after) == 0) continue;
        c.rb += std::log(balance_degree(before) / balance_degree(after));
        ++c.finite;
      }
      for (const auto& [name, time] : times) {
        columns[name].ratio += times["auto"] / time;
        columns[name].largest = std::max(columns[name].largest, times["auto"] / time);
      }
    }
  }
  fmt::print(
      "\n{}:\n\n| strategy | max/mean | RB | block, ms | closed form, layer, ms | auto / this, mean | largest "
      "|\n|---|---|---|---|---|---|---|\n",
      m.name);
  for (const std::string& name : names) {
    const Column& c = columns[name];
    if (c.n == 0) continue;
    fmt::print("| {} | {:.3f} | {:.2f} | {:.2f} | {:.2f} | {:.3f} | {:.4f} |\n", name, c.max_over_mean / c.n,
               std::exp(c.rb / std::max(1.0, c.finite)), 1e3 * c.seconds / c.n, 1e3 * c.closed / c.n, c.ratio / c.n,
               c.largest);
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: placement_simulated TRACE [EVERY [LAYERS]]\n");
    return 2;
  }
  const RoutingTrace trace = read_routing_trace(argv[1]);
  const auto every = static_cast<std::size_t>(argc > 2 ? std::max(1, std::atoi(argv[2])) : 14);
  const std::int64_t layers = argc > 3 ? std::max(1, std::atoi(argv[3])) : 4;
  print(machine("HPWNV: 4 x 4 RTX 3090, blocks of MoE-GPT-M, training in fp32", "proprophet_hpwnv",
                "pro_prophet_moe_gpt_m", "fp32", "1024", "8"),
        trace, every, layers);
  print(machine("DGX H100: 2 x 8, blocks of DeepSeek-V3 with 32 experts, training in bf16", "dgx_h100", "deepseek_v3",
                "bf16", "4096", "2"),
        trace, every, layers);
}
