#include "planner/runs/predict_runs.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/evaluation/evaluation.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/run_plan.hpp"

namespace moeplan::tests::predict_runs_test {

using profiler::RunRow;
using profiler::RunStatus;
using profiler::ScoredRun;

namespace {

RunRow row() {
  RunRow r;
  r.id = "a";
  r.cluster = "dgx_h100";
  r.world = 8;
  r.model = "moonshotai/Moonlight-16B-A3B";
  r.precision = "bf16";
  r.tp = 2;
  r.sp = r.pp = r.vp = r.cp = r.etp = r.zero = r.micro_batch = 1;
  r.ep = 8;
  r.global_batch = 4;
  r.sequence_length = 4096;
  r.dispatcher = "nccl";
  r.recompute = "none";
  r.gradient_dtype = r.optimizer_dtype = "bf16";
  r.step_time = Seconds(0.5);
  return r;
}

ScoredRun predicted(const RunRow& r) { return runs::predict_runs(std::vector<RunRow>{r}).front(); }

}  // namespace

TEST_CASE("The prediction of a row is that of its plan") {
  const ScoredRun scored = predicted(row());
  REQUIRE(scored.status == RunStatus::Ok);
  runs::RunPlanner planner;
  const auto plan = std::get<runs::RunPlan>(planner.plan(row()));
  const ClusterSpec spec = read_cluster(planner::load_cluster_document(planner::find_config("clusters", "dgx_h100")));
  const Cluster cluster = build_cluster(spec, 8);
  const planner::Problem problem(plan.model, plan.workload, cluster);
  const planner::Evaluation e = planner::evaluate(problem, plan.candidate, planner::Depth::Makespan);
  CHECK(scored.predicted->value() == e.evaluated.makespan->seconds().value());
  CHECK(*scored.predicted_memory == e.evaluated.memory.total());
  CHECK(scored.error() == Approx(scored.predicted->value() / 0.5 - 1));
}

TEST_CASE("Flags change predictions as their mechanisms say") {
  const ScoredRun plain = predicted(row());
  const auto with = [](auto change) {
    RunRow r = row();
    change(r);
    return predicted(r);
  };
  SECTION("gradients and moments in fp32 need more memory") {
    CHECK(*with([](RunRow& r) { r.gradient_dtype = "fp32"; }).predicted_memory > *plain.predicted_memory);
    CHECK(*with([](RunRow& r) { r.optimizer_dtype = "fp32"; }).predicted_memory > *plain.predicted_memory);
  }
  SECTION("recomputed modules take time and save memory") {
    const ScoredRun none = with([](RunRow& r) { r.optimizer_dtype = "fp32"; });
    for (const char* modules : {"mla_up_proj", "moe_act", "layernorm", "moe", "shared_experts"}) {
      CAPTURE(modules);
      const ScoredRun again = with([&](RunRow& r) { r.optimizer_dtype = "fp32", r.recompute = modules; });
      CHECK(*again.predicted > *none.predicted);
      CHECK(*again.predicted_memory < *none.predicted_memory);
      SECTION(std::string("no memory with moments in 16 bits, whose update needs more: ") + modules) {
        const ScoredRun with_casts = with([&](RunRow& r) { r.recompute = modules; });
        CHECK(*with_casts.predicted > *plain.predicted);
        CHECK(*with_casts.predicted_memory == *plain.predicted_memory);
      }
    }
  }
  SECTION("fewer recomputed layers take less time and more memory") {
    const auto recomputed = [&](const char* modules, const char* layers) {
      return with([&](RunRow& r) {
        r.optimizer_dtype = "fp32";
        r.recompute = modules;
        r.recompute_layers = layers;
      });
    };
    const ScoredRun none = recomputed("none", ""), all = recomputed("full", ""), some = recomputed("full", "first:1");
    CHECK(*some.predicted < *all.predicted);
    CHECK(*some.predicted > *none.predicted);
    CHECK(*some.predicted_memory > *all.predicted_memory);
    CHECK(*some.predicted_memory < *none.predicted_memory);
  }
  SECTION("what the planner may choose is chosen") {
    CHECK(with([](RunRow& r) { r.micro_batch.reset(); }).status == RunStatus::Ok);
  }
}

TEST_CASE("A row that does not fit says by how much, and one that cannot be expressed why") {
  RunRow big = row();
  big.model = "deepseek-ai/DeepSeek-V3";
  const ScoredRun scored = predicted(big);
  CHECK(scored.status == RunStatus::Infeasible);
  CHECK_FALSE(scored.predicted);
  CHECK(scored.reason.rfind("needs ", 0) == 0);
  CHECK(scored.reason.find(" GiB of ") != std::string::npos);
  RunRow unknown = row();
  unknown.cluster = "dgx_h101";
  CHECK(predicted(unknown).reason.find("dgx_h100") != std::string::npos);
}

TEST_CASE("A run that was timed did fit: unknown recomputation is the least that fits") {
  RunRow r = row();
  r.micro_batch = 8;
  r.global_batch = 32;
  r.recompute = "none";
  REQUIRE(predicted(r).status == RunStatus::Infeasible);
  r.recompute = "";
  SECTION("and said") {
    const ScoredRun scored = predicted(r);
    CHECK(scored.status == RunStatus::Ok);
    CHECK(std::any_of(scored.assumed.begin(), scored.assumed.end(), [](const std::string& text) {
      return text.starts_with("recompute ") && text.ends_with(": with less it does not fit");
    }));
  }
  SECTION("but a run that was not timed may not have fitted") {
    r.step_time.reset();
    r.tokens_per_s_per_gpu.reset();
    CHECK(predicted(r).status == RunStatus::Infeasible);
  }
}

TEST_CASE("A dispatcher's kernels move the rows inside a node and between nodes") {
  RunRow r = row();
  r.dispatcher = "deepep";
  r.dispatcher_sms = 24;
  const ScoredRun inside = predicted(r);
  CHECK(inside.status == RunStatus::Ok);
  CHECK(inside.approximations.empty());
  r.world = 32;
  r.ep = 32;
  r.global_batch = 32;
  const ScoredRun across = predicted(r);
  CHECK(across.status == RunStatus::Ok);
  CHECK(across.approximations.empty());
  runs::RunPlanner planner;
  const auto candidate = [&] { return std::get<runs::RunPlan>(planner.plan(r)).candidate; };
  CHECK(candidate().all_to_all == "deepep");
  CHECK(candidate().dispatcher_sms == 24);
  SECTION("NCCL's messages hold no SMs of their own") {
    r.dispatcher = "nccl";
    CHECK(candidate().all_to_all == "linear");
    CHECK(candidate().dispatcher_sms == 0);
  }
  SECTION("it is priced by the links where a cluster has no figures of it") {
    r.cluster = "dgx_a100";
    CHECK(predicted(r).approximations ==
          std::vector<std::string>{"dispatcher deepep: priced by the links, dgx_a100 has no figures of it"});
  }
}

TEST_CASE("A job on NVLink domains of 72 GPUs takes 64 of each") {
  RunRow r = row();
  r.cluster = "gb200_nvl72";
  r.world = 256;
  r.global_batch = 256;
  r.ep = 64;
  const ScoredRun scored = predicted(r);
  CHECK(scored.status == RunStatus::Ok);
  REQUIRE_FALSE(scored.assumed.empty());
  CHECK(scored.assumed.back() == "cluster gb200_nvl72: 64 of 72 GPUs in each NVLink domain");
}

}  // namespace moeplan::tests::predict_runs_test
