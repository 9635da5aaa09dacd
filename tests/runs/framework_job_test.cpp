// Jobs as people have them.
#include "planner/runs/framework_job.hpp"

#include <catch2/catch.hpp>

#include "planner/plan/inputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::framework_job_test {

using namespace planner;
using runs::ImportedPlan;
using runs::JobContext;
using runs::JobSettings;

namespace {

ImportedPlan imported(const std::string& framework_name, const std::string& text, const std::string& file,
                      const std::string& model, JobContext context = {}) {
  const Framework framework = load_framework(framework_name);
  const JobSettings settings = runs::read_job_settings(text, file, framework);
  context.file = file;
  if (context.documents.cluster_source.empty())
    context.documents = load_inputs("dgx_h100", model, "default", framework.overrides);
  return runs::imported_job(settings, framework, context);
}

std::string error(const std::string& framework, const std::string& text, const std::string& file,
                  const JobContext& context = {}) {
  return error_of([&] { (void)imported(framework, text, file, "qwen3_30b_a3b", context); });
}

bool says(const std::vector<std::string>& texts, const std::string& part) {
  return std::any_of(texts.begin(), texts.end(),
                     [&](const std::string& t) { return t.find(part) != std::string::npos; });
}

}  // namespace

TEST_CASE("A DeepSpeed configuration that a script writes with variables") {
  const ImportedPlan job = imported("deepspeed", R"(#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
MICRO=2
GLOBAL_BATCH=$((MICRO * 64))
CONFIG_JSON=ds.json
cat <<EOT > $CONFIG_JSON
{
  "train_batch_size": $GLOBAL_BATCH,
  "train_micro_batch_size_per_gpu": ${MICRO},
  "gradient_clipping": 1.0,
  "zero_optimization": {"stage": 2, "overlap_comm": true},
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}
}
EOT
deepspeed train.py --deepspeed_config $CONFIG_JSON
)",
                                    "run.sh", "qwen3_30b_a3b", {.ep = 8});
  const Candidate& c = job.plan.candidate;
  CHECK(c.degrees == Degrees{.dp = 16, .edp = 2, .ep = 8});
  CHECK(c.micro_batch == 2);
  const Inputs inputs = read_inputs(job.plan.inputs);
  CHECK(inputs.workload.global_batch == 128);
  CHECK(inputs.workload.zero_stage == 2);
  CHECK(inputs.workload.gradient_dtype == Dtype::Bf16);
  CHECK(says(job.defaults, "tp 1"));
}

TEST_CASE("Two of DeepSpeed's batch sizes give the third, and all three the GPUs") {
  const auto degrees = [](const std::string& text, const JobContext& context) {
    return imported("deepspeed", text, "ds.json", "qwen3_30b_a3b", context).plan;
  };
  const JobContext on_16{.world = 16, .ep = 8};
  const Plan a = degrees(R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2})", on_16);
  CHECK(a.candidate.micro_batch == 2);
  CHECK(a.candidate.degrees.dp == 16);
  const Plan b = degrees(R"({"train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})", on_16);
  CHECK(read_inputs(b.inputs).workload.global_batch == 128);
  const Plan c = degrees(R"({"train_batch_size": 128, "gradient_accumulation_steps": 4})", on_16);
  CHECK(c.candidate.micro_batch == 2);
  const Plan d = degrees(
      R"({"train_batch_size": 128, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 4})", {.ep = 8});
  CHECK(d.world_size == 16);
}

TEST_CASE("A TorchTitan configuration with its defaults, and arguments that override it") {
  const std::string toml = R"([model]
name = "deepseek_v3"  # 16B
converters = []
[training]
local_batch_size = 2
seq_len = 4096
[parallelism]
data_parallel_shard_degree = -1
expert_parallel_degree = 8
[activation_checkpoint]
mode = "selective"  # ["none", "selective", "full"]
)";
  const ImportedPlan job = imported("torchtitan", toml, "train.toml", "moonlight_16b_a3b", {.world = 16});
  CHECK(job.plan.candidate.degrees == Degrees{.dp = 16, .edp = 2, .ep = 8});
  CHECK(read_inputs(job.plan.inputs).workload.global_batch == 32);
  CHECK(read_inputs(job.plan.inputs).workload.zero_stage == 3);
  CHECK(job.plan.candidate.recompute == Recompute::PerOperation);
  CHECK(read_inputs(job.plan.inputs).workload.main_weights == MainWeights::Only);
  CHECK(read_inputs(job.plan.inputs).workload.pytorch_modules == PyTorchModules::Eager);
  const ImportedPlan other =
      imported("torchtitan",
               "CONFIG_FILE=train.toml\ncat > train.toml <<'END'\n" + toml +
                   "END\ntorchrun --nproc_per_node=16 -m torchtitan.train --job.config_file ${CONFIG_FILE} "
                   "--activation_checkpoint.mode=none --training.local-batch-size 4 --model.converters "
                   "quantize.linear.float8 quantize.grouped_mm.float8\n",
               "run.sh", "moonlight_16b_a3b");
  CHECK(other.plan.candidate.recompute == Recompute::None);
  CHECK(other.plan.candidate.micro_batch == 4);
  CHECK(read_inputs(other.plan.inputs).workload.precision == Precision::Fp8Current);
}

