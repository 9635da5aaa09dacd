// moeplan profile, as users run it: the commands of docs/profile.md among them.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/gpu.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::profile_test {

namespace {

/// A log of an all-to-all: 1 KiB to 1 GiB, 10 us + n / rate.
std::string log_of(int ranks, int nodes, double rate) {
  std::string text = "# nThread 1 nGpus 1 minBytes 1024\n# Using devices\n";
  for (int r = 0; r < ranks; ++r) {
    text += "#  Rank  " + std::to_string(r) + " Group  0 Pid  1 on node" + std::to_string(r * nodes / ranks) +
            " device  0 [0x07] NVIDIA H100\n";
  }
  text +=
      "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
      "#wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)\n";
  for (double n = 1024; n <= 0x1p30; n *= 4) {
    const double us = 10 + n / rate * 1e6;
    char line[200];
    std::snprintf(line, sizeof line, "%12.0f %12.0f float none -1 %.2f %.2f %.2f 0 %.2f %.2f %.2f N/A\n", n,
                  n / 4 / ranks, us, n / us * 1e-3, n / us * 1e-3, us, n / us * 1e-3, n / us * 1e-3);
    text += line;
  }
  return text;
}

}  // namespace

TEST_CASE("from a log to a plan, as docs/profile.md says") {
  const Cli cli;
  const auto log1 = cli.write("n1_alltoall.log", log_of(8, 1, 300e9)),
             log2 = cli.write("n2_alltoall.log", log_of(16, 2, 90e9));
  const Ran fit = cli.run({"profile", "--from-nccl-tests", log1, log2, "-o", cli.path("profile.yaml")});
  CHECK(fit.err == "");
  REQUIRE(fit.code == 0);
  CHECK(lines_of(fit.out).size() == 1 + 2 + 2 + 1);  // heading, two fits, two lines of legend, where it is
  CHECK(fit.out.find("all_to_all         16     2") != std::string::npos);
  const auto cluster = cli.write("our_cluster.yaml", "include: [" + (configs() / "clusters/dgx_h100.yaml").string() +
                                                         ", profile.yaml]\nname: our_cluster\n");
  SECTION("collective gives the measured times again") {
    const Ran ran = cli.run({"collective", "--cluster", cluster, "--op", "all_to_all", "--world", "16", "--sizes",
                             "1KiB:1GiB:32", "--json"});
    const Json document = parsed(ran);
    for (const Json& row : document.at("results")) {
      CHECK(row["time_s"].get<double>() == Approx(10e-6 + row["bytes"].get<double>() / 90e9).epsilon(0.01));
    }
  }
  SECTION("a plan uses them") {
    const Ran ran = cli.run({"plan", "--cluster", cluster, "--model", "mixtral_8x7b", "--world", "32", "--pp", "1",
                             "--ep", "8", "-o", cli.path("plan.yaml")});
    CHECK(ran.err == "");
    CHECK(ran.code == 0);
    CHECK(whole_file(cli.path("plan.yaml")).find("measured: nccl-tests n1_alltoall.log, n2_alltoall.log") !=
          std::string::npos);
    const Ran again = cli.run({"simulate", cli.path("plan.yaml")});
    CHECK(again.code == 0);
  }
  SECTION("the same logs give the same bytes") {
    REQUIRE(cli.run({"profile", "--from-nccl-tests", log1, log2, "-o", cli.path("again.yaml"), "--quiet"}).out == "");
    CHECK(whole_file(cli.path("again.yaml")) == whole_file(cli.path("profile.yaml")));
  }
  SECTION("a profile with impossible values is refused with its line") {
    std::string text = whole_file(cli.path("profile.yaml"));
    const std::size_t at = text.find("alpha: ");
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n') + 1;
    text.replace(at, text.find('\n', at) - at, "alpha: -3 us");
    static_cast<void>(cli.write("profile.yaml", text));
    const Ran ran = cli.run({"collective", "--cluster", cluster, "--op", "all_to_all"});
    CHECK(ran.code == 2);
    CHECK(ran.err.find("profile.yaml:" + std::to_string(line) + ":") != std::string::npos);
    CHECK(ran.err.find("collectives[0].alpha: \"-3 us\" is out of range") != std::string::npos);
  }
}

