// moeplan import nccl-tests: a cluster from logs.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::import_nccl_tests_test {

namespace {

namespace fs = std::filesystem;

/// A log of an all-to-all over nodes of `gpus` GPUs whose messages take 20 us and then `bandwidth` bytes a second.
std::string log_of(int nodes, int gpus, double bandwidth, const std::string& device = "NVIDIA H100 80GB HBM3",
                   double most = 1073741824) {
  std::string text = "# nThread 1 nGpus 1\n# Using devices\n";
  for (int rank = 0; rank < nodes * gpus; ++rank) {
    text += fmt::format("#  Rank {:2} Group  0 Pid {} on host-{} device {:2} [0x07] {}\n", rank, 100 + rank,
                        rank / gpus, rank % gpus, device);
  }
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  "
      "(GB/s)\n";
  for (double n = 1024; n <= most; n *= 4) {
    const double us = 20 + n / bandwidth * 1e6, rate = n / us * 1e-3;
    const std::string half = fmt::format("{:.2f} {:.2f} {:.2f} 0", us, rate, rate);
    text += fmt::format("{:.0f} {:.0f} float none -1 {} {}\n", n, n / 4, half, half);
  }
  return text;
}

std::string rate_text(double bytes_per_second) { return fmt::format("{:.4g} GB/s", bytes_per_second * 1e-9); }

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("import nccl-tests makes a cluster of logs inside a node and between nodes") {
  const Cli cli;
  const std::string one = cli.write("n1_alltoall.log", log_of(1, 4, 400e9));
  const std::string two = cli.write("n2_alltoall.log", log_of(2, 4, 80e9));
  const std::string file = cli.path("ours.yaml");
  const Ran got = cli.run({"import", "nccl-tests", one, two, "--cluster", file});
  CAPTURE(got.err, got.out);
  REQUIRE(got.code == 0);
  const std::string yaml = whole_file(file);
  // 1 GiB takes 20 us and its transfer; a rank sends 3/4 of it inside a node, and half of it through its NIC.
  constexpr double kGiB = 1073741824;
  const double inside = 0.75 * kGiB / (20e-6 + kGiB / 400e9), nic = 0.5 * kGiB / (20e-6 + kGiB / 80e9);
  SECTION("nodes, GPUs, NICs and rates are the logs'") {
    CHECK(has(yaml, "name: ours\ngpu: h100_sxm\ntemplate:\n  nodes: 2\n  gpus_per_node: 4\n"));
    CHECK(has(yaml, "\n    bandwidth: " + rate_text(inside)));
    CHECK(has(yaml, "\n    nics_per_node: 4\n    nic_bandwidth: " + rate_text(nic)));
  }
  SECTION("every figure says from which log it is, or from which cluster") {
    CHECK(has(yaml,
              "template.intra_node.bandwidth: \"measured: all_to_all of 1.000 GiB on 4 ranks of 1 node, "
              "n1_alltoall.log:19\"\n"));
    CHECK(has(yaml, "\"collectives[0]\": \"measured: nccl-tests n1_alltoall.log\"\n"));
    CHECK(has(yaml, "template.intra_node.latency: \"assumed: as dgx_h100 (assumed: 0.5 us from GPU to NVSwitch"));
  }
  SECTION("the page shows what was read, the rates and the errors") {
    CHECK(has(got.out, "2 logs of nccl-tests: 2 nodes of 4 h100_sxm GPUs (NVIDIA H100 80GB HBM3)\n"));
    CHECK(has(got.out, "all_to_all          4     1     22  1.000 KiB .. 1.000 GiB"));
    CHECK(has(got.out, "from all_to_all of 1.000 GiB on 8 ranks of 2 nodes, n2_alltoall.log:23\n"));
    CHECK(has(got.out, "not in the logs, hence from the models or from other operations: all_gather"));
    CHECK(has(got.out, "groups of other shapes: steps and latencies of dgx_h100, bandwidths x"));
    CHECK(has(got.err, "note: GPUs of a node: 4, the most ranks of a node in the logs, and NICs: 4; dgx_h100 has 8"));
  }
  SECTION("collective predicts the logs, plan and simulate accept it") {
    const Json times = parsed(cli.run({"collective", "--cluster", "./ours.yaml", "--op", "all_to_all", "--world", "8",
                                       "--sizes", "1MiB:1GiB:32", "--json"}));
    for (const Json& row : times.at("results")) {
      const double bytes = row.at("bytes").get<double>();
      CHECK(row.at("time_s").get<double>() == Approx(20e-6 + bytes / 80e9).epsilon(0.02));
    }
    const Ran planned = cli.run({"plan", "--cluster", "./ours.yaml", "--model", "host_moe", "--workload", "host",
                                 "--world", "8", "--pp", "1", "--tp", "1", "--ep", "8", "--esp", "1", "-o", "p.yaml"});
    CAPTURE(planned.err, planned.out);
    CHECK(planned.code == 0);
    CHECK(cli.run({"simulate", "p.yaml"}).code == 0);
  }
}

TEST_CASE("import nccl-tests says what the logs do not show") {
  const Cli cli;
  const std::string file = cli.path("ours.yaml");
  SECTION("between nodes") {
    const Ran got = cli.run({"import", "nccl-tests", cli.write("alltoall.log", log_of(1, 8, 400e9)), "-o", file});
    CAPTURE(got.err);
    REQUIRE(got.code == 0);
    CHECK(got.err ==
          "note: template.fabric.nic_bandwidth = 50.00 GB/s, as dgx_h100: there are no logs between nodes\n");
    CHECK(has(whole_file(file), "\n    nic_bandwidth: 400 Gbps\n"));
  }
  SECTION("large messages") {
    const std::string log = cli.write("alltoall.log", log_of(1, 8, 400e9, "NVIDIA H100 80GB HBM3", 1048576));
    const Ran got = cli.run({"import", "nccl-tests", log, "-o", file});
    REQUIRE(got.code == 0);
    CHECK(has(got.err,
              "template.intra_node.bandwidth = 450.0 GB/s, as dgx_h100: the logs inside a node have no message of "
              "16.00 MiB or more"));
  }
  SECTION("a GPU that configs/gpus has") {
    const std::string log = cli.write("alltoall.log", log_of(1, 8, 400e9, "NVIDIA X1"));
    const Ran got = cli.run({"import", "nccl-tests", log, "--like", "hgx_h200", "-o", file});
    REQUIRE(got.code == 0);
    CHECK(
        has(got.err, "note: no GPU of configs/gpus is known as NVIDIA X1: h200_sxm, as hgx_h200; or name it by --gpu"));
    REQUIRE(cli.run({"import", "nccl-tests", log, "--like", "hgx_h200", "--gpu", "b200_sxm", "-o", file}).code == 0);
    CHECK(has(whole_file(file), "\ngpu: b200_sxm\n"));
  }
  SECTION("the cluster, where one has the GPU with another size of memory") {
    const std::string log = cli.write("alltoall.log", log_of(1, 8, 200e9, "NVIDIA A100-SXM4-40GB"));
    REQUIRE(cli.run({"import", "nccl-tests", log, "-o", file}).code == 0);
    CHECK(has(whole_file(file), "\ngpu: a100_sxm_40gb\n"));
    CHECK(has(whole_file(file), "as dgx_a100 ("));
  }
}

TEST_CASE("import nccl-tests refuses what makes no cluster, and writes nothing") {
  const Cli cli;
  const std::string file = cli.path("ours.yaml");
  const std::string h100 = cli.write("alltoall.log", log_of(2, 8, 80e9));
  const auto refused = [&](std::vector<std::string> arguments) {
    const Ran got = cli.run(with(with({"import", "nccl-tests"}, arguments), {"--cluster", file}));
    CHECK(got.code == 2);
    CHECK_FALSE(fs::exists(file));
    return got.err;
  };
  SECTION("clusters") {
    CHECK(has(refused({h100, "--like", "dgx_h10"}), "did you mean \"dgx_h100\"?"));
    CHECK(has(refused({h100, "--like", "loopback"}),
              "--like: loopback lists its links; expected a cluster with a template\n"));
    CHECK(has(refused({h100, "--like", "host"}),
              "--like: host has no fabric, and the logs are of 2 nodes; name a cluster of several nodes\n"));
  }
  SECTION("GPUs") {
    CHECK(has(refused({h100, "--gpu", "h100_sx"}), "did you mean \"h100_sxm\"?"));
    const std::string a100 = cli.write("a_alltoall.log", log_of(2, 8, 80e9, "NVIDIA A100-SXM4-80GB"));
    CHECK(has(refused({h100, a100}),
              "--gpu: is needed: the logs are of several kinds of GPU: a100_sxm_80gb, h100_sxm; a cluster has one\n"));
    CHECK(has(refused({cli.write("x_alltoall.log", log_of(2, 8, 80e9, "NVIDIA X1"))}),
              "--like: is needed: a cluster of configs/clusters, for what logs do not show; the logs name no GPU"));
    CHECK(has(refused({cli.write("v_alltoall.log", log_of(2, 8, 80e9, "Tesla V100-SXM2-16GB"))}),
              "for what logs do not show; one of azure_ndv4, dgx_a100"));
  }
  SECTION("logs") {
    CHECK(has(refused({cli.write("empty_alltoall.log", "nothing\n")}), "empty_alltoall.log: holds no table"));
    std::string wrong = log_of(1, 8, 400e9);
    wrong += "2048 512 float none -1 -3.0 0.10 0.10 0 20.0 0.10 0.10 0\n";
    CHECK(has(refused({cli.write("wrong_alltoall.log", wrong)}), "wrong_alltoall.log:24: a time of -3.0 for 2048 B"));
    CHECK(has(refused({cli.path("none.log")}), "none.log"));
  }
  SECTION("groups that are spread unevenly") {
    const std::string uneven = with_every(log_of(2, 2, 80e9), "on host-1 device  0", "on host-0 device  2");
    CHECK(has(refused({cli.write("u_alltoall.log", uneven)}), "nothing in it is of use (see the notes)"));
  }
}

TEST_CASE("import nccl-tests predicts the real logs that it was made from") {
  const fs::path folder = fs::path(MOEPLAN_SOURCE_DIR) / "../shared/data/nccl/h100_cluster";
  if (!fs::exists(folder)) {
    WARN("skipped: no logs at ../shared/data/nccl");
    return;
  }
  const Cli cli;
  std::vector<std::string> arguments{"import", "nccl-tests", "--cluster", cli.path("ours.yaml")};
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() == ".log") arguments.push_back(fs::absolute(entry.path()).string());
  }
  const Ran got = cli.run(arguments);
  CAPTURE(got.err, got.out);
  REQUIRE(got.code == 0);
  CHECK(has(got.out, "15 logs of nccl-tests: 4 nodes of 8 h100_sxm GPUs"));
  // 8 H100 a node with NICs of 400 Gb/s: all-to-alls of pairs of nodes reach 49 of 50 GB/s.
  CHECK(has(whole_file(cli.path("ours.yaml")), "nic_bandwidth: 49.09 GB/s"));
  const Json times = parsed(cli.run({"collective", "--cluster", "./ours.yaml", "--op", "all_to_all", "--world", "16",
                                     "--sizes", "16GiB:16GiB:2", "--json"}));
  CHECK(times.at("results").at(0).at("time_s").get<double>() == Approx(0.1755).epsilon(0.02));
}

}  // namespace moeplan::tests::import_nccl_tests_test
