// Parm's table III simulated on models of its two testbeds. What comes out, and where it differs from the paper's "in all
// tested cases", is written up in docs/parm.md; the table there and the one here are the same.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>

#include "model/costs/parm.hpp"
#include "planner/lower.hpp"
#include "sim/simulate.hpp"

using namespace moeplan;

namespace {

const std::filesystem::path kConfigs = std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs";

Cluster testbed(const std::string& name, std::int64_t world) {
  Node document = load_document(kConfigs / "clusters" / (name + ".yaml"));
  embed_gpu(document, {kConfigs / "gpus"});
  return build_cluster(read_cluster(document), world);
}

double simulated(const ParmProblem& p, const std::string& schedule, Workload workload, const Cluster& cluster) {
  workload.capacity_factor = p.f;
  Candidate candidate;
  candidate.degrees = {.dp = p.P / p.N_MP, .tp = p.N_MP, .ep = p.N_EP, .esp = p.N_ESP};
  candidate.schedule = schedule;
  const Moe moe{.num_experts = p.E, .top_k = p.k, .expert = {p.H, /*gated=*/false, /*bias=*/false},
                .shared = {0, false, false}, .shared_gate = false, .router_bias = false};
  const Program program = lower_moe_layer(moe, p.M, p.B * p.L, workload, candidate);
  return simulate(program, cluster, {.keep_spans = false, .network = make_fast_network}).makespan.seconds().value();
}

}  // namespace

TEST_CASE("explore") {
  const Workload workload = read_workload(load_document(kConfigs / "workloads" / "parm_grid.yaml"));
  for (const auto& [name, P] : std::vector<std::pair<std::string, std::int64_t>>{
           {"parm_testbed_a", 8}, {"parm_testbed_b", 8}, {"parm_testbed_b", 16}, {"parm_testbed_b", 32}}) {
    const Cluster cluster = testbed(name, P);
    const auto begin = std::chrono::steady_clock::now();
    std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t, double>> seen;
    for (const ParmProblem& p : parm_grid(P)) {
      if (!seen.emplace(p.N_MP, p.N_ESP, p.B * p.L, p.M, p.H, p.f).second) continue;
      const double base = simulated(p, "baseline", workload, cluster);
      const double s1 = simulated(p, "parm_s1", workload, cluster);
      const double s2 = p.N_MP == 1 ? s1 : simulated(p, "parm_s2", workload, cluster);
      const double aas = p.N_MP == 1 ? s1 : simulated(p, "parm_s2_aas", workload, cluster);
      std::printf("R %s %ld %ld %ld %ld %ld %ld %g %.9g %.9g %.9g %.9g\n", name.c_str(), P, p.N_MP, p.N_ESP, p.B * p.L,
                  p.M, p.H, p.f, base, s1, s2, aas);
    }
    std::printf("T %s %ld %zu %g s\n", name.c_str(), P, seen.size(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
  }
}
