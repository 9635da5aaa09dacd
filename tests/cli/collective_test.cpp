// moeplan collective, as a user runs it.
#include <sys/wait.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::collective_test {

using Json = nlohmann::json;

namespace {

struct Output {
  int code;
  std::string out, err;
};

std::string content_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// `arguments` go through a shell.
Output collective(const TemporaryDirectory& dir, const std::string& arguments) {
  const std::string out = dir.path() / "stdout", err = dir.path() / "stderr";
  const std::string command =
      std::string(MOEPLAN_EXECUTABLE) + " collective " + arguments + " >" + out + " 2>" + err + " </dev/null";
  const int status = std::system(command.c_str());
  return {WEXITSTATUS(status), content_of(out), content_of(err)};
}

Json without_timing(const std::string& text) {
  Json j = Json::parse(text);
  j.erase("timing");
  return j;
}

}  // namespace

TEST_CASE("collective prints the table of nccl-tests") {
  const TemporaryDirectory dir;
  const std::string arguments = "--cluster maxmin_reference --op all_reduce --world 8 --sizes 1KiB:1GiB:32";
  const Output json = collective(dir, arguments + " --json");
  REQUIRE(json.code == 0);
  const Json j = Json::parse(json.out);
  CHECK(j["schema_version"] == 1);
  CHECK(j["cluster"] == "maxmin_reference");
  CHECK(j["op"] == "all_reduce");
  CHECK(j["algorithm"] == "ring");
  CHECK(j["world_size"] == 8);
  CHECK(j["timing"]["wall_s"] >= 0);
  REQUIRE(j["results"].size() == 5);
  const Output in_their_words =
      collective(dir, "--cluster maxmin_reference --op all_reduce_perf --world 8 --sizes 1K:1G:32 --json");
  REQUIRE(in_their_words.code == 0);
  CHECK(Json::parse(in_their_words.out)["results"] == j["results"]);
  CHECK(collective(dir, "--cluster maxmin_reference --op alltoall --world 8 --sizes 1M:1G:8").code == 0);
  std::int64_t bytes = 1024;
  for (const Json& r : j["results"]) {
    // 2 (n - 1) / n of the bytes leave each GPU at 450 GB/s; times are whole picoseconds.
    const double time = r["time_s"].get<double>();
    CHECK(r["bytes"] == bytes);
    CHECK(time == Approx(static_cast<double>(bytes) * 14 / 8 / 450e9).margin(1e-12));
    CHECK(r["algorithm_bandwidth_bytes_per_s"].get<double>() == Approx(static_cast<double>(bytes) / time));
    CHECK(r["bus_bandwidth_bytes_per_s"].get<double>() == Approx(static_cast<double>(bytes) / time * 14 / 8));
    bytes *= 32;
  }
  SECTION("the page has nccl-tests' columns") {
    const Output page = collective(dir, arguments);
    CHECK(page.code == 0);
    CHECK(page.out.find("#       size         count    type   redop       time    algbw    busbw\n") !=
          std::string::npos);
    CHECK(page.out.find("  1073741824     268435456   float     sum     4175.7   257.14   450.00\n") !=
          std::string::npos);
  }
  SECTION("the same input gives the same bytes, but for timing") {
    CHECK(without_timing(collective(dir, arguments + " --json").out).dump() == without_timing(json.out).dump());
  }
}

