// Simulation of expert placements on a recorded routing trace: whole blocks with attention, in which the transfers to
// expert copies overlap with the previous block. Prints the tables of docs/placement.md with simulated times.
//
//   placement_simulated TRACE ROWS [MACHINE [EVERY [LAYERS]]]
//
// MACHINE: hpwnv, h100, or both (the default). Simulates every EVERY-th iteration and every LAYERS-th layer (default:
// all). Results are appended to the file ROWS, one iteration at a time, and iterations already in the file are not
// simulated again: the program can be stopped and restarted, and tables can be printed from partial results. Uses two
// threads.
//
// The time of a block is half the difference between a model of three blocks and a model of one: a block in the middle
// of a model, whose transfers can overlap with another block ([Pro-Prophet] sec. V). Deterministic.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "model/base/in_parallel.hpp"
#include "model/workload/routing_statistics.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/place_experts.hpp"
#include "sim/program/simulate_stages.hpp"

namespace {

using namespace moeplan;
using namespace moeplan::planner;

constexpr const char* kBestOther = "the best other of each layer";

struct Machine {
  std::string name;
  std::string title;
  Cluster cluster;
  ModelSpec model;  // with one block
  Workload workload;
  Candidate candidate;
};

/// 16 ranks with 8,192 tokens each, 32 experts and top-2 routing, as in the trace.
Machine machine(const std::string& name, const std::string& title, const std::string& cluster, const std::string& model,
                const char* dtype, const std::string& sequence, const std::string& micro_batch) {
  const PlanInputs documents = load_inputs(
      cluster, model, "default",
      {std::string("workload.dtype=") + dtype, "workload.sequence_length=" + sequence,
       "workload.micro_batch=" + micro_batch, "workload.global_batch=" + std::to_string(16 * std::stoi(micro_batch)),
       "workload.recompute=none", "workload.zero_stage=0"});
  const Inputs inputs = read_inputs(documents);
  Machine m{name, title, build_cluster(inputs.cluster, 16), inputs.model, inputs.workload, {}};
  const auto moe_run =
      std::find_if(inputs.model.layers.begin(), inputs.model.layers.end(),
                   [](const RepeatedLayers& run) { return std::holds_alternative<Moe>(run.pattern.front().ffn); });
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

/// The workload of one iteration and layer of the trace, in `blocks` identical blocks.
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

  /// The time of a block in seconds. Each placement is simulated once for strategies that replan in every iteration,
  /// which exchange the loads, once for those whose transfers block, and once for the others.
  double time(const Placement& placement, const PlacementStrategy& strategy) {
    for (const Known& k : known_) {
      const bool is_equivalent =
          k.replans == strategy.replans() && k.has_blocking_transfers == strategy.has_blocking_transfers();
      if (is_equivalent && k.placement == placement) return k.seconds;
    }
    const double seconds = (of(3, three_, placement, strategy) - of(1, one_, placement, strategy)) / 2;
    known_.push_back({placement, strategy.replans(), strategy.has_blocking_transfers(), seconds});
    return seconds;
  }

 private:
  struct Known {
    Placement placement;
    bool replans, has_blocking_transfers;
    double seconds;
  };

  double of(std::int64_t blocks, const Workload& w, const Placement& placement, const PlacementStrategy& strategy) {
    ModelSpec model = m_.model;
    model.layers.front().repeat = blocks;
    Candidate c = m_.candidate;
    c.placement = strategy.name();
    c.expert_places.assign(static_cast<std::size_t>(blocks), placement);
    const Program program = lower_iteration(model, w, c, m_.cluster.ranks_per_node());
    return sim::simulate(program, machines_, {.keep_spans = false}).makespan.seconds().value();
  }

  const Machine& m_;
  Workload one_, three_;
  StageClusters machines_;
  PlacedLayer layer_;
  std::vector<Known> known_;
};

/// The result of one strategy in one layer of one iteration.
struct Row {
  std::size_t iteration;  // index
  std::int64_t layer;
  std::string strategy;
  double seconds;                // simulated time of the block
  double closed;                 // time of the layer by the closed form
  double before, max_over_mean;  // max / mean load of the ranks: with contiguous experts, with the placement
  double rb;                     // ratio of balance degrees; 0 if the loads are even before or after
};

std::vector<Row> rows_of(const Machine& m, const RoutingTrace& trace, std::size_t iteration, std::int64_t layer) {
  Blocks blocks(m, trace, iteration, layer);
  const PlacedLayer& l = blocks.layer();
  const std::vector<std::int64_t> before =
      rank_loads(l.counts, contiguous_placement(l.counts.experts(), l.devices.ranks), l.devices);
  std::vector<Row> rows;
  for (const auto& strategy : placement_strategies()) {
    const PlacementProblem problem{
        .counts = l.counts,
        .devices = l.devices,
        .options = {.expert_groups = 8},
        .price = [&](const RoutingCounts&, const Placement& p) { return Seconds(blocks.time(p, *strategy)); }};
    const PlacementAnswer answer = strategy->place(problem);
    if (!answer.placement) continue;
    const std::vector<std::int64_t> after = rank_loads(l.counts, *answer.placement, l.devices);
    const bool is_finite = balance_degree(before) > 0 && balance_degree(after) > 0;
    rows.push_back({iteration, layer, std::string(strategy->name()), blocks.time(*answer.placement, *strategy),
                    layer_time(l.counts, *answer.placement, l.devices).total.value(), max_over_mean(before),
                    max_over_mean(after), is_finite ? balance_degree(before) / balance_degree(after) : 0});
  }
  return rows;
}

/// The complete iterations of a cluster in the file, each terminated by a line "machine iteration"; lines of other
/// clusters are ignored.
std::map<std::size_t, std::vector<Row>> known_rows(const std::string& path, const std::string& machine) {
  std::map<std::size_t, std::vector<Row>> out;
  std::vector<Row> rows;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string name;
    Row row{};
    words >> name >> row.iteration;
    if (!words || name != machine) continue;
    if (words.eof()) {
      std::erase_if(rows, [&](const Row& r) { return r.iteration != row.iteration; });  // of an interrupted iteration
      out[row.iteration] = std::move(rows);
      rows.clear();
    } else if (words >> row.layer >> row.strategy >> row.seconds >> row.closed >> row.before >> row.max_over_mean >>
               row.rb) {
      rows.push_back(std::move(row));
    }
  }
  return out;
}

