// Parm's algorithm 1 on models of its testbeds: alpha-beta fitted to simulated collectives, as Parm fits them to
// measured ones, then S1 or S2 by eq. (13) and (14), against which of the two is faster simulated.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "model/costs/parm.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/parm/parm_grid.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::parm_algorithm_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

/// What a forward pass of the layer spends in communication, in seconds: sent, brought back, and all of it.
struct Spent {
  double dispatch = 0;  // A2A*
  double rest = 0;      // S1: A2A* and AG_MP; S2: both at once
  double gather = 0;    // S1: AG_MP
  [[nodiscard]] double all() const { return dispatch + rest; }
};

Spent spent(const ParmProblem& p, const std::string& schedule, const Cluster& cluster) {
  Workload w{};
  w.mode = Mode::Forward;
  w.dtype = Dtype::Fp32;
  w.recompute = Recompute::None;
  w.capacity_factor = p.f;
  Candidate c;
  c.degrees = {.dp = p.P / p.N_MP, .tp = p.N_MP, .ep = p.N_EP, .esp = p.N_ESP};
  c.schedule = schedule;
  const Moe moe{.num_experts = p.E,
                .top_k = p.k,
                .expert = {p.H, false, false},
                .shared = {0, false, false},
                .shared_gate = false,
                .router_bias = false};
  const Program program = lower_moe_layer(moe, p.M, p.B * p.L, w, c, cluster.ranks_per_node());
  const Timeline t = simulate(program, cluster);
  Spent out;
  SimTime first = t.makespan, last;
  for (const TimelineSpan& s : t.spans) {
    const Operation& op = program.blocks[s.block.index()].operations[static_cast<std::size_t>(s.operation)];
    if (s.rank != RankId(0)) continue;
    const double time = (s.end - s.start).seconds().value();
    if (op.op_class == OpClass::Dispatch) out.dispatch += time;
    if (op.op_class == OpClass::TensorParallel) out.gather += time;
    if (op.op_class != OpClass::Combine && op.op_class != OpClass::TensorParallel) continue;
    if (schedule == "parm_s1") out.rest += time;
    first = std::min(first, s.start);
    last = std::max(last, s.end);
  }
  if (schedule != "parm_s1") out.rest = (last - first).seconds().value();
  return out;
}

/// Least squares of t = alpha + n beta.
AlphaBeta fitted(const std::vector<std::pair<double, double>>& points) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const auto& [bytes, seconds] : points) {
    n += 1, x += bytes, y += seconds, xx += bytes * bytes, xy += bytes * seconds;
  }
  const double beta = (n * xy - x * y) / (n * xx - x * x);
  return {Seconds((y - beta * x) / n), SecondsPerByte(beta)};
}

}  // namespace

TEST_CASE("Algorithm 1 chooses between S1 and S2 as simulation does, where they are not within 1%") {
  std::int64_t layers = 0, close = 0, s2 = 0;
  for (const auto& [name, P] : std::vector<std::pair<std::string, std::int64_t>>{
           {"parm_testbed_a", 8}, {"parm_testbed_b", 8}, {"parm_testbed_b", 32}}) {
    const Cluster cluster = tests::built_cluster(name, P);
    // Communication depends on B L and M, not on H.
    using Layers = std::map<std::tuple<std::int64_t, std::int64_t, double>, ParmProblem>;
    std::map<std::pair<std::int64_t, std::int64_t>, Layers> by_degrees;
    for (const ParmProblem& p : parm_grid(P)) {
      if (p.N_MP > 1) by_degrees[{p.N_MP, p.N_ESP}].insert({{p.B * p.L, p.M, p.f}, p});
    }
    for (const auto& [degrees, problems] : by_degrees) {
      std::vector<std::pair<double, double>> all_to_all, gather, both;
      std::vector<std::tuple<ParmProblem, Spent, Spent>> times;
      for (const auto& [key, p] : problems) {
        times.emplace_back(p, spent(p, "parm_s1", cluster), spent(p, "parm_s2", cluster));
        const auto& [problem, of_s1, of_s2] = times.back();
        all_to_all.emplace_back(p.y().value(), of_s1.dispatch);
        gather.emplace_back(p.blm().value(), of_s1.gather);
        both.emplace_back(p.y().value(), of_s2.rest);
      }
      const AlphaBeta a = fitted(all_to_all), g = fitted(gather), o = fitted(both);
      for (const auto& [p, of_s1, of_s2] : times) {
        CAPTURE(name, P, p.N_MP, p.N_ESP, p.B * p.L, p.M, p.f, of_s1.all(), of_s2.all());
        ++layers;
        if (of_s2.all() < of_s1.all()) ++s2;
        if (std::abs(of_s1.all() - of_s2.all()) <= 0.01 * of_s1.all()) {
          ++close;
          continue;
        }
        CHECK((parm_choice(p, a, g, o) == ParmChoice::S1) == (of_s1.all() < of_s2.all()));
      }
    }
  }
  fmt::print("algorithm 1: {} layers, {} within 1%, S2 faster in {}\n", layers, close, s2);
  CHECK(layers == 3 * 6 * 30);
}

}  // namespace moeplan::tests::parm_algorithm_test
