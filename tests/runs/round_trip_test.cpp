// Export and import of plans: what one writes the other reads.
#include <catch2/catch.hpp>
#include <filesystem>

#include "planner/launch/export_plan.hpp"
#include "planner/launch/launch_script.hpp"
#include "planner/report/plan_difference.hpp"
#include "planner/runs/framework_job.hpp"
#include "planner/runs/imported_plan.hpp"
#include "planner/runs/megatron_arguments.hpp"
#include "planner/runs/run_model.hpp"
#include "planner/search/place_experts.hpp"
#include "profiler/tables/run_table.hpp"
#include "tests/runs/recorded_jobs.hpp"

namespace moeplan::tests::round_trip_test {

using namespace planner;
using runs::ImportedPlan;

namespace {

ImportedPlan imported(const std::string& text, const std::string& file, const std::string& cluster,
                      std::optional<std::int64_t> world = {}) {
  runs::MegatronJob job = runs::read_megatron_arguments(text, file);
  job.row.cluster = cluster;
  job.row.world = world.value_or(job.world.value_or(0));
  auto plan = runs::imported_plan(job.row, read_model(job.model));
  if (const auto* refusal = std::get_if<runs::Refusal>(&plan)) FAIL(refusal->reason);
  return std::get<ImportedPlan>(std::move(plan));
}

Launch launch(const Plan& plan, const Inputs& inputs, const std::string& cluster, const Framework& framework) {
  return launch_of({plan, inputs, build_cluster_of(cluster, inputs.cluster, plan.world_size), framework});
}

/// The configuration file inside a script.
std::string config_in(const std::string& script) {
  const std::string begin = "<<'END'\n";
  const std::size_t at = script.find(begin) + begin.size();
  return script.substr(at, script.find("END\n", at) - at);
}

/// The candidate with the layout that it has, also where the planner divides the layers.
Candidate with_layout(Candidate c, const Inputs& inputs) {
  for (const StagePart& part : stage_parts(inputs.model, inputs.workload, c)) {
    PipelineLayout& layout = c.layout;
    if (layout.parts.size() == static_cast<std::size_t>(c.degrees.pp * c.virtual_stages)) break;
    layout.parts.push_back({part.embedding, std::ssize(part.layers), part.mtp_layers, part.head});
  }
  return c;
}

void check_equal(const Plan& plan, const Plan& again) {
  const Inputs inputs = read_inputs(plan.inputs), read = read_inputs(again.inputs);
  CHECK(read.model == inputs.model);
  Workload workload = inputs.workload;
  workload.micro_batch = read.workload.micro_batch;  // the plan decides it
  workload.name = read.workload.name;
  workload.recompute = read.workload.recompute;
  CHECK(read.workload == workload);
  CHECK(with_layout(again.candidate, read) == with_layout(plan.candidate, inputs));
  CHECK(again.world_size == plan.world_size);
  CHECK(again.makespan == plan.makespan);
}

/// A plan of a shipped model by the framework, without a search.
Plan plan_of(const std::string& model, const Framework& framework, Candidate candidate,
             std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), framework.overrides.begin(), framework.overrides.end());
  overrides.push_back("workload.recompute=" + name_of(candidate.recompute));
  const PlanInputs documents = load_inputs("dgx_h100", model, "default", overrides);
  const Inputs inputs = read_inputs(documents);
  const Cluster cluster = build_cluster_of("dgx_h100", inputs.cluster, 64);
  const Problem problem(inputs.model, inputs.workload, cluster);
  if (candidate.placement != kContiguous) {
    candidate =
        with_placement(inputs.model, inputs.workload, problem.first_stage(candidate), candidate, candidate.placement,
                       candidate.redundant_experts, goal_within_iteration(problem.layer_kinds(), candidate, 64))
            .candidate;
  }
  const Prediction p = predict(problem, candidate);
  return {.inputs = documents,
          .world_size = 64,
          .candidate = candidate,
          .makespan = p.makespan,
          .estimate = p.estimate,
          .global_bound = p.estimate.lower_bound};
}

}  // namespace

