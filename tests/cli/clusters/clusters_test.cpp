// Users' own clusters and models: moeplan cluster new, import of what tools show, models by id and of unknown families.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::clusters_test {

namespace {

namespace fs = std::filesystem;

const fs::path kData = fs::path(MOEPLAN_SOURCE_DIR) / "../shared/data";

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::vector<fs::path> files_of(const fs::path& folder) {
  std::vector<fs::path> out;
  if (!fs::exists(folder)) {
    WARN("skipped: " << folder << " is not there");
    return out;
  }
  for (const auto& entry : fs::directory_iterator(folder)) out.push_back(entry.path());
  std::sort(out.begin(), out.end());
  return out;
}

/// A plan of a small model on all GPUs of a cluster file.
Ran planned(const Cli& cli, const std::string& cluster, const std::string& model = "schemoe_gpt2_tiny_moe") {
  return cli.run({"plan", "--cluster", cluster, "--model", model, "--quiet", "-C", "workload.sequence_length=1024",
                  "-C", "workload.global_batch=64", "--top", "1"});
}

}  // namespace

TEST_CASE("cluster new writes a cluster of a GPU, nodes and NICs, with origins") {
  const Cli cli;
  const std::string file = cli.path("ours.yaml");
  SECTION("as the shipped cluster with that GPU where nothing is given") {
    const Ran got = cli.run({"cluster", "new", "--gpu", "b200_sxm", "--nodes", "8", "--nics", "8x400Gbps", "-o", file});
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    CHECK(has(got.out, "ours: 8 nodes of 8 x b200_sxm, 8 NICs of 50.00 GB/s per node"));
    const std::string yaml = whole_file(file);
    CHECK(has(yaml, "nodes: 8\n"));
    CHECK(has(yaml, "nic_bandwidth: 400 Gbps"));
    CHECK(has(yaml, "template.fabric.nic_bandwidth: \"assumed: as given by --nics\""));
    CHECK(has(yaml, "template.intra_node: \"assumed: as hgx_b200 (datasheet: NVLink 5"));
    CHECK(planned(cli, file).code == 0);
  }
  SECTION("of racks in which the last GPUs are spare") {
    const Ran got = cli.run(
        {"cluster", "new", "--gpu", "gb200", "--nodes", "2", "--nvlink-domain", "72", "--used", "64", "-o", file});
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    const std::string yaml = whole_file(file);
    CHECK(has(yaml, "gpus_per_node: 64\n"));
    CHECK(has(yaml, "nics_per_node: 64\n"));
    CHECK(has(yaml, "\"assumed: 64 of the 72 GPUs of an NVLink domain, the others are spare\""));
  }
  SECTION("of racks, where NICs may be meant of one host") {
    const Ran got =
        cli.run({"cluster", "new", "--gpu", "gb200", "--nvlink-domain", "72", "--nics", "4x400Gbps", "-o", file});
    CHECK(got.code == 0);
    CHECK(has(got.err, "note: --nics: all 72 GPUs of a node share 4 NICs; a rack has those of all its hosts"));
  }
  SECTION("and refuses what it cannot know") {
    const auto error = [&](std::vector<std::string> more) {
      std::vector<std::string> all{"cluster", "new", "-o", file};
      all.insert(all.end(), more.begin(), more.end());
      const Ran got = cli.run(all);
      CHECK(got.code == 2);
      CHECK_FALSE(fs::exists(file));
      return got.err;
    };
    CHECK(has(error({"--gpu", "b20_sxm"}), "is no file of configs/gpus; did you mean \"b200_sxm\"?"));
    CHECK(has(error({"--gpu", "b200_sxm", "--nics", "8x400"}), "--nics: \"8x400\" has a bandwidth that is none"));
    CHECK(has(error({"--gpu", "b200_sxm", "--nics", "fast"}), "--nics: \"fast\" is no COUNTxBANDWIDTH"));
    CHECK(has(error({"--gpu", "rtx4090", "--nodes", "2"}), "--gpus-per-node"));
    CHECK(has(error({"--gpu", "gb200", "--used", "64"}), "--used: is a number of the GPUs of --nvlink-domain"));
    CHECK(has(error({"--gpu", "gb200", "--nvlink-domain", "8", "--used", "64"}), "--used: 64 is more than"));
  }
}

