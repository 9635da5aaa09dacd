// Every way to run an MoE layer gives the reference's values on ranks over MPI. One launch a number of ranks: mpirun -n
// P host_values_tests. Prints what is wrong, by case; exit code 1 then.
#include <fmt/format.h>

#include <cstdlib>

#include "cuda_runtime/host/host_backend.hpp"
#include "cuda_runtime/host/mpi/mpi_transport.hpp"
#include "cuda_runtime/layer_values.hpp"
#include "planner/all_to_all.hpp"
#include "planner/codec.hpp"
#include "planner/layer_search.hpp"
#include "planner/lower.hpp"
#include "tests/pairwise_runs.hpp"

using namespace moeplan;

namespace {

constexpr std::int64_t kHidden = 16, kFfn = 8, kTokens = 6;

struct Layer {
  std::string name;
  Degrees degrees;
  std::int64_t per_node;
  std::int64_t experts;
  RoutingShape shape;
  bool gated;
  Dtype dtype = Dtype::Fp32;
  bool sequence_parallel = false;
  double capacity = 0;  // above 0: GShard's, which overflows
  bool padded = false;
};

std::vector<Layer> layers_of(std::int64_t ranks) {
  using enum RoutingShape;
  if (ranks == 2) {
    return {{"uniform", {.dp = 2, .ep = 2}, 2, 4, Uniform, true},
            {"skewed", {.dp = 2, .ep = 2}, 1, 5, Zipf, false, Dtype::Bf16},
            {"empty experts", {.dp = 2, .ep = 2}, 1, 6, ZeroLoad, true, Dtype::Fp16},
            {"shards", {.dp = 1, .tp = 2, .ep = 1, .esp = 2}, 2, 3, Zipf, true},
            {"shards without tp", {.dp = 2, .ep = 1, .esp = 2}, 2, 3, HotExpert, false},
            {"overflowing", {.dp = 2, .ep = 2}, 2, 4, HotExpert, true, Dtype::Fp32, false, 1.0},
            {"padded", {.dp = 2, .ep = 2}, 2, 4, HotExpert, true, Dtype::Fp32, false, 1.0, true}};
  }
  if (ranks == 4) {
    return {{"uniform", {.dp = 4, .ep = 4}, 2, 4, Uniform, true},
            {"skewed", {.dp = 4, .ep = 4}, 2, 7, Zipf, false, Dtype::Bf16},
            {"empty experts", {.dp = 4, .edp = 2, .ep = 2}, 2, 6, ZeroLoad, true},
            {"tp and shards", {.dp = 2, .tp = 2, .ep = 2, .esp = 2}, 2, 4, Zipf, true},
            {"shards without tp", {.dp = 4, .ep = 1, .esp = 4}, 4, 3, HotExpert, true},
            {"overflowing", {.dp = 4, .ep = 4}, 2, 4, HotExpert, false, Dtype::Fp32, false, 1.0}};
  }
  return {
      {"uniform", {.dp = 8, .ep = 8}, 4, 8, Uniform, true},
      {"skewed", {.dp = 8, .ep = 8}, 2, 11, Zipf, false},
      {"empty experts", {.dp = 8, .edp = 2, .ep = 4}, 2, 6, ZeroLoad, true},
      {"tp and shards", {.dp = 4, .tp = 2, .edp = 1, .ep = 4, .esp = 2}, 4, 8, Zipf, true},
      {"tp", {.dp = 4, .tp = 2, .edp = 2, .ep = 4}, 4, 5, HotExpert, false},
      {"sequence parallel", {.dp = 2, .tp = 4, .edp = 1, .ep = 4, .esp = 2}, 4, 4, Uniform, true, Dtype::Fp32, true},
      {"overflowing", {.dp = 8, .ep = 8}, 4, 8, HotExpert, true, Dtype::Fp32, false, 1.0}};
}

Workload workload_of(const Layer& layer) {
  Workload w{};
  w.name = "values";
  w.mode = Mode::Train;
  w.dtype = layer.dtype;
  w.routing.shape = layer.shape;
  w.routing.sampled = true;
  w.codecs.allowed = {WireFormat::Fp16, WireFormat::Int8, WireFormat::Zfp};
  if (layer.capacity > 0) {
    w.gate = {.kind = GateKind::Capacity, .factor = layer.capacity, .is_padded = layer.padded};
  }
  return w;
}

struct Case {
  const Layer& layer;
  Workload workload;
  Candidate base;

