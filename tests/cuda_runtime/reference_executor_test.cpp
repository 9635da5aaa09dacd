// Every schedule, all-to-all, codec and number of chunks gives the values of the reference layer.
#include "tests/support/reference_executor.hpp"

#include <fmt/format.h>

#include <array>
#include <catch2/catch.hpp>
#include <map>
#include <optional>

#include "cuda_runtime/reference/moe_layer.hpp"
#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "model/base/random.hpp"
#include "model/costs/codec.hpp"
#include "model/program/resolve.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/placement/slots.hpp"
#include "planner/placement/strategies/strategy.hpp"
#include "planner/search/layer_search.hpp"
#include "tests/support/pairwise_runs.hpp"
#include "tests/support/programs.hpp"
#include "tests/support/random_placement.hpp"

namespace moeplan::tests::reference_executor_test {

using namespace moeplan::planner;
using namespace moeplan::runtime;

namespace {

constexpr std::uint64_t kSeed = 7;

struct Layer {
  Degrees degrees;
  std::int64_t per_node;
  std::int64_t experts;
  RoutingShape shape;
  bool gated;
  bool sequence_parallel = false;
};

constexpr double kCoarsestStep = 1.0 / 32;

/// A codec's loss that can be told from none: values on a grid.
void loss(WireFormat format, std::span<double> row) {
  const std::map<WireFormat, double> steps{{WireFormat::Fp16, 1.0 / 64},
                                           {WireFormat::Int8, kCoarsestStep},
                                           {WireFormat::Fp8Block, 1.0 / 48},
                                           {WireFormat::Zfp, 1.0 / 128}};
  const double step = steps.at(format);
  for (double& v : row) v = std::round(v / step) * step;
}

struct Difference {
  double output = 0, gradient = 0, up = 0, down = 0;
  [[nodiscard]] double most() const { return std::max({output, gradient, up, down}); }
};

class Check {
 public:
  Check(const Layer& layer, const Workload& workload, std::optional<Placement> placement = std::nullopt)
      : layer_(layer),
        placement_(std::move(placement)),
        workload_(workload),
        moe_{.num_experts = layer.experts,
             .top_k = 2,
             .expert = {.hidden_size = 8, .gated = layer.gated, .bias = false},
             .shared = {},
             .shared_gate = false,
             .router_bias = false},
        shape_{.hidden_size = kHidden, .ffn_size = 8, .experts = layer.experts, .top_k = 2, .gated = layer.gated} {}

  Candidate candidate(const LayerStrategy& run) const {
    Candidate c;
    c.degrees = layer_.degrees;
    c.sequence_parallel = layer_.sequence_parallel;
    if (placement_) c.expert_places = {*placement_};
    return run.in(c);
  }

  /// What the placement is planned for.
  RoutingCounts asked() const { return routing_counts(moe_, workload_, kTokens, layer_.degrees); }

  /// Largest differences from the reference layer, over all ranks.
  Difference differences(const LayerStrategy& run) {
    const Candidate c = candidate(run);
    const std::int64_t tp = layer_.degrees.tp, tokens = kTokens * tp;
    const Program program = lower_moe_layer(moe_, kHidden, tokens, workload_, c, layer_.per_node);
    const RoutingCounts counts = expert_counts(program.routings.front());
    TokenChoices choices;
    for (std::int32_t s = 0; s < counts.sources(); ++s)
      choices.push_back(planned_choices(counts, RankId(s), moe_.top_k, kSeed));
    ReferenceExecutor machine(program, choices, moe_.top_k, layer_.gated, loss);
    const MoeWeights weights = made_weights(shape_, Dtype::Fp32, kSeed);
    for (std::int32_t r = 0; r < program.world_size; ++r) fill(machine, program, RankId(r), weights, counts);
    machine.run(BlockId(0));
    machine.run(BlockId(1));
    return compared(machine, program, weights, counts, run);
  }

