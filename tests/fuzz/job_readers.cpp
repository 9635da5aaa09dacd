// Readers of jobs, of what executions store, and of databases: those that need more than the text.
#include <memory>

#include "cuda_runtime/validate/job.hpp"
#include "cuda_runtime/validate/suite.hpp"
#include "model/costs/codec.hpp"
#include "model/text/unit_text.hpp"
#include "model/workload/cuda_graphs.hpp"
#include "model/workload/recompute.hpp"
#include "planner/candidate/pipeline_layout.hpp"
#include "planner/placement/strategies/strategy_text.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/runs/framework_job.hpp"
#include "planner/runs/imported_plan.hpp"
#include "planner/runs/megatron_arguments.hpp"
#include "planner/sweep/axis_values.hpp"
#include "planner/sweep/query/queries.hpp"
#include "planner/sweep/sweep_store.hpp"
#include "profiler/tables/table_kind.hpp"
#include "tests/fuzz/readers.hpp"
#include "tests/fuzz/text_files.hpp"

namespace moeplan::tests {

namespace {

namespace fs = std::filesystem;

const std::string kDeepspeed =
    R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2},)"
    R"( "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": "auto"}}})";

const std::string kDeepspeedScript =
    "#!/bin/bash\n#SBATCH --nodes=1 --gpus-per-node=8\nMICRO=2\nBATCH=$((MICRO * 8))\nCONFIG_JSON=ds.json\n"
    "cat <<EOT > $CONFIG_JSON\n{\"train_batch_size\": $BATCH, \"train_micro_batch_size_per_gpu\": ${MICRO}}\nEOT\n"
    "deepspeed train.py --deepspeed_config $CONFIG_JSON\n";

const std::string kTorchtitan =
    "[model]\nname = \"deepseek_v3\"  # 16B\nconverters = []\n[training]\nlocal_batch_size = 2\nseq_len = 4096\n"
    "[parallelism]\ndata_parallel_shard_degree = -1\nexpert_parallel_degree = 8\n[activation_checkpoint]\n"
    "mode = \"selective\"\n";

const std::string kSglang =
    "python3 -m sglang.launch_server --model deepseek-ai/DeepSeek-V2-Lite --tp 8 --dp 8 \\\n"
    "  --enable-dp-attention --moe-a2a-backend deepep --mem-fraction-static 0.8 2>&1 | tee log\n";

const std::string kVllm = "vllm serve Qwen/Qwen3-30B-A3B -tp 2 -dp=4 -ep --all2all-backend pplx\n";

const std::string kMegatronLog =
    "torchrun --nproc-per-node 8 pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 "
    "--num-experts 8 --expert-model-parallel-size 8 --seq-length 64 --max-position-embeddings 64 "
    "--micro-batch-size 1 --global-batch-size 8 --ffn-hidden-size 128\n"
    " iteration 1/ 10 | elapsed time per iteration (ms): 120.5 |\n";

/// A job of a framework on eight GPUs, as a plan.
Reader framework_job(const std::string& name, std::vector<std::string> examples) {
  const auto framework = std::make_shared<planner::Framework>(planner::load_framework(name));
  const auto context = std::make_shared<runs::JobContext>();
  context->file = "job";
  context->world = 8;
  context->documents = planner::load_inputs("dgx_h100", "host_moe", "host", framework->overrides);
  return {name, {}, std::move(examples), [framework, context](const std::string& text) {
            (void)runs::imported_job(runs::read_job_settings(text, "job", *framework), *framework, *context);
          }};
}

/// A Megatron-LM job on eight GPUs, as a plan; one that the model cannot express is refused with a reason.
void read_a_megatron_job(const std::string& text) {
  runs::MegatronJob job = runs::read_megatron_arguments(text, "job");
  job.row.cluster = "dgx_h100";
  job.row.world = 8;
  job.row.step_time = runs::iteration_time(text);
  (void)runs::imported_plan(job.row, read_model(job.model));
}

