#include "tests/fuzz/readers.hpp"

#include <stdexcept>

#include "model/collectives/collective_models.hpp"
#include "model/machine/cluster.hpp"
#include "model/operators/operator_models.hpp"
#include "model/text/document.hpp"
#include "model/transformer/hf_config.hpp"
#include "model/workload/routing_trace.hpp"
#include "planner/eplb/expert_loads.hpp"
#include "planner/plan/inputs.hpp"
#include "planner/plan/plan.hpp"
#include "planner/runs/megatron_arguments.hpp"
#include "planner/runs/toml.hpp"
#include "planner/sweep/expression.hpp"
#include "planner/sweep/read_sweep.hpp"
#include "profiler/tables/collective_table.hpp"
#include "profiler/tables/dispatch_table.hpp"
#include "profiler/tables/fabric_topology.hpp"
#include "profiler/tables/measured_csv.hpp"
#include "profiler/tables/nccl_tests.hpp"
#include "profiler/tables/node_topology.hpp"
#include "profiler/tables/operator_table.hpp"
#include "profiler/tables/run_table.hpp"
#include "sim/traffic/traffic_file.hpp"
#include "tests/fuzz/text_files.hpp"

namespace moeplan::tests {

namespace {

namespace fs = std::filesystem;

/// What is written of a document is read as the same document.
int round_trip(const Node& document) {
  if (!parse_yaml(to_yaml(document), "written").same_content(document))
    throw std::logic_error("a document is not read as it was written:\n" + to_yaml(document));
  return 0;
}

void read_a_cluster(const std::string& text) {
  Node document = parse_yaml(text, "f.yaml");
  const ClusterSpec spec = read_cluster(document);
  constexpr std::int64_t kWorld = 16;
  (void)build_cluster(spec, kWorld);
}

void read_an_expression(const std::string& text) {
  const std::vector<std::string> names{"world", "ep", "schedule"};
  const std::vector<sweep::Cell> cells{std::int64_t{8}, 0.5, std::string("baseline")};
  const sweep::Expression expression(text, names, {"when"}, "when");
  (void)expression.holds(cells);
}

const std::string kNcclTests =
    "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n"
    "# Collective test starting: all_reduce_perf\n"
    "# nThread 1 nGpus 2 minBytes 1048576 maxBytes 1048576 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1\n"
    "#  Rank  0 Group  0 Pid      1 on      node0 device  0 [0x0f] NVIDIA H100 80GB HBM3\n"
    "#  Rank  1 Group  0 Pid      1 on      node0 device  1 [0x10] NVIDIA H100 80GB HBM3\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "     1048576        262144     float     sum      -1    38.31   27.37   47.90      0    37.60   27.89   48.80     "
    " 0\n";

const std::string kHuggingFace =
    R"({"model_type": "mixtral", "hidden_act": "silu", "hidden_size": 256, "intermediate_size": 512,
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4,
        "num_local_experts": 8, "tie_word_embeddings": false, "vocab_size": 1000, "max_position_embeddings": 4096})";

const std::string kMegatron =
    "torchrun pretrain_gpt.py --num-layers 2 --hidden-size 64 --num-attention-heads 4 --num-experts 8 --seq-length 64 "
    "\\\n"
    " --max-position-embeddings 64 --micro-batch-size 1 --global-batch-size 8 --ffn-hidden-size 128\n";

const std::string kOperators =
    "gpu,kind,phase,dtype,m,n,k,time_us,source\n"
    "h100_sxm,gemm,forward,bf16,64,64,64,5,s\n";

const std::string kCollectives =
    "cluster,op,ranks,ranks_per_node,bytes,in_place,time_us,source\n"
    "dgx_h100,all_reduce,8,8,1024,0,10,s\n";

const std::string kDispatches =
    "cluster,dispatcher,mode,sms,ranks,nodes,tokens,hidden,top_k,experts,dispatch_dtype,combine_dtype,dispatch_us,"
    "combine_us,source\n"
    "dgx_h100,deepep,normal,24,16,2,4096,7168,8,256,fp8,bf16,500,900,s\n";

const std::string kRuns =
    "id,cluster,world,model,precision,tp,pp,ep,step_time_s,layout\n"
    "a,dgx_h100,8,mixtral_8x7b,bf16,1,1,8,2.5,\n";

const std::string kNcclTopology =
    "<system version=\"1\"><cpu numaid=\"0\" affinity=\"f\" arch=\"x86_64\"><pci busid=\"0000:0f:00.0\" "
    "class=\"0x030200\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"><gpu dev=\"0\" sm=\"90\" rank=\"0\"/></pci>"
    "</cpu></system>";

const std::string kNvidiaSmi = "\tGPU0\tGPU1\tNIC0\nGPU0\t X \tNV18\tPIX\nGPU1\tNV18\t X \tSYS\nNIC0\tPIX\tSYS\t X \n";

const std::string kIbnetdiscover =
    "Switch\t40 \"S-1\"\t# \"leaf\" enhanced port 0 lid 1\n[1]\t\"H-2\"[1](3)\t# \"node0 mlx5_0\" lid 2 4xNDR\n\n"
    "Ca\t1 \"H-2\"\t# \"node0 mlx5_0\"\n[1](3)\t\"S-1\"[1]\t# lid 2 lmc 0 \"leaf\" lid 1 4xNDR\n";

}  // namespace