 private:
  static constexpr std::int64_t kHidden = 12;
  static constexpr std::int64_t kTokens = 6;  // of each source

  static Row row(const Matrix& m, std::int64_t r) { return {m.row(r).begin(), m.row(r).end()}; }

  /// Columns of the shard of a rank: of both halves of a gated expert.
  Row shard(const Row& up, std::int64_t position) const {
    const auto size = static_cast<std::size_t>(8 / layer_.degrees.esp), at = static_cast<std::size_t>(position) * size;
    Row out(up.begin() + static_cast<std::ptrdiff_t>(at), up.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (layer_.gated)
      out.insert(out.end(), up.begin() + static_cast<std::ptrdiff_t>(8 + at),
                 up.begin() + static_cast<std::ptrdiff_t>(8 + at + size));
    return out;
  }

  void fill(ReferenceExecutor& machine, const Program& program, RankId rank, const MoeWeights& weights,
            const RoutingCounts& counts) {
    const std::int64_t tp = layer_.sequence_parallel ? 1 : layer_.degrees.tp, first = rank.value() / tp * tp;
    for (std::int64_t s = first; s < first + tp; ++s) {
      const RankId source(static_cast<std::int32_t>(s));
      const Matrix in = made_tokens(shape_, counts, source, Dtype::Fp32, kSeed);
      const Matrix gradient = made_gradient(shape_, in.rows, source, Dtype::Fp32, kSeed);
      for (std::int64_t t = 0; t < in.rows; ++t) {
        machine.set(rank, "ffn.in", {.source = s, .ordinal = t}, row(in, t));
        machine.set(rank, "d.moe.out", {.source = s, .ordinal = t}, row(gradient, t));
      }
    }
    for (std::int64_t i = 0; i < kHidden; ++i) machine.set(rank, "gate.weight", {.ordinal = i}, row(weights.gate, i));
    const std::int64_t position = rank.value() % layer_.degrees.esp, rows = 8 / layer_.degrees.esp;
    for (std::int64_t e = 0; e < layer_.experts; ++e) {
      const auto at = static_cast<std::size_t>(e);
      // Weights of copies have to come from their homes.
      for (std::int64_t i = 0; i < kHidden && is_home(program, rank, e); ++i)
        machine.set(rank, "expert.w_up", {.expert = e, .ordinal = i}, shard(row(weights.up[at], i), position));
      for (std::int64_t i = 0; i < rows && is_home(program, rank, e); ++i)
        machine.set(rank, "expert.w_down", {.expert = e, .ordinal = i}, row(weights.down[at], position * rows + i));
      // Gradients are added up, from zero.
      const auto up_columns = static_cast<std::size_t>((layer_.gated ? 2 : 1) * rows);
      for (std::int64_t i = 0; i < kHidden; ++i)
        machine.set(rank, "d.expert.w_up", {.expert = e, .ordinal = i}, Row(up_columns, 0.0));
      for (std::int64_t i = 0; i < rows; ++i)
        machine.set(rank, "d.expert.w_down", {.expert = e, .ordinal = i}, Row(kHidden, 0.0));
    }
  }

  /// Of a placed expert; of others every rank has the weights.
  bool is_home(const Program& program, RankId rank, std::int64_t expert) const {
    if (!placement_) return true;
    const GroupFamily& holders = program.group(program.routings.front().holders);
    return placement_->experts[static_cast<std::size_t>(expert)].home.value() == holders.position(rank);
  }

  static void widen(double& most, const Row& a, const Row& b) {
    REQUIRE(a.size() == b.size());
    for (std::size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  }

  Difference compared(const ReferenceExecutor& machine, const Program& program, const MoeWeights& weights,
                      const RoutingCounts& counts, const LayerStrategy& run) {
    const CodecPair codec = run.codec;
    Wire wire;
    if (codec.dispatch) wire.dispatch = [&](std::span<double> r) { loss(*codec.dispatch, r); };
    if (codec.combine) wire.combine = [&](std::span<double> r) { loss(*codec.combine, r); };
    wire.weighs_at_experts = workload_.gate_weights == GateWeights::InExperts || run.all_to_all->deduplicates();
    Difference most;
    MoeWeights sum = weights;
    for (auto* part : {&sum.up, &sum.down})
      for (Matrix& m : *part) std::fill(m.values.begin(), m.values.end(), 0.0);
    const std::int64_t tp = layer_.sequence_parallel ? 1 : layer_.degrees.tp;
    for (std::int32_t s = 0; s < counts.sources(); ++s) {
      const Matrix in = made_tokens(shape_, counts, RankId(s), Dtype::Fp32, kSeed);
      const Matrix gradient = made_gradient(shape_, in.rows, RankId(s), Dtype::Fp32, kSeed);
      const MoeForward forward = moe_forward(shape_, StoredWeights(weights), in, std::nullopt, wire);
      const MoeGradients back = moe_backward(shape_, StoredWeights(weights), in, forward, gradient, wire);
      const std::int64_t first = s / tp * tp;
      for (std::int64_t r = first; r < first + tp; ++r) {
        const RankId rank(static_cast<std::int32_t>(r));
        for (std::int64_t t = 0; t < in.rows; ++t) {
          const RowKey key{.source = s, .ordinal = t};
          widen(most.output, machine.buffer(rank, "moe.out").at(key), row(forward.output, t));
          widen(most.gradient, machine.buffer(rank, "d.ffn.in").at(key), row(back.tokens, t));
        }
      }
      for (std::size_t e = 0; e < sum.up.size(); ++e) {
        for (std::size_t i = 0; i < sum.up[e].values.size(); ++i) sum.up[e].values[i] += back.weights.up[e].values[i];
        for (std::size_t i = 0; i < sum.down[e].values.size(); ++i)
          sum.down[e].values[i] += back.weights.down[e].values[i];
      }
    }
    compare_weights(machine, program, sum, most);
    return most;
  }

  static void add(Row& to, const Row& more) {
    if (to.empty()) to.assign(more.size(), 0.0);
    for (std::size_t j = 0; j < more.size(); ++j) to[j] += more[j];
  }

  /// Gradients of weights are sums over the sources of one group of holders, and what tensor-parallel ranks send twice
  /// counts twice.
  void compare_weights(const ReferenceExecutor& machine, const Program& program, const MoeWeights& sum,
                       Difference& most) {
    const std::int64_t rows = 8 / layer_.degrees.esp;
    double factor = 0;
    for (std::int64_t e = 0; e < layer_.experts; ++e) {
      std::vector<Row> up(static_cast<std::size_t>(kHidden)), down(8);
      for (std::int32_t r = 0; r < program.world_size; ++r) {
        const BufferRows& d_up = machine.buffer(RankId(r), "d.expert.w_up");
        const BufferRows& d_down = machine.buffer(RankId(r), "d.expert.w_down");
        const std::int64_t position = r % layer_.degrees.esp;
        if (!d_down.contains({.expert = e, .ordinal = 0}) || !is_home(program, RankId(r), e)) continue;
        for (std::int64_t i = 0; i < kHidden && placement_ && layer_.degrees.esp == 1; ++i)
          add(up[static_cast<std::size_t>(i)], d_up.at({.expert = e, .ordinal = i}));
        for (std::int64_t i = 0; i < rows; ++i) {
          add(down[static_cast<std::size_t>(position * rows + i)], d_down.at({.expert = e, .ordinal = i}));
        }
      }
      for (std::int64_t i = 0; i < 8; ++i) {
        const Row expected = row(sum.down[static_cast<std::size_t>(e)], i);
        const Row& got = down[static_cast<std::size_t>(i)];
        if (got.empty()) continue;
        for (std::size_t j = 0; j < expected.size(); ++j) {
          if (factor == 0 && std::abs(expected[j]) > 1e-3) factor = std::round(got[j] / expected[j]);
          most.down = std::max(most.down, std::abs(got[j] - std::max(factor, 1.0) * expected[j]));
        }
      }
      for (std::int64_t i = 0; i < kHidden && !up.front().empty(); ++i) {
        const Row expected = row(sum.up[static_cast<std::size_t>(e)], i);
        for (std::size_t j = 0; j < expected.size(); ++j) {
          const double got = up[static_cast<std::size_t>(i)][j];
          most.up = std::max(most.up, std::abs(got - std::max(factor, 1.0) * expected[j]));
        }
      }
    }
  }

  Layer layer_;
  std::optional<Placement> placement_;
  Workload workload_;
  Moe moe_;
  MoeShape shape_;
};

Workload workload(RoutingShape shape) {
  Workload w{};
  w.name = "values";
  w.mode = Mode::Train;
  w.dtype = Dtype::Fp32;
  w.routing.shape = shape;
  w.routing.sampled = true;
  w.codecs.allowed = {WireFormat::Fp16, WireFormat::Int8, WireFormat::Fp8Block, WireFormat::Zfp};
  return w;
}

}  // namespace

TEST_CASE("Every way to run an MoE layer gives the reference's values", "[slow]") {
  const std::vector<Layer> layers{
      {{.dp = 8, .ep = 8}, 4, 8, RoutingShape::Uniform, true},
      {{.dp = 8, .ep = 8}, 2, 11, RoutingShape::Zipf, false},
      {{.dp = 8, .edp = 2, .ep = 4}, 2, 6, RoutingShape::ZeroLoad, true},
      {{.dp = 4, .tp = 2, .edp = 1, .ep = 4, .esp = 2}, 4, 8, RoutingShape::Zipf, true},
      {{.dp = 4, .tp = 2, .edp = 2, .ep = 4}, 4, 5, RoutingShape::HotExpert, false},
      {{.dp = 2, .tp = 4, .edp = 1, .ep = 4, .esp = 2}, 4, 4, RoutingShape::Uniform, true, true},
  };
  std::int64_t runs = 0;
  const auto run_all = [&](const Layer& layer, const Workload& w) {
    Check check(layer, w);
    const Candidate any = check.candidate({"baseline", "linear", 1});
    for (const LayerStrategy& run : executed_strategies(12, w, any, layer.per_node)) {
      // Gathered shards of weights are rows that this machine cannot tell apart.
      if (layer.degrees.esp > 1 && run.schedule.name().starts_with("tutel_")) continue;
      INFO(strategy_text(run) << ", " << layer.experts << " experts, ep " << layer.degrees.ep << " esp "
                              << layer.degrees.esp << " tp " << layer.degrees.tp);
      const Difference d = check.differences(run);
      // Of an expert cut into shards each partial sum is coded, where the reference codes their sum.
      const bool codes_parts = layer.degrees.esp > 1 && run.codec.combine;
      const double tolerance = codes_parts ? 2 * static_cast<double>(layer.degrees.esp + 1) * kCoarsestStep : 1e-9;
      CHECK(d.output < tolerance);
      CHECK(d.gradient < tolerance);
      CHECK(d.down < 1e-9);
      ++runs;
    }
  };
  for (const Layer& layer : layers) run_all(layer, workload(layer.shape));
  CHECK(runs > 100);
  runs = 0;
  for (const Layer& layer : layers) {  // of shards only where they gather their choices
    Workload w = workload(layer.shape);
    w.gate_weights = GateWeights::InExperts;
    run_all(layer, w);
  }
  CHECK(runs > 50);
}

namespace {

/// Ranks of a machine with room for so many redundant experts each.
PlacementDevices devices_of(const Layer& layer, std::int64_t redundant) {
  const std::int64_t ranks = layer.degrees.ep, share = (layer.experts + ranks - 1) / ranks;
  return {.ranks = ranks,
          .ranks_per_node = std::max<std::int64_t>(1, layer.per_node / layer.degrees.esp),
          .slots = share + redundant,
          .token_time = Seconds(1e-6),
          .token_bytes = Bytes(1e3),
          .parameter_bytes = Bytes(2e3),
          .gradient_bytes = Bytes(2e3),
          .state_bytes = Bytes(6e3),
          .rank_bandwidth = BytesPerSecond(10e9),
          .nic_bandwidth = BytesPerSecond(1e9),
          .node_bandwidth = BytesPerSecond(2e9)};
}

Placement random_placement(const Layer& layer, std::uint64_t seed) {
  return tests::random_placement(layer.experts, layer.degrees.ep, seed);
}

std::vector<Layer> placed_layers() {
  return {
      {{.dp = 8, .ep = 8}, 4, 8, RoutingShape::Zipf, true},
      {{.dp = 8, .ep = 8}, 2, 11, RoutingShape::HotExpert, false},         // experts that do not divide
      {{.dp = 8, .edp = 2, .ep = 4}, 2, 6, RoutingShape::ZeroLoad, true},  // experts without load, and replicas
      {{.dp = 8, .ep = 8}, 4, 5, RoutingShape::Zipf, false},               // more ranks than experts
      {{.dp = 4, .tp = 2, .edp = 1, .ep = 4, .esp = 2}, 4, 8, RoutingShape::Zipf, true},
      {{.dp = 4, .tp = 2, .edp = 2, .ep = 4}, 4, 5, RoutingShape::HotExpert, false},
  };
}

void check_placed(const Layer& layer, const Placement& placement, const LayerStrategy& run, const std::string& what) {
  Check check(layer, workload(layer.shape), placement);
  INFO(what << ": " << strategy_text(run) << ", " << layer.experts << " experts, ep " << layer.degrees.ep << " esp "
            << layer.degrees.esp << " tp " << layer.degrees.tp);
  CHECK(check.differences(run).most() < 1e-9);
}

}  // namespace

TEST_CASE("Every strategy's placement leaves the layer's values as they are", "[slow]") {
  std::int64_t moved = 0;
  for (const Layer& layer : placed_layers()) {
    const GroupFamily holders{"ep", layer.degrees.ep, layer.degrees.esp};
    const RoutingCounts counts = counts_by_position(Check(layer, workload(layer.shape)).asked(), holders);
    for (const auto& strategy : placement_strategies()) {
      const PlacementAnswer answer = strategy->place({counts, devices_of(layer, 2)});
      if (!answer.placement) continue;
      moved += *answer.placement != contiguous_placement(layer.experts, layer.degrees.ep) ? 1 : 0;
      const std::string name(strategy->name());
      check_placed(layer, *answer.placement, {"baseline", "linear", 1}, name);
      check_placed(layer, *answer.placement, {"pipelined", "linear", 2}, name);
    }
  }
  CHECK(moved > 50);
}

TEST_CASE("Every way to run an MoE layer takes placed experts", "[slow]") {
  std::uint64_t seed = 0;
  for (const Layer& layer : placed_layers()) {
    Workload plain = workload(layer.shape);
    plain.codecs.allowed.clear();
    const Candidate any = Check(layer, plain, random_placement(layer, 0)).candidate({"baseline", "linear", 1});
    for (const LayerStrategy& run : executed_strategies(12, plain, any, layer.per_node)) {
      if (layer.degrees.esp > 1 && run.schedule.name().starts_with("tutel_")) continue;  // as above
      if (run.pipeline_degree <= 4) check_placed(layer, random_placement(layer, seed++), run, "random");
    }
  }
  CHECK(seed > 50);
}

}  // namespace moeplan::tests::reference_executor_test