  explicit Case(const Layer& l) : layer(l), workload(workload_of(l)) {
    base.degrees = l.degrees;
    base.sequence_parallel = l.sequence_parallel;
  }

  ValueErrors errors(const MoeRun& run, Transport& transport, RankId rank, bool& right) const {
    const Candidate c = run.in(base);
    const Moe moe{.num_experts = layer.experts,
                  .top_k = 2,
                  .expert = {.hidden_size = kFfn, .gated = layer.gated, .bias = false},
                  .shared = {},
                  .shared_gate = false,
                  .router_bias = false};
    const std::int64_t tokens = kTokens * layer.degrees.tp;
    const Program program = lower_moe_layer(moe, kHidden, tokens, workload, c, layer.per_node);
    const CodecPair codec = *parse_codec_pair(run.codec);
    const MadeLayer made = with_choices({.shape = {kHidden, kFfn, layer.experts, moe.top_k, layer.gated},
                                         .dtype = layer.dtype,
                                         .esp = layer.degrees.esp,
                                         .there = codec.there,
                                         .back = codec.back,
                                         .codecs = workload.codecs,
                                         .seed = 7,
                                         .asked = routing_counts(moe, workload, kTokens, layer.degrees)},
                                        program.routings.front().counts, kTokens);
    const auto backend =
        make_host_backend(transport, {.rank = rank, .codecs = workload.codecs, .time_out = Seconds(30)});
    Interpreter interpreter(program, rank, made.kept, {moe.top_k, layer.gated}, *backend);
    LayerValues values(program, made, interpreter);
    values.fill();
    (void)interpreter.run();
    const ValueErrors errors = values.errors();
    right = are_right(errors, made);
    return errors;
  }
};

int run(MpiSession& session, const std::string& only) {
  const auto transport = make_mpi_transport(session);
  const auto peers = make_mpi_peers(session, *transport, Seconds(60));
  std::int64_t runs = 0, wrong = 0;
  double worst = 0;
  for (const Layer& layer : layers_of(session.size())) {
    const Case c(layer);
    const std::int64_t begin = host_clock(), before = runs;
    for (const MoeRun& run : pairwise_runs(layer_runs(kHidden, c.workload, c.base, layer.per_node))) {
      // Its rows are added up at their holders, weighted: the gate's choice would have to travel with them.
      if (find_all_to_all(run.all_to_all)->deduplicates()) continue;
      const std::string name =
          fmt::format("{}, {} {} {} {}", layer.name, run.schedule, run.all_to_all, run.pipeline_degree, run.codec);
      if (name.find(only) == std::string::npos) continue;
      bool right = false;
      std::string problem;
      try {
        const ValueErrors e = c.errors(run, *transport, session.rank(), right);
        if (!right) {
          problem = fmt::format("output {:.2e}, gradient {:.2e}, weight gradient {:.2e}, {:.1f}% of {} rows off",
                                e.output, e.gradient, e.weight_gradient, 100 * e.rows_off, e.rows);
        }
        if (run.codec == "none" && layer.dtype == Dtype::Fp32) worst = std::max(worst, e.worst());
      } catch (const InputError& e) {
        problem = e.what();
      }
      ++runs;
      const std::vector<std::string> problems = peers->gather(problem);
      bool is_wrong = false;
      for (std::size_t r = 0; r < problems.size(); ++r) {
        if (problems[r].empty()) continue;
        is_wrong = true;
        fmt::print("{}: rank {}: {}\n", name, r, problems[r]);
      }
      wrong += is_wrong ? 1 : 0;
    }
    if (session.rank().value() == 0) {
      fmt::print("{}: {} ways in {:.1f} s\n", layer.name, runs - before,
                 static_cast<double>(host_clock() - begin) * 1e-9);
      std::fflush(stdout);
    }
  }
  if (session.rank().value() != 0) return EXIT_SUCCESS;
  fmt::print("{} ranks: {} ways to run a layer, {} wrong; lossless fp32 differs by at most {:.1e}\n", session.size(),
             runs, wrong, worst);
  return wrong == 0 && runs > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  MpiSession session(argc, argv);
  try {
    return run(session, argc > 1 ? argv[1] : "");
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    session.abort(EXIT_FAILURE);
  }
}