TEST_CASE("Command lines of servers, with abbreviations and what the framework takes by default") {
  const ImportedPlan sglang =
      imported("sglang",
               "python3 -m sglang.launch_server --model deepseek-ai/DeepSeek-V2-Lite --tp 16 --dp 16 \\\n"
               "  --enable-dp-attention --moe-a2a-backend deepep --nnodes 2 --node-rank 0 --trust-remote-code "
               "--mem-fraction-static 0.8 2>&1 | tee log\n",
               "serve.sh", "qwen3_30b_a3b");
  CHECK(sglang.plan.candidate.degrees == Degrees{.dp = 16, .edp = 1, .ep = 16});
  CHECK(sglang.plan.candidate.all_to_all == "node_dedup");
  CHECK(says(sglang.defaults, "passes of one sequence"));
  const ImportedPlan sharded = imported("sglang", "--tp 4 --disable-radix-cache", "a.txt", "qwen3_30b_a3b");
  CHECK(sharded.plan.candidate.degrees == Degrees{.tp = 4, .edp = 1, .esp = 4});
  const ImportedPlan vllm =
      imported("vllm", "vllm serve Qwen/Qwen3-30B-A3B -tp 2 -dp=8 -ep --all2all-backend pplx", "a.sh", "qwen3_30b_a3b");
  CHECK(vllm.plan.candidate.degrees == Degrees{.dp = 8, .tp = 2, .edp = 1, .ep = 16});
  CHECK(says(vllm.approximations, "all-to-all pplx: priced as node_dedup"));
  const Framework framework = load_framework("vllm");
  CHECK(runs::read_job_settings("vllm serve Qwen/Qwen3-30B-A3B -tp 2", "a.sh", framework).values.at("model").scalar ==
        "Qwen/Qwen3-30B-A3B");
  const ImportedPlan yaml =
      imported("vllm", "model: m\ntensor_parallel_size: 4\nenable-expert-parallel: false\nport: 1\n", "serve.yaml",
               "qwen3_30b_a3b");
  CHECK(yaml.plan.candidate.degrees.esp == 4);
}

TEST_CASE("What is wrong in a job's settings is said with its place") {
  CHECK(error("sglang", "python -m sglang.launch_server \\\n  --tp eight --ep-size 2.5\n", "s.sh") ==
        "s.sh:2:3: --tp: tp-size of SGLang 0.5 takes int, not \"eight\"\n"
        "s.sh:2:14: --ep-size: ep-size of SGLang 0.5 takes int, not \"2.5\"");
  CHECK(error("deepspeed",
              "{\"train_batch_size\": 10, \"train_micro_batch_size_per_gpu\": 4,\n"
              "\"gradient_accumulation_steps\": 1, \"zero_optimization\": {\"stage\": 7}}",
              "d.json") ==
        "d.json:1:22: train_batch_size: 10 is not 2 replicas x 1 passes x 4 sequences\n"
        "d.json:2:66: zero_optimization.stage: 7 is no stage; expected 0 to 3");
  CHECK(error("torchtitan",
              "[parallelism]\npipeline_parallel_degree = 2\n"
              "module_fqns_per_model_part = [[\"tok_embeddings\", \"layers.0\"], [\"layers.1\", \"output\"]]\n",
              "t.toml",
              {.world = 16}) == "t.toml:3:30: parallelism.module_fqns_per_model_part: has 2 layers, the model 48");
  CHECK(error("torchtitan", "[training]\nseq_len = 4096\n", "t.toml") ==
        "t.toml: parallelism.data_parallel_shard_degree: takes all GPUs that are left; say how many there are with "
        "--world");
  CHECK(error("vllm", "echo nothing\n", "v.sh") ==
        "v.sh: has no setting of vLLM 0.19; expected its configuration or its arguments, such as all2all-backend");
  CHECK(error("vllm", "vllm serve m -tp 3 -dp 2 -ep\n", "v.sh", {.world = 8}) ==
        "v.sh: uses pp 1 x dp 2 x cp 1 x tp 3 = 6 GPUs, not 8");
  CHECK_THAT(error("sglang", "--tp 16 --ep-size 5\n", "s.sh"),
             Catch::StartsWith("s.sh:1:9: ep-size: 5 does not divide tp-size 16"));
}

}  // namespace moeplan::tests::framework_job_test