TEST_CASE("tables convert with the awk and sed lines of docs/profile.md") {
  const Cli cli;
  static_cast<void>(cli.write(
      "h100_nccl.csv",
      "framework,version,device,op_name,kernel_source,nccl_dtype,num_gpus,message_size,latency\n"
      "TRTLLM,2.29.2,H100,alltoall,NCCL,half,8,524288,0.01561\nTRTLLM,2.29.2,H100,alltoall,NCCL,int8,8,4194304,0."
      "02595\n"));
  std::string gemms = "gemm_dtype,m,n,k,latency_ms\n";
  for (int i = 0; i < 8; ++i) gemms += "bfloat16,8192,8192," + std::to_string(8192 + i) + ",1.5\n";
  static_cast<void>(cli.write("h100_gemm.csv", gemms));
  const std::string page = whole_file(std::filesystem::path(MOEPLAN_SOURCE_DIR) / "docs/profile.md");
  const std::size_t begin = page.find("    awk -F,"), end = page.find("\n\n", begin);
  std::string commands = page.substr(begin, end - begin);
  commands.insert(commands.find("\n    sed"), " > nccl_plain.csv");
  commands += " > gemm_plain.csv";
  REQUIRE(std::system(("cd " + cli.dir().path().string() + " && " + commands).c_str()) == 0);
  CHECK(whole_file(cli.path("nccl_plain.csv")) ==
        "collective,ranks,nodes,bytes,time_ms,dtype\nall_to_all,8,1,1048576,0.01561,half\n"
        "all_to_all,8,1,4194304,0.02595,int8\n");
  CHECK(cli.run({"profile", "--from-csv", cli.path("nccl_plain.csv"), "-o", cli.path("p.yaml")}).code == 0);
  const Ran gemm =
      cli.run({"profile", "--from-csv", cli.path("gemm_plain.csv"), "--gpu", "h100_sxm", "-o", cli.path("g.yaml")});
  // Eight large ones tell what is reached of the peak, and not the launch: that of the GPU's file stays.
  CHECK(gemm.code == 0);
  CHECK(gemm.out.find("launch 2.660 us (the GPU's file: no GEMM here is small enough to tell)") != std::string::npos);
  CHECK(whole_file(cli.path("g.yaml")).find("launch_overhead") == std::string::npos);
}