std::vector<std::string> Reader::texts(const fs::path& source) const {
  std::vector<std::string> out = examples;
  for (const fs::path& seed : seeds) out.push_back(content_of(seed));
  for (const fs::path& found : files_in(source / "tests/fuzz/corpus" / name)) out.push_back(content_of(found));
  return out;
}

std::vector<Reader> readers(const fs::path& source) {
  const fs::path configs = source / "configs";
  using Texts = std::vector<std::string>;
  const auto in = [&](const char* kind) { return files_in(configs / kind); };
  const auto yaml = [](auto read) {
    return [read](const std::string& text) { (void)read(parse_yaml(text, "f.yaml")); };
  };
  const auto json = [](auto read) {
    return [read](const std::string& text) { (void)read(parse_json(text, "f.json")); };
  };
  const auto file = [](const std::string& extension, auto read) {
    return [extension, read](const std::string& text) { (void)read(file_of(text, extension)); };
  };
  const auto named = [](auto read) { return [read](const std::string& text) { (void)read(text, "f"); }; };
  const std::string cluster = to_yaml(planner::load_cluster_document(configs / "clusters/dgx_h100.yaml"));
  std::vector<Reader> all{
      {"yaml", in("workloads"), {"a: {b: [1, 'x']}\n"}, yaml([](const Node& n) { return round_trip(n); })},
      {"json", {}, {R"({"a": [1, -2.5e3, "\u00e9\n", null, true]})"}, json([](const Node& n) {
         return round_trip(n);
       })},
      {"toml",
       {},
       {"a = 1_000 # x\n[t.u]\nb = [\"c\", 'd', {e = true}]\n[[l]]\nf = -1.5e3\n"},
       named([](const std::string& text, const char* name) { return round_trip(runs::parse_toml(text, name)); })},
      {"model", in("models"), {}, yaml([](const Node& n) { return read_model(n); })},
      {"hugging_face", {}, {kHuggingFace}, json([](const Node& n) { return model_from_hf_config(n, "m"); })},
      {"workload", in("workloads"), {}, yaml([](const Node& n) { return read_workload(n); })},
      {"cluster", {}, {cluster}, read_a_cluster},
      {"operators", in("operators"), {}, yaml([](const Node& n) { return read_operator_models(n); })},
      {"collectives", in("collectives"), {}, yaml([](const Node& n) { return read_collective_models(n); })},
      {"framework", in("frameworks"), {}, yaml([](const Node& n) { return planner::read_framework(n, ""); })},
      {"sweep", in("sweeps"), {}, yaml([](const Node& n) { return sweep::read_sweep(n, "f.yaml"); })},
      {"expression", {}, {"world / 4 % ep == 0 and not (schedule == 'x' or min(ep, 2) > 1e3)"}, read_an_expression},
      {"plan", {}, Texts{}, file(".yaml", [](const fs::path& p) { return planner::read_plan(p); })},
      {"nccl_tests", {}, {kNcclTests}, named([](auto&&... a) { return profiler::parse_nccl_tests(a...); })},
      {"measured_csv",
       {},
       {"collective,ranks,nodes,bytes,time_us\nall_reduce,8,1,1024,10\n", "m,n,k,dtype,time_us\n64,64,64,bf16,5\n"},
       named([](auto&&... a) { return profiler::parse_measured_csv(a...); })},
      {"operator_table",
       {},
       {kOperators},
       file(".csv", [](const fs::path& p) { return profiler::read_operator_table(p); })},
      {"collective_table",
       {},
       {kCollectives},
       file(".csv", [](const fs::path& p) { return profiler::read_collective_table(p); })},
      {"dispatch_table",
       {},
       {kDispatches},
       file(".csv", [](const fs::path& p) { return profiler::read_dispatch_table(p); })},
      {"run_table", {}, {kRuns}, file(".csv", [](const fs::path& p) { return profiler::read_run_table(p); })},
      {"nccl_topology", {}, {kNcclTopology}, named([](auto&&... a) { return profiler::read_nccl_topology(a...); })},
      {"nvidia_smi_topology", {}, {kNvidiaSmi}, named([](auto&&... a) {
         return profiler::read_nvidia_smi_topology(a...);
       })},
      {"ibnetdiscover", {}, {kIbnetdiscover}, named([](auto&&... a) { return profiler::read_ibnetdiscover(a...); })},
      {"megatron", {}, {kMegatron}, named([](auto&&... a) { return runs::read_megatron_arguments(a...); })},
      {"expert_loads_json",
       {},
       {R"({"logical_count": [[1, 2, 3, 4], [4, 3, 2, 1]]})",
        R"({"physical_to_logical_map": [[0, 1, 0]], "expert_load_window": [[[5, 6, 7]]]})"},
       file(".json", [](const fs::path& p) { return planner::read_expert_loads(p); })},
      {"expert_loads_csv",
       {},
       {"layer,e0,e1\n0,5,7\n1,6,3\n"},
       file(".csv", [](const fs::path& p) { return planner::read_expert_loads(p); })},
      {"routing_trace",
       {},
       {"iteration,layer,rank,e0,e1\n0,0,0,5,6\n0,0,1,4,7\n"},
       file(".csv", [](const fs::path& p) { return read_routing_trace(p); })},
      {"traffic",
       {},
       {"src,dst,bytes\n0,1,100\n1,0,200\n"},
       file(".csv", [](const fs::path& p) { return sim::read_traffic_or_columns(p); })},
  };
  for (Reader& reader : job_readers(source)) all.push_back(std::move(reader));
  return all;
}

}  // namespace moeplan::tests
