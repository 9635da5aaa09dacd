#include "planner/runs/megatron_arguments.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>

#include "model/text/document.hpp"
#include "model/transformer/model_spec.hpp"
#include "planner/runs/run_plan.hpp"
#include "profiler/tables/table_text.hpp"
#include "tests/runs/recorded_jobs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::megatron_arguments_test {

using namespace moeplan::runs;

namespace {

const std::string kUsual =
    "--num-layers 16 --hidden-size 1024 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096 "
    "--micro-batch-size 4 --global-batch-size 32 --num-experts 32 --vocab-size 129280 --bf16 ";

MegatronJob read(const std::string& more) { return read_megatron_arguments(kUsual + more, "job.args"); }

}  // namespace

TEST_CASE("Arguments become the degrees and flags of a row") {
  const profiler::RunRow r =
      read(
          "--tensor-model-parallel-size 2 --sequence-parallel --pipeline-model-parallel-size 2 "
          "--num-virtual-stages-per-pipeline-rank 4 --expert-model-parallel-size 4 --expert-tensor-parallel-size 1 "
          "--use-distributed-optimizer --recompute-granularity selective --recompute-modules [layernorm moe_act] "
          "--cuda-graph-modules attn moe_router --moe-token-dispatcher-type flex --moe-flex-dispatcher-backend "
          "hybridep "
          "--moe-hybridep-num-sms 32 --overlap-moe-expert-parallel-comm --delay-wgrad-compute --grad-reduce-in-bf16 "
          "--fp8-format e4m3 --fp8-recipe mxfp8 --moe-router-force-load-balancing")
          .row;
  CHECK(r.tp == 2);
  CHECK(r.sp == 1);
  CHECK(r.pp == 2);
  CHECK(r.vp == 4);
  CHECK(r.ep == 4);
  CHECK(r.etp == 1);
  CHECK(r.zero == 1);
  CHECK(r.recompute == "layernorm+moe_act");
  CHECK(r.cuda_graph == "attn+moe_router");
  CHECK(r.dispatcher == "hybridep");
  CHECK(r.dispatcher_sms == 32);
  CHECK(r.ep_overlap == "wgrad");
  CHECK(r.gradient_dtype == "bf16");
  CHECK(r.overlap_gradients == 0);
  CHECK(r.precision == "mxfp8");
  CHECK(r.routing == "forced");
  CHECK(r.stack == "Megatron-LM");
}

TEST_CASE("What Megatron-LM keeps in host memory is read from the arguments") {
  CHECK(read("").row.offload.empty());
  CHECK(read("--offload-modules core_attn").row.offload.empty());
  CHECK(read("--fine-grained-activation-offloading --offload-modules [expert_fc1 moe_act] --offload-optimizer-states")
            .row.offload == "expert_fc1+moe_act+optimizer");
  CHECK(read("--offload-optimizer-states").row.offload == "optimizer");
  CHECK(read("--optimizer-cpu-offload").row.offload == "optimizer-cpu-offload");
}

TEST_CASE("Experts' fused products, and what multiplies in 8 bits besides linear layers, are read from the arguments") {
  const MegatronJob job = read(
      "--fp8-format e4m3 --fp8-recipe mxfp8 --use-transformer-engine-op-fuser --moe-mlp-glu-interleave-size 32 "
      "--fp8-dot-product-attention --fp8-output-proj");
  CHECK(job.row.fusions.find("grouped_mlp") != std::string::npos);
  CHECK(job.row.fp8_modules == "attention+output_head");
  CHECK(job.unused.empty());
  CHECK(read("--use-transformer-engine-op-fuser").row.fusions.find("grouped_mlp") == std::string::npos);
  CHECK(read("").row.fp8_modules.empty());
}

TEST_CASE("Whole layers are recomputed all, or the first ones of each part") {
  const MegatronJob block = read("--recompute-granularity full --recompute-method block --recompute-num-layers 2");
  CHECK(block.row.recompute == "full");
  CHECK(block.row.recompute_layers == "first:2");
  const MegatronJob uniform = read("--recompute-granularity full --recompute-method uniform --recompute-num-layers 4");
  CHECK(uniform.row.recompute_layers.empty());
  CHECK(uniform.assumed == std::vector<std::string>{"a checkpoint of every layer, not of 4 together"});
  CHECK(uniform.unused.empty());
}

TEST_CASE("Gradients are reduced during the backward pass where an argument says so") {
  const MegatronJob job = read("--use-distributed-optimizer --overlap-grad-reduce");
  CHECK(job.row.overlap_gradients == 1);
  CHECK(std::count(job.unused.begin(), job.unused.end(), "--overlap-grad-reduce") == 0);
  CHECK(read("--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads").row.overlap_gradients == 1);
  CHECK(read("--overlap-grad-reduce").row.overlap_gradients == 1);
}

