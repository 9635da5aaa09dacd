#include "profiler/tables/nccl_tests.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::nccl_tests_test {

using namespace moeplan::profiler;
using moeplan::tests::error_of;

namespace {

const std::string kDevices =
    "# Using devices\n"
    "#  Rank  0 Group  0 Pid  11 on host-a device  0 [0x07] NVIDIA A100-SXM4-40GB\n"
    "#  Rank  1 Group  0 Pid  12 on host-b device  0 [0x0f] NVIDIA A100-SXM4-40GB\n#\n";
const std::string kHeader =
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw "
    "#wrong\n"
    "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
const std::string kRow =
    "     1048576         16384     float    none      -1    126.9    8.26    4.13      0    126.1    8.32    4.16    "
    "N/A\n";

CollectiveSamples parse(const std::string& text, const std::string& name = "alltoall.log") {
  return parse_nccl_tests(text, name);
}
std::string error(const std::string& text, const std::string& name = "alltoall.log") {
  return error_of([&] { static_cast<void>(parse(text, name)); });
}
std::string with_prefix(const std::string& text, const std::string& prefix) {
  std::string out = prefix;
  for (std::size_t i = 0; i < text.size(); ++i) {
    out += text[i];
    if (text[i] == '\n' && i + 1 < text.size()) out += prefix;
  }
  return out;
}

}  // namespace

TEST_CASE("a row has two measurements, out of place and in place") {
  const CollectiveSamples read = parse(kDevices + kHeader + kRow);
  REQUIRE(read.samples.size() == 2);
  CHECK(read.notes.empty());
  CHECK(read.hosts == std::set<std::string>{"host-a", "host-b"});
  const CollectiveSample& first = read.samples[0];
  CHECK(first.collective == Collective::AllToAll);
  CHECK(first.shape == GroupShape{2, 2});
  CHECK(first.n.value() == 1048576);
  CHECK(first.time.value() == Approx(126.9e-6));
  CHECK(first.dtype == "float");
  CHECK(first.device == "NVIDIA A100-SXM4-40GB");
  CHECK(first.where == Location{"alltoall.log", 8});
  CHECK_FALSE(first.in_place);
  CHECK(read.samples[1].in_place);
  CHECK(read.samples[1].time.value() == Approx(126.1e-6));
}

TEST_CASE("the collective is said by the log, a command line or the file's name") {
  const auto of = [](const std::string& text, const std::string& name) {
    return parse(text, name).samples[0].collective;
  };
  const std::string table = kDevices + kHeader + kRow;
  CHECK(of("# Collective test starting: reduce_scatter_perf\n" + table, "x.log") == Collective::ReduceScatter);
  CHECK(of("$ mpirun -np 2 ./build/sendrecv_perf -b 8 -e 1G\n" + table, "x.log") == Collective::SendReceive);
  CHECK(of(table, "runs/n2_all_reduce.txt") == Collective::AllReduce);
  CHECK(of(table, "runs.alltoall/all_gather.txt") == Collective::AllGather);
  CHECK(error(table, "x.log") ==
        "x.log:8: begins a table of an unnamed test; name the file after it, e.g. alltoall.log");
}

TEST_CASE("several tables of a file each have their own collective, ranks and columns") {
  const std::string second =
      "# Collective test concluded: alltoall_perf\n# Collective test starting: all_gather_perf\n"
      "#  Rank  0 Group  0 Pid  11 on host-a device  0 [0x07] NVIDIA A100\n"
      "#  Rank  1 Group  0 Pid  12 on host-a device  1 [0x0f] NVIDIA A100\n"
      "#  Rank  2 Group  0 Pid  13 on host-a device  2 [0x17] NVIDIA A100\n";
  const auto samples =
      parse("# Collective test starting: alltoall_perf\n" + kDevices + kHeader + kRow + second + kHeader + kRow)
          .samples;
  REQUIRE(samples.size() == 4);
  CHECK(samples[2].collective == Collective::AllGather);
  CHECK(samples[2].shape == GroupShape{3, 1});
}

TEST_CASE("tables of other versions") {
  SECTION("1.x and 2.0: no root, an error instead of a count, devices without group") {
    const auto samples =
        parse(
            "#   Rank  0 Pid  21284 on host device  0 [0x07] V100\n#   Rank  1 Pid  21284 on host device  1 [0x08] "
            "V100\n"
            "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  "
            "error\n"
            "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n"
            "     1048576        262144   float     sum    126.9    8.26   8.26  4e-07    126.1    8.32   8.32  "
            "4e-07\n",
            "all_reduce.out")
            .samples;
    REQUIRE(samples.size() == 2);
    CHECK(samples[1].time.value() == Approx(126.1e-6));
    CHECK(samples[1].shape == GroupShape{2, 1});
  }
  SECTION("a broadcast has a root and no reduction") {
    const auto samples = parse(kDevices +
                                   "#       size         count      type    root     time   algbw   busbw  error     "
                                   "time   algbw   busbw  error\n"
                                   "    40046416      40046416      int8       0   1268.1   31.58   31.58  0e+00   "
                                   "1279.3   31.30   31.30  0e+00\n",
                               "broadcast")
                             .samples;
    REQUIRE(samples.size() == 2);
    CHECK(samples[0].time.value() == Approx(1268.1e-6));
    CHECK(samples[0].dtype == "int8");
  }
  SECTION("one half of columns, without counts of errors") {
    const auto samples = parse(kDevices +
                                   "#       size         count      type   redop    root     time   algbw   busbw\n"
                                   "    8388608       2097152     float     sum      -1   1242.3    6.75   12.66\n",
                               "allreduce")
                             .samples;
    REQUIRE(samples.size() == 1);
  }
  SECTION("ranks and nodes of NCCL_DEBUG, where no devices are listed") {
    const auto samples =
        parse("h:1:2 [0] NCCL INFO ncclCommInitRank comm 0x5 rank 3 nRanks 16 nNodes 2 localRanks 8\n" + kHeader + kRow)
            .samples;
    CHECK(samples[0].shape == GroupShape{16, 2});
  }
}