/// The rows of the requested iterations, in order: read from the file if present, else simulated and appended to it.
std::vector<Row> all_rows(const Machine& m, const RoutingTrace& trace, const std::string& path, std::size_t every,
                          std::int64_t layers) {
  std::map<std::size_t, std::vector<Row>> known = known_rows(path, m.name);
  std::vector<Row> out;
  for (std::size_t i = 0; i < trace.iterations().size(); i += every) {
    if (const auto it = known.find(i); it != known.end()) {
      out.insert(out.end(), it->second.begin(), it->second.end());
      continue;
    }
    std::vector<std::vector<Row>> of_layer(static_cast<std::size_t>((trace.layers() + layers - 1) / layers));
    in_parallel(of_layer.size(), 2,
                [&](std::size_t l) { of_layer[l] = rows_of(m, trace, i, static_cast<std::int64_t>(l) * layers); });
    std::string text;
    for (const std::vector<Row>& rows : of_layer) {
      for (const Row& r : rows) {
        text += fmt::format("{} {} {} {} {:.17g} {:.17g} {:.17g} {:.17g} {:.17g}\n", m.name, r.iteration, r.layer,
                            r.strategy, r.seconds, r.closed, r.before, r.max_over_mean, r.rb);
      }
      out.insert(out.end(), rows.begin(), rows.end());
    }
    std::ofstream(path, std::ios::app) << text << m.name << ' ' << i << '\n';
  }
  return out;
}

struct Column {
  double seconds = 0, closed = 0, max_over_mean = 0, rb = 0, finite = 0, ratio = 0, largest = 0, n = 0;

  void add(const Row& row, double ours) {
    seconds += row.seconds;
    closed += row.closed;
    max_over_mean += row.max_over_mean;
    ratio += ours / row.seconds;
    largest = std::max(largest, ours / row.seconds);
    ++n;
    if (row.rb == 0) return;
    rb += std::log(row.rb);
    ++finite;
  }
};

void print(const Machine& m, const std::vector<Row>& rows) {
  std::map<std::string, Column> columns;
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<const Row*>> layers;
  for (const Row& row : rows) layers[{row.iteration, row.layer}].push_back(&row);
  std::int64_t above = 0;
  for (const auto& [layer, of_layer] : layers) {
    const Row& ours = *of_layer.back();  // the last strategy of the table is auto
    const Row* best = nullptr;
    for (const Row* row : of_layer) {
      columns[row->strategy].add(*row, ours.seconds);
      if (row != &ours && (!best || row->seconds < best->seconds)) best = row;
    }
    if (!best) continue;
    columns[kBestOther].add(*best, ours.seconds);
    above += ours.seconds > best->seconds ? 1 : 0;
  }
  fmt::print(
      "\n{}, {} layers, auto above the best other in {}:\n\n| strategy | max/mean | RB | block, ms | closed form, "
      "layer, ms | auto / this, mean | largest |\n|---|---|---|---|---|---|---|\n",
      m.title, layers.size(), above);
  std::vector<std::string> names = placement_names();
  names.emplace_back(kBestOther);
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
  if (argc < 3) {
    fmt::print(stderr, "usage: placement_simulated TRACE ROWS [hpwnv|h100|both [EVERY [LAYERS]]]\n");
    return 2;
  }
  const RoutingTrace trace = read_routing_trace(argv[1]);
  const std::string which = argc > 3 ? argv[3] : "both";
  const auto every = static_cast<std::size_t>(argc > 4 ? std::max(1, std::atoi(argv[4])) : 1);
  const std::int64_t layers = argc > 5 ? std::max(1, std::atoi(argv[5])) : 1;
  const auto show = [&](const Machine& m) { print(m, all_rows(m, trace, argv[2], every, layers)); };
  if (which != "h100") {
    show(machine("hpwnv", "HPWNV: 4 x 4 RTX 3090, blocks of MoE-GPT-M, training in fp32", "proprophet_hpwnv",
                 "pro_prophet_moe_gpt_m", "fp32", "1024", "8"));
  }
  if (which != "hpwnv") {
    show(machine("h100", "DGX H100: 2 x 8, blocks of DeepSeek-V3 with 32 experts, training in bf16", "dgx_h100",
                 "deepseek_v3", "bf16", "4096", "2"));
  }
}