TEST_CASE("Every public topology file imports, and its cluster plans") {
  const Cli cli;
  // What the files do not say: which GPU, and where the machine is not that of a shipped cluster, its NICs.
  const std::map<std::string, std::vector<std::string>> more{
      {"azure_ndv2-topo.xml", {"--gpu", "v100_sxm2"}},
      {"azure_ndv4-topo.xml", {"--gpu", "a100_sxm_40gb", "--like", "azure_ndv4"}},
      {"aws_p4d-24xl-topo.xml", {"--like", "dgx_a100", "--nics", "4x100Gbps"}},
      {"yccl_topo_l20.xml", {"--gpu", "rtx4090"}},
      {"cutlass__examples-65_distributed_gemm-REQUIREMENTS_0.txt", {"--gpu", "h100_sxm"}},
      {"issue_nccl-tests-178__8xA100-PCIe-NVLink-bridge-pairs.txt", {"--gpu", "a100_pcie"}},
      {"jtkj003_8xA100_4NIC.txt", {"--gpu", "a100_sxm_80gb", "--like", "dgx_a100"}},
      {"llm-action__docs-llm-base-a800-env-install_0.txt", {"--gpu", "a100_sxm_80gb", "--like", "dgx_a100"}},
      {"ml-engineering__network-README_0.txt", {"--gpu", "rtx3090"}},
      {"ml-engineering__network-README_1.txt", {"--gpu", "rtx3090"}},
      {"nano4_8xH200_10NIC.txt", {"--gpu", "h200_sxm"}}};
  for (const auto& [folder, format] : {std::pair{"topo_xml", "nccl-topo"}, std::pair{"topo_m", "nvidia-smi-topo"}}) {
    for (const fs::path& path : files_of(kData / folder)) {
      const std::string file = cli.path(path.stem().string() + ".yaml");
      std::vector<std::string> args{"import", format, path.string(), "--cluster", file};
      if (const auto it = more.find(path.filename()); it != more.end())
        args.insert(args.end(), it->second.begin(), it->second.end());
      const Ran got = cli.run(args);
      INFO(path << '\n' << got.err << got.out);
      REQUIRE(got.code == 0);
      const Ran plan = planned(cli, file);
      INFO(whole_file(file) << plan.err);
      CHECK(plan.code == 0);
    }
  }
}

TEST_CASE("Every public log of nccl-tests imports, and its cluster plans", "[slow]") {
  const Cli cli;
  const std::map<std::string, std::vector<std::string>> more{{"older_fabric", {"--like", "dgx_h100"}}};
  for (const fs::path& folder : files_of(kData / "nccl")) {
    const std::string file = cli.path(folder.filename().string() + ".yaml");
    std::vector<std::string> args{"import", "nccl-tests", "--cluster", file};
    if (const auto it = more.find(folder.filename()); it != more.end())
      args.insert(args.end(), it->second.begin(), it->second.end());
    for (const fs::path& log : files_of(folder)) args.push_back(log.string());
    const Ran got = cli.run(args);
    INFO(folder << '\n' << got.err);
    REQUIRE(got.code == 0);
    // Four GPUs, which divide the batch: the logs are of 5, 24 and 32.
    const Ran plan = cli.run({"plan", "--cluster", file, "--model", "schemoe_gpt2_tiny_moe", "--world", "4", "--quiet",
                              "--top", "1", "-C", "workload.sequence_length=1024", "-C", "workload.global_batch=64"});
    INFO(plan.err);
    CHECK(plan.code == 0);
  }
}

