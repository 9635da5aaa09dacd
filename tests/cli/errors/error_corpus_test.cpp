// Broken input of every reader, kept: each error names the file, the line where the format has lines, the key, and what
// was expected.
#include <catch2/catch.hpp>
#include <regex>

#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::error_corpus_test {

namespace {

/// A file, the command that reads it ("FILE" is its place), and what is said of it: its place with the key, and what
/// was expected.
struct Broken {
  std::string name, text;
  std::vector<std::string> command;
  std::string place, expectation;
};

const std::vector<std::string> kCluster{"plan",      "--model", "schemoe_gpt2_tiny_moe", "--world", "8",
                                        "--cluster", "FILE"};
const std::vector<std::string> kModel{"plan", "--cluster", "dgx_h100", "--world", "8", "--model", "FILE"};
const std::vector<std::string> kWorkload{"plan",    "--cluster", "dgx_h100",   "--model", "schemoe_gpt2_tiny_moe",
                                         "--world", "8",         "--workload", "FILE"};
const std::vector<std::string> kXml{"import", "nccl-topo", "FILE", "--gpu", "h100_sxm", "--cluster", "new.yaml"};
const std::vector<std::string> kMatrix{"import",   "nvidia-smi-topo", "FILE",    "--gpu",
                                       "h100_sxm", "--cluster",       "new.yaml"};
const std::vector<std::string> kLog{"import", "nccl-tests", "FILE", "--cluster", "new.yaml"};
const std::vector<std::string> kLoads{"eplb", "FILE", "--gpus", "2"};

std::vector<std::string> job(const std::string& framework) {
  return {"import", framework, "FILE", "--cluster", "dgx_h100", "--model", "qwen3_30b_a3b", "-o", "new.yaml"};
}

const std::vector<std::string> kMegatron{"import", "megatron", "FILE", "--cluster", "dgx_h100", "-o", "new.yaml"};

std::vector<Broken> corpus() {
  const std::string cluster = whole_file(configs() / "clusters/dgx_h100.yaml");
  const std::string workload = whole_file(configs() / "workloads/default.yaml");
  const std::string model = whole_file(configs() / "models/schemoe_gpt2_tiny_moe.yaml");
  const std::string xml =
      "<system version=\"1\">\n<cpu numaid=\"0\">\n<pci busid=\"0:1\" class=\"0x030200\">\n"
      "<gpu dev=\"0\" rank=\"0\">\n<nvlink target=\"0:2\" count=\"-3\"/>\n</gpu>\n</pci>\n</cpu>\n</system>\n";
  const std::string table =
      "# nThread 1 nGpus 8 minBytes 8 maxBytes 16\n"
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n"
      "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
  return {
      {"a.yaml", with_every(cluster, "450 GB/s", "450"), kCluster,
       ":[0-9]+:[0-9]+: template.intra_node.bandwidth: ", "write e.g. "},
      {"a.yaml", with_every(cluster, "nodes: 4", "nodes: many"), kCluster,
       ":[0-9]+:[0-9]+: template.nodes: ", "expected"},
      {"a.yaml", with_every(cluster, "kind: nvswitch", "kind: nvswich"), kCluster,
       ":[0-9]+:[0-9]+: template.intra_node.kind: ", "did you mean"},
      {"a.yaml", with_every(cluster, "gpu: h100_sxm", "gpu: h100_smx"), kCluster,
       ":[0-9]+:[0-9]+: gpu: ", "did you mean \"h100_sxm\""},
      {"m.yaml", with_every(model, "hidden_size: 64", "hidden_sise: 64"), kModel,
       ":[0-9]+:[0-9]+: .*hidden_sise: ", "did you mean \"hidden_size\""},
      {"m.yaml", with_every(model, "top_k: 2", "top_k: 33"), kModel,
       ":[0-9]+:[0-9]+: .*top_k: ", "is more than num_experts, which is 32"},
      {"w.yaml", with_every(workload, "zero_stage: 1", "zero_stage: 7"), kWorkload,
       ":[0-9]+:[0-9]+: zero_stage: ", "expected 0 to 3"},
      {"w.yaml", with_every(workload, "dtype: bf16", "dtype: bf61"), kWorkload,
       ":[0-9]+:[0-9]+: dtype: ", "did you mean \"bf16\""},
      {"w.yaml", with_every(workload, "{shape: uniform}", "{shape: zipf, seed: -1}"), kWorkload,
       ":[0-9]+:[0-9]+: routing.seed: ", "expected"},
      {"config.json", "{\"model_type\": \"mixtral\",\n \"hidden_size\": \"256\"}", kModel,
       ":2:17: hidden_size: ", "write the number without quotes"},
      {"config.json", "{\"model_type\": \"mixtrall\"}", kModel, ":1:16: model_type: ", "did you mean \"mixtral\""},
      {"config.json", "{\"model_type\": \"mixtral\",\n}", kModel, ":2:1: ", "expected string literal"},
      {"plan.yaml", "schema_version: 9\n", {"simulate", "FILE"}, ":1:17: schema_version: ", "expected 1"},
      {"t.xml", xml, kXml, ":3:1: system.cpu.pci.*nvlink.count: ", "expected 1 to"},
      {"t.xml", "<system>\n<cpu>\n", kXml, ":[0-9]+:1: ", "is not valid XML"},
      {"t.xml", "<graph/>\n", kXml, ":1:1: ", "expected the element <system>"},
      {"m.txt", "\tGPU0\tGPU1\nGPU0\tX\tNVXX\nGPU1\tNV1\tX\n", kMatrix, ":2:1: GPU0.GPU1: ", "expected X, SYS"},
      {"m.txt", "\tGPU0\tGPU1\nGPU0\tX\tNV1\n", kMatrix, ":[0-9]+:1: ", "expected 2"},
      {"m.txt", "no matrix\n", kMatrix, ":1:1: ", "expected a line that begins with GPU0"},
      {"alltoall.log", "nothing\n", kLog, ": ", "expected the lines that all_reduce_perf prints"},
      {"log.log", table + "        8   2  float  none  -1  12.1 0.1 0.1 0 12.0 0.1 0.1 0\n", kLog,
       ":4: ", "e.g. alltoall.log"},
      {"l.json", "{\"logical_count\":\n [[1, 2], [3, -1]]}", kLoads,
       ":2:15: logical_count\\[1\\]\\[1\\]: ", "expected a number from 0"},
      {"l.json", "{\"logical_count\": [[1, 2],\n [3]]}", kLoads, ":2:2: logical_count\\[1\\]: ", "expected 2 counts"},
      {"l.json", "{\"counts\": [[1, 2]]}", kLoads, ":1:1: ", "expected logical_count"},
      {"l.json", "{\"logical_count\": [[1, 2]\n", kLoads, ":[0-9]+: ", "expected counts"},
      {"l.csv", "layer,e0,e1\n0,1,x\n", kLoads, ":2:5: e1: ", "expected a whole number"},
      {"l.csv", "layer,e0,e1\n0,1\n1,2,3\n", kLoads, ":3: ", "expected 2"},
      {"trace.csv", "iteration,layer,rank,e0\n0,0,0,-1\n", {"import", "routing-trace", "FILE"}, ":2", "expected"},
      {"run.sh", "python pretrain_gpt.py --num-layers many \\\n --hidden-size 64\n", kMegatron,
       ":1:[0-9]+: --num-layers: ", "expected 0 or more"},
      {"ds.json", "{\"train_batch_size\": 8,\n\"zero_optimization\": {\"stage\": \"two\"}}", job("deepspeed"),
       ":2:32: zero_optimization.stage: ", "takes int, not \"two\""},
      {"ds.json", "{\"train_batch_size\": 8,}", job("deepspeed"), ":1:[0-9]+: ", "expected string literal"},
      {"t.toml", "[parallelism]\ntensor_parallel_degree = \"two\"\n", job("torchtitan"),
       ":2:26: parallelism.tensor_parallel_degree: ", "takes int"},
      {"t.toml", "[parallelism]\ntensor_parallel_degree = \n", job("torchtitan"), ":2:26: ", "expected value"},
      {"t.toml", "[activation_checkpoint]\nmode = \"half\"\n", job("torchtitan"),
       ":2:8: activation_checkpoint.mode: ", "takes one of selective, full, none"},
      {"s.sh", "python -m sglang.launch_server \\\n  --tp eight\n", job("sglang"),
       ":2:3: --tp: ", "takes int, not \"eight\""},
      {"s.sh", "echo nothing\n", job("sglang"), ": ", "expected its configuration or its arguments"},
      {"v.yaml", "tensor-parallel-size: 2\ndtype: bf17\n", job("vllm"), ":2:8: dtype: ", "takes one of auto, half"},
      {"v.sh", "vllm serve m -tp 8 --max-num-batched-tokens 0\n", job("vllm"),
       ":1:20: max-num-batched-tokens: ", "expected 1 to"}};
}

}  // namespace

TEST_CASE("Every error of the corpus has its file, line, key and expectation") {
  const Cli cli;
  for (const Broken& broken : corpus()) {
    std::vector<std::string> command = broken.command;
    std::replace(command.begin(), command.end(), std::string("FILE"), cli.write("in/" + broken.name, broken.text));
    const Ran ran = cli.run(command, kStrict);
    CAPTURE(broken.name, broken.text.substr(0, 200), ran.err);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    const std::vector<std::string> lines = lines_of(ran.err);
    const std::regex form(".*/in/" + std::regex_replace(broken.name, std::regex("\\."), "\\.") + broken.place + ".*");
    CHECK(std::any_of(lines.begin(), lines.end(), [&](const std::string& line) {
      return std::regex_match(line, form) && line.find(broken.expectation) != std::string::npos;
    }));
    CHECK_FALSE(std::filesystem::exists(cli.path("new.yaml")));
  }
}

}  // namespace moeplan::tests::error_corpus_test
