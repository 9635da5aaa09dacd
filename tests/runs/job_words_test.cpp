#include "planner/runs/job_words.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/runs/megatron_arguments.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::job_words_test {

using namespace moeplan::runs;

namespace {

/// The values of an argument, the last of several.
std::vector<std::string> values(const JobWords& job, const std::string& name) {
  std::vector<std::string> out;
  bool takes = false;
  for (const std::string& word : job.words) {
    if (word == name) out.clear();
    if (word.starts_with("--") || word == kEndOfValues) {
      takes = word == name;
    } else if (takes) {
      out.push_back(word);
    }
  }
  return out;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("A script's arguments are those of its arrays, strings and commands") {
  const JobWords job = job_words(R"(#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=8
TP=${TP:-2}; export PP=4
LAYERS=$((PP * 8))
MODEL=(
  --num-layers $LAYERS  # not --num-layers 5
  --moe-layer-freq '([0]*3+[1]*29)'
  --swiglu
)
MOE="--num-experts 64 \
  --recompute-modules layernorm moe_act"
echo starting now
srun python pretrain_gpt.py "${MODEL[@]}" $MOE --tensor-model-parallel-size ${TP} \
  --pipeline-model-parallel-size "$PP" --data-path $DATA
)",
                                 "run.sh");
  CHECK(job.world == 32);
  CHECK(values(job, "--num-layers") == Words{"32"});
  CHECK(values(job, "--moe-layer-freq") == Words{"([0]*3+[1]*29)"});
  CHECK(values(job, "--swiglu").empty());
  CHECK(values(job, "--num-experts") == Words{"64"});
  CHECK(values(job, "--recompute-modules") == Words{"layernorm", "moe_act"});
  CHECK(values(job, "--tensor-model-parallel-size") == Words{"2"});
  CHECK(values(job, "--pipeline-model-parallel-size") == Words{"4"});
  CHECK(values(job, "--data-path") == Words{"$DATA"});
}

TEST_CASE("torchrun says how many GPUs a job has") {
  CHECK(job_words("torchrun --nnodes 2 --nproc_per_node=4 a.py", "run.sh").world == 8);
  CHECK(job_words("torchrun --nnodes 2 --nproc_per_node 4 a.py --bf16", "run.sh").world == 8);
}

TEST_CASE("Bare arguments may run over lines") {
  const JobWords job = job_words("--num-layers 16\n--hidden-size\n1024 --bf16\n", "job.args");
  CHECK(values(job, "--num-layers") == Words{"16"});
  CHECK(values(job, "--hidden-size") == Words{"1024"});
  CHECK_FALSE(job.world);
}

TEST_CASE("A log says arguments as Megatron-LM prints them") {
  const JobWords job = job_words(
      "noise --num-layers 4\n"
      "------------------------ arguments ------------------------\n"
      "  add_bias_linear ................................. False\n"
      "  add_qkv_bias .................................... False\n"
      "  fp8 ............................................. None\n"
      "  moe_layer_freq .................................. [0, 1, 1]\n"
      "  num_layers ...................................... 3\n"
      "  recompute_modules ............................... ['moe_act', 'layernorm']\n"
      "  swiglu .......................................... True\n"
      "  world_size ...................................... 64\n"
      "-------------------- end of arguments ---------------------\n"
      "iteration 1 | elapsed time per iteration (ms): 2.0\n",
      "train.log");
  CHECK(job.world == 64);
  CHECK(values(job, "--num-layers") == Words{"3"});
  CHECK(values(job, "--moe-layer-freq") == Words{"[0, 1, 1]"});
  const auto has = [&](const char* name) {
    return std::find(job.words.begin(), job.words.end(), name) != job.words.end();
  };
  CHECK(has("--disable-bias-linear"));
  CHECK(has("--swiglu"));
  CHECK_FALSE(has("--add-qkv-bias"));
  CHECK_FALSE(has("--fp8-format"));
}

TEST_CASE("YAML has arguments with dashes, or fields in sections") {
  const JobWords tests =
      job_words("MODEL_ARGS:\n  --num-layers: 12\n  --swiglu: true\n  --fp16: false\n", "model.yaml");
  CHECK(values(tests, "--num-layers") == Words{"12"});
  CHECK(std::count(tests.words.begin(), tests.words.end(), "--swiglu") == 1);
  CHECK(std::count(tests.words.begin(), tests.words.end(), "--fp16") == 0);
  const JobWords bridge = job_words(
      "mixed_precision: bf16_with_mxfp8_mixed\nmodel:\n  num_moe_experts: 8\n  add_bias_linear: false\n"
      "  recompute_modules: [moe_act, mlp]\nddp: {grad_reduce_in_fp32: false}\n",
      "overrides.yaml");
  CHECK(values(bridge, "--num-experts") == Words{"8"});
  CHECK(values(bridge, "--fp8-recipe") == Words{"mxfp8"});
  CHECK(values(bridge, "--recompute-modules") == Words{"[moe_act, mlp]"});
  for (const char* name : {"--disable-bias-linear", "--grad-reduce-in-bf16", "--bf16"})
    CHECK(std::count(bridge.words.begin(), bridge.words.end(), name) == 1);
  CHECK_THAT(error_of([] { (void)job_words("a: [1", "broken.yaml"); }), Catch::Contains("broken.yaml:1"));
}

TEST_CASE("Patterns of layers are Python's lists") {
  const auto text = [](std::string_view pattern) {
    const auto layers = layer_pattern(pattern, 100);
    std::string out;
    for (const bool is_one : layers.value_or(std::vector<bool>{})) out += is_one ? '1' : '0';
    return layers ? out : "none";
  };
  CHECK(text("([0]*3+[1]*2)") == "00011");
  CHECK(text("[0, 1,1]") == "011");
  CHECK(text("([1]+[0])*3") == "101010");
  CHECK(text("([0]*1+[1]*2)*2+[1]") == "0110111");
  for (const char* wrong : {"", "[0", "[2]", "[0]*", "([0]", "[0]*3 x", "[1]*101", "[0]**2", "[1]*-1"})
    CHECK(text(wrong) == "none");
}

}  // namespace moeplan::tests::job_words_test