TEST_CASE("collective says what is wrong with its options, and exits with 2") {
  const TemporaryDirectory dir;
  const auto expect = [&](const std::string& arguments, const std::string& error) {
    const Output got = collective(dir, arguments);
    CAPTURE(arguments, got.err);
    CHECK(got.code == 2);
    CHECK(got.out.empty());
    CHECK(got.err == error + "\n");
  };
  const std::string base = "--cluster dgx_h100 ";
  expect(base, "--op: is missing; one of all_to_all, all_gather, reduce_scatter, all_reduce, broadcast");
  expect(base + "--op all_reduced", "--op: \"all_reduced\" is no collective; did you mean \"all_reduce\"?");
  expect(base + "--op all_to_all --algorithm pairwize",
         "--algorithm: \"pairwize\" is no algorithm of all_to_all; did you mean \"pairwise\"?");
  expect(base + "--op all_reduce --algorithm linear",
         "--algorithm: \"linear\" is no algorithm of all_reduce; one of ring, tree, halving_doubling");
  expect(base + "--op all_to_all --algorithm node_dedup",
         "--algorithm: \"node_dedup\" is for tokens that several experts get, not for a collective; one of linear, "
         "pairwise, 1dh, 2dh, naive_local, 3dh, pipe");
  expect(base + "--op all_to_all --algorithm 2dh --world 8",
         "--algorithm: hierarchical all-to-alls need several nodes of several ranks; see --world");
  expect(base + "--op all_reduce --world 1", "--world: is 1; expected at least 2 ranks");
  expect(base + "--op all_to_all --world 4104",
         "--world: 4104 ranks are too many for an all_to_all pair by pair; the most are 2048. More are simulated for "
         "algorithms without leaders or steps where all ranks are provably equal: a template's whole nodes in whole "
         "leaf groups");
  expect(base + "--op all_reduce --flows f.csv", "--flows: needs --traffic");
  expect(base + "--op all_reduce --traffic f.csv", "--traffic: is for a linear all_to_all: all flows start together");
  expect(base + "--op all_reduce -C model.layers=3", "-C model.layers=3: a collective has a cluster only");
  expect("--cluster dgx_h10 --op all_reduce",
         "dgx_h10: is no file of configs/clusters; did you mean \"dgx_h100\"?; a path is written with a slash, as "
         "./dgx_h10");
  const std::string sizes = base + "--op all_reduce --sizes ";
  expect(sizes + "1KiB:1GiB", "--sizes: \"1KiB:1GiB\" is not MIN:MAX:FACTOR; write e.g. 1KiB:1GiB:2");
  expect(sizes + "2GiB:1GiB:2", "--sizes: MIN: 2.000 GiB is more than MAX, 1.000 GiB");
  expect(sizes + "1KiB:1GiB:1", "--sizes: FACTOR: is \"1\"; expected a number > 1");
  expect(sizes + "1KiB:1GiB:1.01", "--sizes: are more than 100 sizes; take a larger FACTOR");
  expect(sizes + "1B:10B:1.001", "--sizes: FACTOR: is too near to 1 for sizes so small: they are whole bytes");
  expect(sizes + "1KiB:2TiB:2", "--sizes: MAX: \"2TiB\" is not a whole number of bytes from 1 B to 1 TiB");
  expect(sizes + "0.5B:1KiB:2", "--sizes: MIN: \"0.5B\" is not a whole number of bytes from 1 B to 1 TiB");
  SECTION("everything at once") {
    expect(sizes + "1024:1GiB:x --world 0",
           "--sizes: MIN: \"1024\" has no unit; write e.g. \"80 GB\" or \"16 MiB\"\n--sizes: FACTOR: \"x\" is not a "
           "number\n--world: is 0; expected at least 2 ranks");
  }
}