TEST_CASE("A plan that is exported to Megatron-LM or Megatron-Bridge is imported as the same plan", "[slow]") {
  const auto target = GENERATE(as<std::string>{}, "megatron", "megatron@0.15", "megatron-bridge");
  const auto model = GENERATE(as<std::string>{}, "mixtral_8x7b", "deepseek_v2", "qwen3_30b_a3b", "moonlight_16b_a3b");
  CAPTURE(target, model);
  const Framework framework = load_framework(target);
  Candidate c;
  c.degrees = {.pp = 2, .dp = 16, .tp = 2, .edp = 2, .ep = 16};
  if (model == "mixtral_8x7b") c.degrees = {.pp = 2, .dp = 16, .tp = 2, .edp = 4, .ep = 8};
  c.sequence_parallel = true;
  c.all_to_all = c.degrees.ep > 8 ? "deepep" : "linear";
  c.dispatcher_sms = c.degrees.ep > 8 && target != "megatron-bridge" ? 24 : 0;
  c.recompute = Recompute{RecomputeModule::MoeActivation, RecomputeModule::Layernorm};
  const Plan plan = plan_of(model, framework, c, {"workload.precision=fp8_current", "workload.optimizer_dtype=bf16"});
  const Launch job = launch(plan, read_inputs(plan.inputs), "dgx_h100", framework);
  const std::string script = launch_script(job, framework);
  const bool is_bridge = framework.name == "megatron-bridge";
  const ImportedPlan again = imported(is_bridge ? config_in(script) : script, is_bridge ? "overrides.yaml" : "run.sh",
                                      "dgx_h100", is_bridge ? std::optional<std::int64_t>(64) : std::nullopt);
  check_equal(plan, again.plan);
}

TEST_CASE("Layers that are recomputed are exported and imported") {
  const Framework framework = load_framework("megatron");
  Candidate c;
  c.degrees = {.pp = 2, .dp = 16, .tp = 2, .edp = 4, .ep = 8};
  c.sequence_parallel = true;
  c.recompute = Recompute::Full;
  const Plan plan = plan_of("mixtral_8x7b", framework, c, {"workload.recompute_layers=first:3"});
  const std::string script = launch_script(launch(plan, read_inputs(plan.inputs), "dgx_h100", framework), framework);
  CHECK(script.find("--recompute-method block") != std::string::npos);
  const ImportedPlan again = imported(script, "run.sh", "dgx_h100", std::nullopt);
  CHECK(name_of(read_inputs(again.plan.inputs).workload.recompute_layers) == "first:3");
  check_equal(plan, again.plan);
}

namespace {

/// What the target cannot say is given to both: `given` overrides the workload.
void check_round_trip(const std::string& target, const std::string& model, const Candidate& candidate,
                      const std::vector<std::string>& said, const std::vector<std::string>& given,
                      const runs::JobContext& more = {}) {
  CAPTURE(target, model);
  const Framework framework = load_framework(target);
  std::vector<std::string> all = given;
  all.insert(all.end(), said.begin(), said.end());
  const Plan plan = plan_of(model, framework, candidate, all);
  const Launch job = launch(plan, read_inputs(plan.inputs), "dgx_h100", framework);
  CAPTURE(job.untranslated);
  CHECK(job.untranslated.empty());
  const std::string script = launch_script(job, framework);
  std::vector<std::string> overrides = framework.overrides;
  overrides.insert(overrides.end(), given.begin(), given.end());
  runs::JobContext context = more;
  context.file = "run.sh";
  context.documents = load_inputs("dgx_h100", model, "default", overrides);
  check_equal(plan, runs::imported_job(runs::read_job_settings(script, "run.sh", framework), framework, context).plan);
}

const std::vector<std::string> kRoundTripModels{"mixtral_8x7b", "deepseek_v2", "qwen3_30b_a3b", "moonlight_16b_a3b"};

}  // namespace

