#include "model/collectives/collective_models.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "model/text/document.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::collective_models_test {

namespace {

constexpr double kMiB = 1048576;

std::vector<CollectiveModels> shipped_models() {
  std::vector<std::filesystem::path> paths;
  const auto folder = std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs" / "collectives";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  std::vector<CollectiveModels> out;
  for (const auto& path : paths) {
    out.push_back(read_collective_models(load_document(path)));
    CHECK(out.back().cluster == path.stem().string());
  }
  REQUIRE(out.size() >= 13);
  return out;
}

const std::vector<Collective> kAll{Collective::AllToAll, Collective::AllGather, Collective::ReduceScatter,
                                   Collective::AllReduce, Collective::SendReceive};

std::vector<double> sizes() {
  std::vector<double> out;
  for (double s = 256; s < 2e10; s *= 1.7) out.push_back(s);
  return out;
}

std::string complaints_of(const std::string& text) {
  const TemporaryDirectory dir;
  try {
    (void)read_collective_models(load_document(dir.write("c.yaml", text)));
  } catch (const InputError& e) {
    std::string out;
    for (const Diagnostic& d : e.diagnostics()) out += d.key_path + ": " + d.message + "\n";
    return out;
  }
  return "";
}

}  // namespace

TEST_CASE("Times of every shipped machine never fall as bytes grow") {
  for (const CollectiveModels& m : shipped_models()) {
    for (const Collective op : kAll) {
      for (const GroupShape shape :
           {GroupShape{2, 1}, {4, 1}, {8, 1}, {8, 2}, {16, 2}, {32, 8}, {80, 10}, {2160, 540}}) {
        for (const bool in_place : {false, true}) {
          Seconds before(0);
          for (const double bytes : sizes()) {
            const auto cost = collective_cost(m, op, shape, Bytes(bytes), in_place);
            if (!cost) continue;
            CAPTURE(m.cluster, op, shape.ranks, shape.nodes, bytes, in_place);
            CHECK(cost->time() >= before);
            before = cost->time();
          }
        }
      }
    }
  }
}

TEST_CASE("Times of every shipped machine never fall as ranks of a node grow, and as nodes grow") {
  for (const CollectiveModels& m : shipped_models()) {
    for (const Collective op : kAll) {
      for (const double bytes : sizes()) {
        Seconds before(0);
        for (std::int64_t ranks = 2; ranks <= m.ranks_per_node; ++ranks) {
          const auto cost = collective_cost(m, op, {ranks, 1}, Bytes(bytes));
          if (!cost) continue;
          CAPTURE(m.cluster, op, ranks, bytes);
          CHECK(cost->time() >= before);
          before = cost->time();
        }
        for (const std::int64_t per_node : {1, 4, 8}) {
          if (per_node > m.ranks_per_node) continue;
          Seconds fewer(0);
          for (std::int64_t nodes = 1; nodes < 600; nodes += nodes < 40 ? 1 : 37) {
            if (per_node * nodes < 2) continue;
            const auto cost = collective_cost(m, op, {per_node * nodes, nodes}, Bytes(bytes));
            if (!cost) continue;
            CAPTURE(m.cluster, op, per_node, nodes, bytes);
            CHECK(cost->time() >= fewer * (1 - 1e-12));  // rounding
            fewer = cost->time();
          }
        }
      }
    }
  }
}

TEST_CASE("An all-reduce that is no tree is never faster than the reduce-scatter or the all-gather of its size") {
  for (const CollectiveModels& m : shipped_models()) {
    for (const GroupShape shape : {GroupShape{2, 1}, {4, 1}, {8, 1}, {16, 2}, {80, 10}, {2160, 540}}) {
      for (const double bytes : sizes()) {
        const auto whole = collective_cost(m, Collective::AllReduce, shape, Bytes(bytes));
        for (const Collective half : {Collective::ReduceScatter, Collective::AllGather}) {
          const auto part = collective_cost(m, half, shape, Bytes(bytes));
          if (!whole || !part || whole->algorithm.rfind("tree", 0) == 0) continue;
          CAPTURE(m.cluster, shape.ranks, bytes);
          CHECK(whole->time() >= part->time());
        }
      }
    }
  }
}

TEST_CASE("Dispatches of every shipped machine take longer with more tokens, nodes or fewer SMs") {
  for (const CollectiveModels& m : shipped_models()) {
    for (const DispatcherModel& d : m.dispatchers) {
      for (const DispatchDirection* direction : {&d.dispatch, &d.combine}) {
        const std::int64_t nodes = d.dispatch.nic ? 2 : 1;
        DispatchShape shape{.group = {4 * nodes, nodes}, .tokens = 1, .top_k = 8, .experts = 256, .row_bytes = 7168};
        Seconds before(0);
        for (double tokens = 1; tokens < 1e6; tokens *= 1.5) {
          shape.tokens = tokens;
          const Seconds time = dispatch_cost(d, *direction, shape)->time();
          CAPTURE(m.cluster, d.dispatcher, d.mode, tokens);
          CHECK(time > before);
          before = time;
          DispatchShape fewer = shape;
          shape.sms = 24;
          fewer.sms = 8;
          CHECK(dispatch_cost(d, *direction, fewer)->time() >= dispatch_cost(d, *direction, shape)->time());
          DispatchShape larger = shape;
          larger.group = {shape.group.ranks * 2, nodes == 1 ? 1 : nodes * 2};
          CHECK(dispatch_cost(d, *direction, larger)->time() >= dispatch_cost(d, *direction, shape)->time());
          shape.sms = 0;
        }
      }
    }
  }
}