TEST_CASE("collective runs a traffic file") {
  const TemporaryDirectory dir;
  const std::string on = "--cluster maxmin_reference --op all_to_all --traffic ";
  SECTION("two flows that share a NIC: expect each at half of 50 GB/s until the small one ends") {
    const std::string flows = "src,dst,bytes,finish_s\n0,8,1000000,4e-05\n0,9,3000000,8e-05\n";
    const Output got =
        collective(dir, on + dir.write("t.csv", flows).string() + " --json --flows " + (dir.path() / "F.csv").string());
    REQUIRE(got.code == 0);
    const Json j = Json::parse(got.out);
    CHECK(j["world_size"] == 10);
    CHECK(j["finish_s"].get<double>() == Approx(8e-5).epsilon(1e-12));
    CHECK(j["sum_flow_finish_s"].get<double>() == Approx(12e-5).epsilon(1e-12));
    CHECK(j["largest_relative_difference"].get<double>() < 1e-12);
    CHECK(j["timing"]["simulation_wall_s"] >= 0);
    // What is written is a traffic file again, and its times are exactly those of this run.
    const Output again = collective(dir, on + (dir.path() / "F.csv").string() + " --json");
    REQUIRE(again.code == 0);
    CHECK(Json::parse(again.out)["largest_relative_difference"] == 0);
  }
  SECTION("a matrix of bytes: expect the cluster cut to its ranks") {
    const Output got = collective(dir, on + dir.write("m.txt", "0 1000\n2000 0\n").string());
    CHECK(got.code == 0);
    CHECK(got.out.find("all_to_all over 2 ranks of maxmin_reference, 2 flows") != std::string::npos);
  }
  SECTION("what is wrong") {
    const std::string file = dir.write("t.csv", "src,dst,bytes\n0,8,1000000\n");
    const Output few = collective(dir, on + file + " --world 4");
    CHECK(few.code == 2);
    CHECK(few.err == "--world: 4 ranks are fewer than the 9 of " + file + "\n");
    CHECK(collective(dir, on + file + " --sizes 1KiB:1MiB:2").code == 2);
    CHECK(collective(dir, on + (dir.path() / "none.csv").string()).code == 2);
    CHECK(collective(dir, on + dir.write("e.csv", "src,dst,bytes\n").string()).code == 2);
    CHECK(collective(dir, on + file + " --flows " + (dir.path() / "no/F.csv").string()).code == 2);
  }
}

TEST_CASE("collective times a uniform all-to-all over very many equal ranks") {
  const TemporaryDirectory dir;
  const Output got =
      collective(dir, "--cluster maxmin_reference --op all_to_all --world 16384 --sizes 1GiB:1GiB:2 --json");
  REQUIRE(got.code == 0);
  const Json j = Json::parse(got.out);
  // 16,384 - 8 flows of 64 KiB share each NIC; times are whole picoseconds.
  CHECK(j["results"][0]["time_s"].get<double>() == Approx(65536.0 * (16384 - 8) / 50e9).margin(1e-12));
  CHECK(j["timing"]["simulation_wall_s"].get<double>() <= j["timing"]["wall_s"].get<double>());
  CHECK(j["timing"]["simulation_wall_s"].get<double>() < 2);  // 0.02 s optimised and alone
}