TEST_CASE("what profile refuses") {
  const Cli cli;
  const auto error = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "profile");
    arguments.insert(arguments.end(), {"-o", cli.path("p.yaml")});
    const Ran ran = cli.run(arguments, kStrict);
    CHECK(ran.code == 2);
    CHECK_FALSE(std::filesystem::exists(cli.path("p.yaml")));
    return with_every(ran.err, cli.dir().path().string() + "/", "");
  };
  CHECK(error({}) == "profile: needs one of --from-nccl-tests, --from-csv and --backend\n");
  if (!has_gpu_ranks()) {
    CHECK(
        error({"--backend", "nccl", "--quiet"}) ==
        "--backend: nccl is not installed: there is no moeplan-cuda-worker next to moeplan; it is built where CUDA and "
        "NCCL are found, and not packaged (docs/cuda.md)\n");
  } else if (!has_gpu()) {
    for (const std::string ranks : {"", "1", "2"}) {
      std::vector<std::string> arguments{"profile", "--backend", "nccl", "--quiet", "-o", cli.path("p.yaml")};
      if (!ranks.empty()) arguments.insert(arguments.end(), {"--ranks", ranks});
      const Ran ran = cli.run(arguments, kStrict);
      CHECK(ran.code == 1);
      CHECK(ran.err.starts_with("no GPU: cuda"));
      CHECK_FALSE(std::filesystem::exists(cli.path("p.yaml")));
    }
  }
  CHECK(error({"--backend", "host", "--ranks", "1"}) == "--ranks: of --backend host are 2 or more\n");
  CHECK(error({"--backend", "host", "--gpu-file", "g.yaml"}) == "--gpu-file: is of --backend nccl\n");
  CHECK(error({"--backend", "host", "--operators", "h200_sxm"}) == "--operators: is of --backend nccl\n");
  CHECK(error({"--backend", "nccl", "--operators", "h200_sxm", "--ranks", "2"}) ==
        "--operators: is a table of one GPU: without --ranks, --gpu-parts and --gpu-file, which are of a profile\n");
  CHECK(error({"--backend", "nccl", "--operators", "h200"})
            .starts_with("h200: is no file of configs/operators; did you mean \"h200_sxm\"?"));
  const auto table = cli.write("t.csv", "collective,ranks,nodes,bytes,time_us\nall_gather,2,1,8,-1\n");
  const auto fast = cli.write("fast.csv", "collective,ranks,nodes,bytes,time_ns\nall_gather,2,1,1000000000,1\n");
  const auto gemms = cli.write("g.csv", "m,n,k,dtype,time_us\n1,1,1,bf16,3\n");
  CHECK(error({"--from-csv", table}) == "t.csv:2: time_us: is \"-1\"; expected a time above 0\n");
  CHECK(error({"--from-csv", fast}) == "fast.csv:2: 1000000000 B in 1.000 ns is impossible: 1000000 TB/s\n");
  CHECK(error({"--from-csv", gemms}) == "--gpu: is needed for GEMMs: shares are of its peak\n");
  CHECK(error({"--from-csv", table, "--gpu", "h100_sxm"}).starts_with("t.csv:2: "));
  CHECK(error({"--from-nccl-tests", cli.path("none.log")}).starts_with("none.log: "));
  CHECK(error({"--from-nccl-tests", table, gemms}) ==
        "t.csv: holds no table of nccl-tests; expected the lines that all_reduce_perf prints\ng.csv: holds no table of "
        "nccl-tests; expected the lines that all_reduce_perf prints\n");
}

TEST_CASE("profile, plan and validate are one loop on CPU ranks", "[alone]") {
  if (!std::filesystem::exists(std::filesystem::path(MOEPLAN_EXECUTABLE).parent_path() / "moeplan-host-worker")) {
    WARN("skipped: built without MPI");
    return;
  }
  const Cli cli;
  const Ran profile = cli.run({"profile", "--backend", "host", "--ranks", "2", "--budget", "3s", "-o", "p.yaml"});
  CAPTURE(profile.err);
  REQUIRE(profile.code == 0);
  CHECK(profile.out.find("all_to_all") != std::string::npos);
  CHECK(profile.out.find("measurements:") != std::string::npos);
  const Ran plan = cli.run({"plan", "--cluster", "./p.yaml", "--model", "host_moe", "--workload", "host", "--pp", "1",
                            "--ep", "2", "--tp", "1", "-o", "plan.yaml"});
  CAPTURE(plan.err);
  REQUIRE(plan.code == 0);
  const Json document = parsed(cli.run({"validate", "plan.yaml", "--backend", "host", "--iterations", "6", "--json"}));
  CHECK(document["values_ok"] == true);
  SECTION("and the profile can be included from another cluster") {
    (void)cli.write("mine.yaml",
                    "include: [" + (configs() / "clusters/host.yaml").string() + ", p.yaml]\nname: mine\n");
    CHECK(
        cli.run({"plan", "--cluster", "./mine.yaml", "--model", "host_moe", "--workload", "host", "--pp", "1"}).code ==
        0);
  }
}

}  // namespace moeplan::tests::profile_test