TEST_CASE("A plan that is exported to DeepSpeed is imported as the same plan", "[slow]") {
  const std::string model = GENERATE(from_range(kRoundTripModels));
  Candidate c;
  c.degrees = {.dp = 32, .tp = 2, .edp = 8, .ep = 8};
  c.micro_batch = 2;
  check_round_trip("deepspeed", model, c,
                   {"workload.zero_stage=2", "workload.gradient_dtype=bf16", "workload.global_batch=512"}, {},
                   {.tp = 2, .ep = 8});
  check_round_trip("deepspeed", model, c, {"workload.dtype=fp16", "workload.overlap_gradients=false"}, {},
                   {.tp = 2, .ep = 8});
}

TEST_CASE("A plan that is exported to TorchTitan is imported as the same plan", "[slow]") {
  const std::string model = GENERATE(from_range(kRoundTripModels));
  Candidate c;
  c.degrees = {.pp = 2, .dp = 16, .tp = 2, .edp = 4, .ep = 8};
  c.sequence_parallel = true;
  c.recompute = Recompute::Full;
  check_round_trip("torchtitan", model, c,
                   {"workload.precision=fp8_current", "workload.zero_stage=2", "workload.main_weights=separate"}, {});
  c.virtual_stages = 2;
  c.degrees.edp = 2;
  c.degrees.esp = 2;
  c.recompute = Recompute::PerOperation;
  check_round_trip("torchtitan", model, c, {"workload.sequence_length=2048", "workload.zero_stage=3"}, {});
  Candidate flat;
  flat.degrees = {.dp = 64, .edp = 4, .ep = 16};
  if (model == "mixtral_8x7b") flat.degrees = {.dp = 64, .edp = 8, .ep = 8};
  flat.all_to_all = flat.degrees.ep > 8 ? "node_dedup" : "linear";
  flat.micro_batch = 2;
  check_round_trip("torchtitan", model, flat,
                   {"workload.dtype=fp32", "workload.main_weights=separate", "workload.global_batch=1024"}, {});
  check_round_trip("torchtitan", model, flat,
                   {"workload.main_weights=none", "workload.gradient_dtype=bf16", "workload.optimizer_dtype=bf16",
                    "workload.global_batch=1024"},
                   {});
}

TEST_CASE("A plan that is exported to a server is imported as the same plan", "[slow]") {
  const std::string target = GENERATE("sglang", "vllm"), model = GENERATE(from_range(kRoundTripModels));
  Candidate c;
  c.degrees = {.dp = 64, .edp = 1, .ep = 64};
  if (model == "mixtral_8x7b") c.degrees = {.pp = 8, .dp = 4, .tp = 2, .edp = 1, .ep = 8};
  if (model == "moonlight_16b_a3b") c.degrees = {.pp = 2, .dp = 16, .tp = 2, .edp = 1, .ep = 32};
  c.all_to_all = c.degrees.ep > 8 ? "node_dedup" : "linear";
  c.micro_batch = 2;
  check_round_trip(target, model, c, {"workload.precision=fp8_block"}, {"workload.global_batch=1024"});
  Candidate sharded;
  sharded.degrees = {.pp = 8, .dp = 2, .tp = 4, .edp = 2, .esp = 4};
  check_round_trip(target, model, sharded, {"workload.dtype=fp16"}, {});
}

TEST_CASE("Redundant experts that EPLB places are exported to SGLang and imported", "[slow]") {
  const bool is_global = GENERATE(true, false);
  Candidate c;
  c.degrees = {.pp = 2, .dp = 32, .edp = 1, .ep = 32};
  c.all_to_all = "node_dedup";
  c.placement = is_global ? "eplb_global" : "eplb_hierarchical";
  c.redundant_experts = 1;
  check_round_trip("sglang", is_global ? "qwen3_30b_a3b" : "deepseek_v2", c, {},
                   {"workload.routing={shape: zipf, zipf_exponent: 1.0}"});
}