TEST_CASE("collective runs traffic that is the same for every source, by column") {
  const TemporaryDirectory dir;
  const std::string on = "--cluster maxmin_reference --op all_to_all ";
  const auto error = [&](const std::string& arguments) {
    const Output got = collective(dir, on + arguments);
    CHECK(got.code == 2);
    CHECK(got.out.empty());
    return got.err;
  };
  SECTION("generated over 65,536 ranks: expect NICs to hold all flows but those inside nodes") {
    const Output got = collective(dir, on + "--routing zipf:1.0 --world 65536 --sizes 1GiB:1GiB:2 --json");
    REQUIRE(got.code == 0);
    const Json j = Json::parse(got.out);
    const Json& r = j["results"][0];
    double harmonic = 0;
    for (int i = 65536; i > 0; --i) harmonic += 1.0 / i;
    const double size = 1 << 30, most = size / harmonic, outside = 65536 - 8;
    CHECK(j["world_size"] == 65536);
    CHECK(j["traffic"] == "zipf:1.0");
    CHECK(j["includes_start_up"] == true);
    CHECK(r["bytes"] == 1 << 30);
    CHECK(r["flows"] == 65536LL * 65535);
    CHECK(r["total_bytes"].get<double>() == size * 65535);
    CHECK(r["method"] == "columns");
    CHECK(r["finish_s"].get<double>() == Approx(most * outside / 50e9).epsilon(1e-6));  // whole bytes
    // All columns add up to the size; to each rank `outside` flows end together, and 7 inside its node.
    CHECK(r["sum_flow_finish_s"].get<double>() ==
          Approx(size * (outside * outside / 50e9 + 7 * 7 / 450e9)).epsilon(1e-9));
    CHECK(j["timing"]["simulation_wall_s"].get<double>() < 10);
  }
  SECTION("a map as in a workload, and the page") {
    const Output got = collective(dir, on + "--world 16 --sizes 1MiB:4MiB:2 --routing '{shape: hot_rank, seed: 3}'");
    CHECK(got.code == 0);
    CHECK(got.out.find("# all_to_all ({shape: hot_rank, seed: 3}, the same for every source) over 16 ranks") == 0);
    CHECK(std::count(got.out.begin(), got.out.end(), '\n') == 3 + 3 + 1);
  }
  SECTION("a file: expect what the same flows give pair by pair") {
    std::string columns = "dst,bytes\n", pairs = "src,dst,bytes\n";
    for (int d = 0; d < 24; ++d) {
      const std::string bytes = std::to_string(1000000 / (1 + d * 7 % 24));
      columns += std::to_string(d) + "," + bytes + "\n";
      for (int s = 0; s < 24; ++s) {
        if (s != d) pairs += std::to_string(s) + "," + std::to_string(d) + "," + bytes + "\n";
      }
    }
    const std::string file = dir.write("c.csv", columns).string();
    const Output by_column = collective(dir, on + "--json --traffic " + file);
    const Output by_pair = collective(dir, on + "--json --traffic " + dir.write("p.csv", pairs).string());
    REQUIRE(by_column.code == 0);
    REQUIRE(by_pair.code == 0);
    const Json c = Json::parse(by_column.out), p = Json::parse(by_pair.out);
    CHECK(c["method"] == "columns");
    for (const char* key : {"finish_s", "sum_flow_finish_s", "total_bytes"}) {
      CHECK(c[key].get<double>() == Approx(p[key].get<double>()).epsilon(1e-12));
    }
    CHECK(c["flows"] == p["flows"]);
    CHECK(collective(dir, on + "--traffic " + file).out.find("c.csv: all_to_all by column over 24 ranks") == 0);
    SECTION("more ranks than columns: expect them to send too") {
      const Output more = collective(dir, on + "--world 4096 --json --traffic " + file);
      REQUIRE(more.code == 0);
      CHECK(Json::parse(more.out)["flows"] == 24 * 4095);
      CHECK(Json::parse(more.out)["finish_s"].get<double>() == Approx(1e6 * (4096 - 8) / 50e9).epsilon(1e-12));
    }
    SECTION("what is wrong") {
      CHECK(error("--traffic " + file + " --flows f.csv") ==
            "--flows: is not offered for traffic by column: the flows of all pairs are never listed\n");
      CHECK(error("--traffic " + file + " --world 4") == "--world: 4 ranks are fewer than the 24 of " + file + "\n");
      const std::string none = dir.write("n.csv", "dst,bytes\n3,0\n").string();
      CHECK(error("--traffic " + none) == none + ": holds no flow\n");
      CHECK(error("--traffic " + dir.write("o.csv", "dst,bytes\n0,5\n").string()) ==
            "--world: is needed: the columns are of rank 0 only\n");
    }
  }
  SECTION("what is wrong with a routing") {
    // The last node's three ranks send more through their NICs than those of whole nodes.
    CHECK(error("--routing zipf:1.0 --world 4099 --sizes 1MiB:1MiB:2") ==
          "--world: 4099 ranks are too many to simulate pair by pair (the most are 2048), and by column it would not "
          "be exact on this cluster: the link from node512.gpu0 to node512.nic0 may hold sources back\n");
    CHECK(error("--routing zipf:1.0 --flows f.csv") ==
          "--flows: is not offered for traffic by column: the flows of all pairs are never listed\n");
    CHECK(error("--routing uniform:3") == "--routing: uniform takes no number\n");
    CHECK(error("--routing ragged") ==
          "--routing: ragged differs between sources; traffic by column is the same for all\n");
    CHECK(error("--routing '{shape: zipf, sampled: true}'").find("what is sampled differs between sources") !=
          std::string::npos);
    CHECK(error("--routing zip:1").find("did you mean \"zipf\"?") != std::string::npos);
    CHECK(error("--routing zipf:x").find("--routing: zipf_exponent: ") == 0);
    CHECK(error("--routing zipf:-1").find("--routing: zipf_exponent: ") == 0);
    CHECK(error("--routing zipf:").find("--routing: zipf_exponent: ") == 0);
    CHECK(error("--routing zipf --algorithm pairwise") ==
          "--routing: is for a linear all_to_all: all flows start together\n");
  }
}