void read_an_override(const std::string& text) {
  static const planner::PlanInputs inputs = planner::load_inputs("loopback", "host_moe", "host", {});
  planner::PlanInputs changed = inputs;
  planner::apply_overrides(changed, {text});
  (void)planner::read_inputs(changed);
}

void read_axis_values(const std::string& text) {
  Diagnostics wrong;
  (void)sweep::values_of_text(text, {"f"}, "axis", wrong);
  wrong.throw_if_any();
}

/// Short texts inside options and keys.
void read_words(const std::string& text) {
  (void)parse_quantity<Seconds>(text);
  (void)parse_quantity<Bytes>(text);
  (void)parse_quantity<BytesPerSecond>(text);
  (void)parse_quantity<SecondsPerByte>(text);
  (void)parse_quantity<FlopsPerSecond>(text);
  (void)parse_integer(text);
  (void)planner::parse_strategy_text(text);
  (void)planner::parse_layout(text);
  (void)parse_recompute(text);
  (void)parse_cuda_graphs(text);
  (void)parse_codec_pair(text);
}

void read_a_database(const fs::path& file) {
  (void)sweep::read_sweep_head(file);
  (void)csv_of(sweep::whole_table(file, {}, {.where = "world > 0"}));
  (void)text_of(sweep::best_cases(file, {.per = {"world"}}, {}));
}

/// The bytes of a database with two cases.
std::string database_bytes() {
  const fs::path file = file_of("", ".sqlite");
  fs::remove(file);
  sweep::SweepHead head{.name = "s", .kind = "plan", .fingerprint = "f", .cases = 2, .shard = {}, .columns = {}};
  for (const char* name : sweep::kSweepColumns) head.columns.push_back({name, sweep::ColumnRole::Fixed});
  head.columns.push_back({"world", sweep::ColumnRole::Axis});
  head.columns.push_back({"makespan_s", sweep::ColumnRole::Output});
  {
    sweep::SweepStore store(file, head, false);
    for (const std::int64_t n : {0, 1}) {
      const std::int64_t world = 8 * (n + 1);
      store.add_row({n, "key" + std::to_string(n), "done", "", world, std::int64_t{1000}, world, 2.0, 0.5});
    }
    store.finish();
  }
  return content_of(file);
}

std::string answer_example() {
  validate::Answer answer{.hosts = {"node0", "node0"}, .processor = {.name = "cpu"}, .cases = {}};
  answer.cases.push_back({.refused = "",
                          .failed = "",
                          .is_right = true,
                          .values = {},
                          .stopped_by = "budget",
                          .runs = {{{{0, 5}, {5, 9}}, {{0, 4}, {4, 9}}}}});
  return validate::answer_text(answer);
}

}  // namespace

std::vector<Reader> job_readers(const fs::path& source) {
  const auto file = [](const std::string& extension, auto read) {
    return [extension, read](const std::string& text) { (void)read(file_of(text, extension)); };
  };
  return {
      framework_job("deepspeed", {kDeepspeed, kDeepspeedScript}),
      framework_job("torchtitan", {kTorchtitan}),
      framework_job("sglang", {kSglang}),
      framework_job("vllm", {kVllm}),
      {"megatron_job", {}, {kMegatronLog}, read_a_megatron_job},
      {"override", {}, {"workload.global_batch=4", "model.layers[0].repeat=3"}, read_an_override},
      {"axis", {}, {"1KiB:1GiB:2", "0:1:+0.25", "8"}, read_axis_values},
      {"words", {}, {"450 GB/s", "1e3 us", "full", "pro_prophet(n=0.5)", "E|t*2|m"}, read_words},
      {"database", {}, {database_bytes()}, file(".sqlite", read_a_database)},
      {"suite",
       files_in(source / "configs/suites"),
       {},
       file(".yaml", [](const fs::path& p) { return validate::read_suite(p); })},
      {"answer", {}, {answer_example()}, [](const std::string& text) { (void)validate::read_answer(text); }},
      {"table_kind", {}, {"gpu,kind,phase\n"}, file(".csv", [](const fs::path& p) { return profiler::table_kind(p); })},
  };
}

}  // namespace moeplan::tests