TEST_CASE("When gradients are reduced is exported and imported") {
  const auto override = GENERATE(as<std::string>{}, "workload.overlap_gradients=false", "workload.zero_stage=0");
  CAPTURE(override);
  const Framework framework = load_framework("megatron");
  Candidate c;
  c.degrees = {.dp = 64, .edp = 8, .ep = 8};
  const Plan plan = plan_of("qwen3_30b_a3b", framework, c, {override});
  const Launch job = launch(plan, read_inputs(plan.inputs), "dgx_h100", framework);
  check_equal(plan, imported(launch_script(job, framework), "run.sh", "dgx_h100").plan);
}

TEST_CASE("Published recipes are imported, exported and imported again as the same plan", "[slow]") {
  const std::filesystem::path file = MOEPLAN_SOURCE_DIR "/../shared/data/runs/fit_runs.csv";
  if (!std::filesystem::exists(file)) {
    WARN("skipped: no fit_runs.csv at ../shared/data/runs");
    return;
  }
  const Framework framework = load_framework("megatron");
  std::size_t equal = 0, all = 0;
  for (const profiler::RunRow& row : profiler::read_run_table(file)) {
    if (row.stack.find("Bridge") == std::string::npos || row.layout.empty()) continue;  // complete recipes
    ++all;
    CAPTURE(row.id);
    const auto first = runs::imported_plan(row, runs::RunPlanner().model_of(row));
    REQUIRE(std::holds_alternative<ImportedPlan>(first));
    const Plan& plan = std::get<ImportedPlan>(first).plan;
    const Inputs inputs = read_inputs(plan.inputs);
    const Launch job = launch(plan, inputs, row.cluster, framework);
    if (!job.untranslated.empty()) continue;
    const ImportedPlan again = imported(launch_script(job, framework), "run.sh", row.cluster);
    CHECK(with_layout(again.plan.candidate, read_inputs(again.plan.inputs)) == with_layout(plan.candidate, inputs));
    CHECK(again.plan.makespan == plan.makespan);
    ++equal;
  }
  CAPTURE(equal, all);
  CHECK(equal >= 20);
}

TEST_CASE("Megatron-LM's public test recipes are imported as plans, and compared", "[slow]") {
  const auto recorded = recorded_jobs();
  if (!recorded) return;
  std::vector<Plan> plans;
  std::size_t jobs = 0, compared = 0;
  for (const RecordedJob& of : *recorded) {
    if (of.world != 8) continue;  // those whose GPUs are known
    runs::MegatronJob job = runs::read_megatron_arguments(of.arguments, "job.args");
    job.row.cluster = of.cluster();
    job.row.world = of.world;
    ++jobs;
    auto plan = runs::imported_plan(job.row, read_model(job.model));
    if (auto* of_job = std::get_if<ImportedPlan>(&plan)) plans.push_back(std::move(of_job->plan));
  }
  CAPTURE(jobs, plans.size());
  CHECK(plans.size() >= 60);  // the others keep activations on the host
  for (std::size_t i = 1; i < plans.size() && compared < 24; ++i) {
    const auto predicted = [](const Plan& plan) {
      const Inputs inputs = read_inputs(plan.inputs);
      const Cluster cluster = build_cluster_of("the plan", inputs.cluster, plan.world_size);
      return predict(Problem(inputs.model, inputs.workload, cluster), plan.candidate);
    };
    const Prediction a = predicted(plans[i - 1]), b = predicted(plans[i]);
    CHECK(b.makespan == plans[i].makespan);
    CHECK_FALSE(plan_difference(plans[i - 1], a, plans[i], b).classes.empty());
    ++compared;
  }
  CHECK(compared >= 20);
}

}  // namespace moeplan::tests::round_trip_test