TEST_CASE("collective gives the reference finish times") {
  const std::filesystem::path folder = MOEPLAN_SOURCE_DIR "/../shared/data/traffic";
  if (!std::filesystem::exists(folder)) {
    WARN("skipped: no reference traffic at ../shared/data/traffic");
    return;
  }
  struct Expected {
    const char* file;
    double finish_s, sum_flow_finish_s;
  };
  // The table of data/README.md beside the files.
  const auto x =
      GENERATE(Expected{"uniform-128", 0.0012582912, 19.3346602416}, Expected{"zipf-64", 0.01584394, 4.21637309788},
               Expected{"zipf-512", 0.09923797296, 340.940409168}, Expected{"zipfs-128", 0.02973564928, 17.8053239696},
               Expected{"zipfj-64", 0.01585792512, 4.01208977768}, Expected{"zipfs-256", 0.05437816832, 73.7440233352});
  CAPTURE(x.file);
  const TemporaryDirectory dir;
  const Output got = collective(dir, "--cluster maxmin_reference --op all_to_all --json --traffic " +
                                         (folder / (std::string(x.file) + ".csv.gz")).string());
  REQUIRE(got.code == 0);
  const Json j = Json::parse(got.out);
  CHECK(j["finish_s"].get<double>() == Approx(x.finish_s).epsilon(1e-9));
  CHECK(j["sum_flow_finish_s"].get<double>() == Approx(x.sum_flow_finish_s).epsilon(1e-9));
  if (j.contains("largest_relative_difference")) CHECK(j["largest_relative_difference"].get<double>() < 1e-9);
}

TEST_CASE("collective runs other algorithms by name") {
  const TemporaryDirectory dir;
  const std::string cluster = "--cluster maxmin_reference --sizes 1MiB:1MiB:2 --json ";
  SECTION("a tree in one node: each GPU sends 7 / 8 of the bytes up and down its chains") {
    const Output tree = collective(dir, cluster + "--op all_reduce --world 8 --algorithm tree");
    REQUIRE(tree.code == 0);
    const Json j = Json::parse(tree.out);
    CHECK(j["algorithm"] == "tree");
    CHECK(j["results"][0]["time_s"].get<double>() == Approx(1048576 * 14.0 / 8 / 450e9).epsilon(1e-5));
  }
  SECTION("2DH over very many equal ranks: no bytes less than linear, but fewer messages") {
    const std::string on = "--cluster azure_ndv4 --world 4096 --op all_to_all --sizes 32MiB:32MiB:2 --json ";
    const Json linear = Json::parse(collective(dir, on).out);
    const Json two = Json::parse(collective(dir, on + "--algorithm 2dh").out);
    CHECK(two["algorithm"] == "2dh");
    // 4,088 messages to other nodes, of 4.38 us (configs/collectives/dgx_a100_2x8.yaml), against 511.
    const double saved = (4088 - 511) * 4.38e-6;
    CHECK(linear["results"][0]["time_s"].get<double>() - two["results"][0]["time_s"].get<double>() < saved);
    CHECK(linear["results"][0]["time_s"].get<double>() - two["results"][0]["time_s"].get<double>() > 0.9 * saved);
  }
  SECTION("recursive ones need a power of two") {
    const Output eight = collective(dir, cluster + "--op all_gather --world 8 --algorithm recursive_doubling");
    CHECK(eight.code == 0);
    const Output six = collective(dir, cluster + "--op all_gather --world 6 --algorithm recursive_doubling");
    CHECK(six.code == 2);
    CHECK(six.err == "--algorithm: \"recursive_doubling\" is for 2, 4, 8 ... ranks, not for 6; see --world\n");
  }
  SECTION("an unknown one") {
    const Output output = collective(dir, cluster + "--op broadcast --algorithm trees");
    CHECK(output.code == 2);
    CHECK(output.err.find("\"trees\" is no algorithm of broadcast; did you mean \"tree\"?") != std::string::npos);
  }
}

}  // namespace moeplan::tests::collective_test