TEST_CASE("what a launcher writes before a line does not matter") {
  for (const std::string prefix : {"[1,0]<stdout>:", "0: ", "2026-01-28T01:07:02.1Z pod/worker-0 ", "\x1b[0m "}) {
    INFO(prefix);
    CHECK(parse(with_prefix(kDevices + kHeader + kRow, prefix)).samples.size() == 2);
  }
  CHECK(parse(kDevices + "host-a:11:11 [0] NCCL INFO Connected all rings\n" + kHeader +
              "WARNING: no RDMA device for this port\r\n" + kRow)
            .samples.size() == 2);
}

TEST_CASE("times of ten seconds and more are printed to two digits: the bandwidth then says more of them") {
  const auto samples = parse(kDevices + kHeader +
                             " 17179869184    1073741824    double    none      -1  9527230    1.80    0.90       0  "
                             "1.0e+07    1.69    0.84    N/A\n")
                           .samples;
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].time.value() == Approx(9.527230));
  CHECK(samples[1].time.value() == Approx(17179869184 / 1.69e9));
}

TEST_CASE("what is left out is said") {
  const auto notes = [](const std::string& text) {
    std::string all;
    for (const Diagnostic& d : parse(text).notes) all += d.text() + "\n";
    return all;
  };
  SECTION("sizes rounded to 0") {
    CHECK(notes(kDevices + kHeader +
                "           0             0     float    none      -1    50.81    0.00    0.00      0    51.74    0.00 "
                "   0.00    N/A\n" +
                kRow) == "alltoall.log: 1 rows of sizes rounded to 0 are left out\n");
  }
  SECTION("a file that ends in the middle of a line: its whole half is used") {
    const std::string cut = kRow.substr(0, 100);
    CHECK(notes(kDevices + kHeader + kRow + cut) ==
          "alltoall.log:9: is cut short or mixed up with other output; what is whole of it is used\n");
    CHECK(parse(kDevices + kHeader + kRow + cut).samples.size() == 3);
  }
  SECTION("wrong results") {
    CHECK(notes(kDevices + kHeader + kRow +
                "     2097152         32768     float    none      -1    253.8    8.26    4.13      7    126.1   16.63 "
                "   8.32    N/A\n") == "alltoall.log:9: has wrong results (7); left out\n");
  }
  SECTION("tests that no plan uses, several groups at once, one rank") {
    CHECK(notes("# Collective test starting: gather_perf\n" + kDevices + kHeader + kRow) ==
          "alltoall.log:9: begins a table of gather, which no plan uses; it is left out\n");
    std::string groups = kDevices;
    groups.replace(groups.rfind("Group  0"), 8, "Group  1");
    CHECK(notes(groups + kHeader + kRow) ==
          "alltoall.log:8: begins a table of several groups at once; it is left out\n");
    CHECK(notes("#  Rank  0 Group  0 Pid  11 on h device  0 [0x07] GPU\n" + kHeader + kRow) ==
          "alltoall.log:5: begins a table of one rank; it is left out\n");
  }
  SECTION("ranks that are spread unevenly over nodes") {
    const std::string third = "#  Rank  2 Group  0 Pid  13 on host-b device  1 [0x17] NVIDIA A100-SXM4-40GB\n";
    CHECK(notes(kDevices + third + kHeader + kRow) ==
          "alltoall.log:9: begins a table of 3 ranks on 2 nodes, not the same number on each; it is left out\n");
  }
}

TEST_CASE("what cannot be is refused with its line") {
  const auto row = [](const std::string& halves) {
    return kDevices + kHeader + kRow + "     1048576         16384     float    none      -1" + halves;
  };
  CHECK(error(row("    -1.0    8.26    4.13      0    126.1    8.32    4.16    N/A\n")) ==
        "alltoall.log:9: a time of -1.0 for 1048576 B is impossible");
  CHECK(error(row("    0.00    8.26    4.13      0    126.1    8.32    4.16    N/A\n")) ==
        "alltoall.log:9: a time of 0.00 for 1048576 B is impossible");
  CHECK(error(row("    12.69   8.26    4.13      0    126.1    8.32    4.16    N/A\n")) ==
        "alltoall.log:9: 1048576 B in 12.69 us are 82.63 GB/s, not the 8.26 that the line says");
  CHECK(error(kHeader + kRow) ==
        "alltoall.log:4: begins a table without the lines \"# Rank 0 ... on HOST device 0\": of how many ranks?");
  CHECK(error("#  Rank  3 Group  0 Pid  11 on h device  0 [0x07] GPU\n" + kHeader + kRow) ==
        "alltoall.log:5: begins a table of 4 ranks, of which only 1 are listed");
  CHECK(error("nothing here\n") ==
        "alltoall.log: holds no table of nccl-tests; expected the lines that all_reduce_perf prints");
  CHECK(error("") == "alltoall.log: holds no table of nccl-tests; expected the lines that all_reduce_perf prints");
}

TEST_CASE("no text crashes the reader") {
  const std::string whole = kDevices + kHeader + kRow;
  for (std::size_t length = 0; length <= whole.size(); length += 3) {
    static_cast<void>(error(whole.substr(0, length)));
    std::string damaged = whole;
    damaged[length % whole.size()] = static_cast<char>(length);
    static_cast<void>(error(damaged));
  }
  CHECK(true);
}

}  // namespace moeplan::tests::nccl_tests_test