TEST_CASE("The fastest algorithm of a file answers") {
  CollectiveModels m{.cluster = "toy", .ranks_per_node = 4, .measured_ranks = 4, .launch = Seconds(1e-6)};
  const std::vector<Collective> rings{Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce};
  m.rings.push_back({.collectives = rings,
                     .protocol = "LL",
                     .base = Seconds(0),
                     .step = Seconds(1e-6),
                     .bandwidth = BytesPerSecond(1e9),
                     .ramp_bytes = Bytes(1)});
  m.rings.push_back({.collectives = rings,
                     .protocol = "Simple",
                     .base = Seconds(10e-6),
                     .step = Seconds(1e-6),
                     .bandwidth = BytesPerSecond(1e11),
                     .ramp_bytes = Bytes(1)});
  SECTION("LL for little: launch 1 us, 3 steps of 1 us, 3/4 of 4000 bytes at 1 GB/s") {
    const auto cost = collective_cost(m, Collective::AllGather, {4, 1}, Bytes(4000));
    CHECK(cost->algorithm == "ring LL");
    CHECK(cost->time().value() == Approx(1e-6 + 3e-6 + 3000 / 1e9));
  }
  SECTION("Simple for much: launch 1 us, base 10 us, 3 steps of 1 us, 3/4 of 4 MB at 100 GB/s") {
    const auto cost = collective_cost(m, Collective::AllGather, {4, 1}, Bytes(4e6));
    CHECK(cost->algorithm == "ring Simple");
    CHECK(cost->time().value() == Approx(1e-6 + 10e-6 + 3e-6 + 3e6 / 1e11));
    CHECK(cost->bound() == "transfer");
  }
  SECTION("a group of one rank costs nothing, and between nodes there are no figures") {
    CHECK(collective_cost(m, Collective::AllGather, {1, 1}, Bytes(4e6))->time() == Seconds(0));
    CHECK_FALSE(collective_cost(m, Collective::AllGather, {8, 2}, Bytes(4e6)));
    CHECK_FALSE(collective_cost(m, Collective::AllToAll, {4, 1}, Bytes(4e6)));
    CHECK_FALSE(collective_cost(m, Collective::Broadcast, {4, 1}, Bytes(4e6)));
  }
  SECTION("more than four times the ranks that were measured is an extrapolation") {
    CHECK_FALSE(is_extrapolated({16, 4}, m.measured_ranks));
    CHECK(is_extrapolated({17, 1}, m.measured_ranks));
  }
}

TEST_CASE("A file answers measurements whose source it names") {
  CollectiveModels m{.cluster = "toy"};
  CHECK(answers(m, "anything"));
  m.sources = {"setting 3", "setting 4"};
  CHECK(answers(m, "log, setting 4"));
  CHECK_FALSE(answers(m, "log, setting 2"));
}

TEST_CASE("A file of collectives says what is wrong with it") {
  const std::string head = "cluster: toy\nranks_per_node: 8\nmeasured_ranks: 8\nlaunch: 4 us\n";
  const std::string origins = "origins: {\"\": \"assumed: a test\"}\n";
  CHECK(complaints_of(head + origins).empty());
  CHECK(complaints_of(head +
                      "rings:\n  - {collectives: [all_gathr], protocol: LL, base: 0 us, step: 1 us, "
                      "bandwidth: 1 GB/s}\n" +
                      origins) ==
        "rings[0].collectives: \"all_gathr\" is none of its collectives; did you mean \"all_gather\"?\n");
  CHECK(complaints_of(head +
                      "dispatchers:\n  - {dispatcher: d, measured_ranks: 4, dispatch: {base: 1 us, link: 1 GB/s, "
                      "wide_link: 2 GB/s}, combine: {base: 1 us}}\n" +
                      origins) ==
        "dispatchers[0].dispatch.wide_link: is faster than link: more ranks would take less time\n");
  CHECK(complaints_of(head + "host_memory: {direct_ranks: 0, bandwith: 1 GB/s}\n" + origins) ==
        "host_memory.direct_ranks: 0 is out of range; expected 1 to 1024\n"
        "host_memory.bandwith: unknown key; did you mean \"bandwidth\"?\n");
  CHECK(complaints_of(head + "nvls: {base: 1 us, step: 1 us, bandwith: 1 GB/s}\n" + origins) ==
        "nvls.bandwith: unknown key; did you mean \"bandwidth\"?\n");
}

}  // namespace moeplan::tests::collective_models_test