TEST_CASE("Every public configuration plans", "[slow]") {
  const Cli cli;
  for (const fs::path& path : files_of(kData / "hf_configs")) {
    if (!path.filename().string().ends_with("_config.json")) continue;
    const Ran got = cli.run({"plan", "--cluster", "hgx_b200", "--model", path.string(), "--world", "512", "--quiet",
                             "--top", "1", "--schedule", "baseline", "--vp", "1", "-C", "workload.global_batch=512"});
    INFO(path << '\n' << got.err);
    CHECK(got.code == 0);
  }
}

TEST_CASE("import ibnetdiscover makes a cluster of the network's hosts") {
  const Cli cli;
  std::string text;
  for (int rail = 0; rail < 8; ++rail) {
    text += fmt::format("Switch\t64 \"S-leaf{}\"\t# \"leaf\" lid 1\n", rail);
    for (int host = 0; host < 4; ++host)
      text += fmt::format("[{}]\t\"H-{}{}\"[1](a)\t# \"node{} mlx5_{}\" lid 2 4xNDR\n", host, host, rail, host, rail);
    for (int up = 0; up < 2; ++up) text += fmt::format("[{}]\t\"S-spine\"[1]\t# \"spine\" lid 3 4xNDR\n", 10 + up);
  }
  const std::string file = cli.path("ib.yaml");
  const Ran got =
      cli.run({"import", "ibnetdiscover", cli.write("ib.txt", text), "--gpu", "h200_sxm", "--cluster", file});
  CAPTURE(got.err);
  REQUIRE(got.code == 0);
  const std::string yaml = whole_file(file);
  CHECK(has(yaml, "nodes: 4\n"));
  CHECK(has(yaml, "nics_per_node: 8\n"));
  CHECK(has(yaml, "nic_bandwidth: 400 Gbps"));
  CHECK(has(yaml, "oversubscription: 2\n"));
  CHECK(has(yaml, "nodes_per_leaf: 4\n"));
  CHECK(has(yaml, "template.fabric.nic_bandwidth: \"measured: ibnetdiscover ib.txt\""));
  CHECK(planned(cli, file).code == 0);
}

TEST_CASE("Models are found by their Hugging Face id, and unknown families are approximated only when asked for") {
  const Cli cli;
  SECTION("an id") {
    const Ran got = planned(cli, "hgx_b200", "deepseek-ai/DeepSeek-V3");
    CHECK(got.code != 2);
    const Ran wrong = planned(cli, "hgx_b200", "deepseek-ai/DeepSeek-V5");
    CHECK(wrong.code == 2);
    CHECK(has(wrong.err, "is no file and no Hugging Face id of configs/models; did you mean \"deepseek-ai/DeepSeek-V"));
    CHECK(has(planned(cli, "hgx_b200", "mixtral").err, "did you mean \"mixtral_8x7b\"?"));
  }
  SECTION("an unknown family") {
    const std::string config = cli.write("config.json", R"({"model_type": "new_moe", "vocab_size": 1024,
      "hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 8, "num_key_value_heads": 2,
      "num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 256, "magic_size": 7,
      "layer_types": ["full_attention", "magic", "magic", "full_attention"]})");
    CHECK(cli.run({"plan", "--cluster", "hgx_b200", "--model", config, "--quiet"}).code == 2);
    const std::vector<std::string> args{"plan",    "--cluster", "hgx_b200", "--model", config, "--approximate-unknown",
                                        "--quiet", "--top",     "1",        "--json"};
    const Ran got = cli.run(args);
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    CHECK(has(got.out, "the family \\\"new_moe\\\" is unknown or not modelled"));
    CHECK(has(got.out, "layers: 2 of 4 are \\\"magic\\\", priced as full attention"));
    CHECK(has(got.out, "without effect: magic_size"));
  }
}

}  // namespace moeplan::tests::clusters_test