TEST_CASE("What the arguments do not say has Megatron-Core's default") {
  const MegatronJob job = read("");
  CHECK(job.row.tp == 1);
  CHECK(job.row.etp == 1);
  CHECK(job.row.dispatcher == "allgather");
  CHECK(job.row.routing == "natural");
  CHECK(job.row.zero == 0);
  CHECK(job.row.precision == "bf16");
  CHECK(job.assumed.empty());
  const ModelSpec model = read_model(job.model);
  const Moe& moe = std::get<Moe>(model.layers.front().pattern.front().ffn);
  CHECK(moe.expert.hidden_size == 4 * 1024);
  CHECK(moe.top_k == 2);
  CHECK(model.num_moe_layers() == 16);
}

TEST_CASE("The model is that of the arguments") {
  const ModelSpec model = read_model(
      read("--swiglu --disable-bias-linear --normalization RMSNorm --position-embedding-type rope "
           "--untie-embeddings-and-output-weights --multi-latent-attention --q-lora-rank 1536 --kv-lora-rank 512 "
           "--moe-layer-freq ([0]*1+[1]*15) --moe-ffn-hidden-size 1024 --moe-shared-expert-intermediate-size 512 "
           "--moe-router-topk 4 --mtp-num-layers 1")
          .model);
  CHECK(model.num_layers() == 16);
  CHECK(model.num_moe_layers() == 15);
  CHECK(model.num_mtp_layers == 1);
  const auto& attention = std::get<LatentAttention>(model.attention);
  CHECK(attention.q_lora_rank == 1536);
  CHECK(attention.kv_lora_rank == 512);
  const Moe& moe = std::get<Moe>(model.layers.back().pattern.front().ffn);
  CHECK(moe.expert.hidden_size == 1024);
  CHECK(moe.expert.gated);
  CHECK(moe.shared.hidden_size == 512);
  CHECK(moe.top_k == 4);
  SECTION("a pattern of another length is refused") {
    CHECK_THAT(error_of([] { (void)read("--moe-layer-freq ([0]*1+[1]*3)"); }),
               Catch::StartsWith("job.args:1:") &&
                   Catch::Contains(": --moe-layer-freq: \"([0]*1+[1]*3)\" is no pattern of 16 layers"));
  }
}

TEST_CASE("Layers of a hybrid pattern are one part each") {
  const std::string nemotron =
      "--mamba-num-heads 16 --mamba-head-dim 64 --mamba-state-dim 128 --mamba-num-groups 8 --moe-ffn-hidden-size 512 "
      "--moe-latent-size 256 --num-query-groups 2 --group-query-attention --untie-embeddings-and-output-weights "
      "--position-embedding-type none --cuda-graph-modules [attn mamba moe_router] ";
  const MegatronJob job = read(nemotron + "--mtp-num-layers 2 --hybrid-layer-pattern MEME*E-/*E/*E");
  CHECK(job.row.cuda_graph == "attn+moe_router");
  const ModelSpec model = read_model(job.model);
  CHECK(model.num_layers() == 7);
  CHECK(model.num_moe_layers() == 3);
  CHECK(model.num_mtp_layers == 2);
  std::string letters;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const LayerSpec& layer : run.pattern) {
        const bool is_mixer = has_mixer(layer);
        CHECK(is_mixer != has_ffn(layer));
        letters += is_mixer ? (std::holds_alternative<Mamba2>(mixer_of(model, layer)) ? 'M' : '*')
                            : (std::holds_alternative<Moe>(layer.ffn) ? 'E' : '-');
      }
    }
  }
  CHECK(letters == "MEME*E-");
  CHECK(job.model.find("ffns")->find("moe")->find("latent_size") != nullptr);
  for (const auto& [pattern, message] : std::vector<std::pair<std::string, std::string>>{
           {"MXE", "\"MXE\" is no pattern of M, *, E and -"},
           {"ME/M*E", "layers of multi-token prediction other than \"*E\" are not modelled"}}) {
    CHECK_THAT(error_of([&] { (void)read(nemotron + "--hybrid-layer-pattern " + pattern); }),
               Catch::Contains("--hybrid-layer-pattern: " + message));
  }
}

TEST_CASE("The time of an iteration is the median of the later half that a log prints") {
  CHECK_FALSE(iteration_time("no times"));
  std::string log;
  for (const char* ms : {"70000.0", "105.0", "101.5", "103.0", "100.0", "102.0"})
    log += std::string(" iteration | elapsed time per iteration (ms): ") + ms + " | learning rate\n";
  CHECK(iteration_time(log)->value() == Approx(0.102));
}

TEST_CASE("The arguments of Megatron-LM's functional tests become rows that can be planned") {
  const auto recorded = recorded_jobs();
  if (!recorded) return;
  std::size_t jobs = 0;
  for (const RecordedJob& of : *recorded) {
    ++jobs;
    INFO(of.id);
    MegatronJob job = read_megatron_arguments(of.arguments, "small_runs.csv");
    CHECK(read_model(job.model).num_moe_layers() > 0);
    CHECK(profiler::csv_fields(csv_line(job.row))->size() == profiler::run_format().columns.size());
  }
  CHECK(jobs == 85);
}

}  // namespace moeplan::tests::megatron_arguments_test
