#include "model/machine/cluster.hpp"

#include <catch2/catch.hpp>
#include <chrono>

#include "model/machine/cluster_template.hpp"
#include "model/text/origins.hpp"
#include "model/text/unit_text.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::cluster_test {

using tests::cluster_from;
using tests::cluster_text;
using tests::error_of;

namespace {

std::string build_error(const std::string& machine, std::optional<std::int64_t> world) {
  return error_of([&] { static_cast<void>(build_cluster(cluster_from(machine), world)); });
}
std::string read_error(const std::string& machine) {
  return error_of([&] { static_cast<void>(cluster_from(machine)); });
}

}  // namespace

TEST_CASE("explicit vertices and links make a cluster") {
  const std::string vertices =
      "vertices: [{name: g1, kind: gpu, node: 1}, {name: g0, kind: gpu, node: 0}, {name: sw, kind: network_switch}]\n";
  const auto link = [](const std::string& from, const std::string& to, const std::string& rest) {
    return "{from: " + from + ", to: " + to + ", bandwidth: 1 GB/s, latency: 1 us" + rest + "}";
  };
  const std::string links =
      "links: [" + link("g0", "sw", ", duplex: true") + ", " + link("g1", "sw", ", duplex: true") + "]";
  SECTION("ranks are ordered by node, whatever the order of the list") {
    const Cluster c = build_cluster(cluster_from(vertices + links), std::nullopt);
    CHECK(c.topology.vertices[c.gpu_of_rank[0].index()].name == "g0");
    CHECK(c.topology.links.size() == 4);
    CHECK(c.topology.links[0].tier == LinkTier::Nic);
  }
  SECTION("GPUs that cannot reach one another are named") {
    CHECK(build_error(vertices + "links: [" + link("g0", "sw", ", duplex: true") + ", " + link("sw", "g1", "") + "]",
                      std::nullopt) ==
          "GPU \"g1\" cannot reach GPU \"g0\": no path of links joins them (GPUs do not forward)");
  }
  SECTION("an unknown end names the nearest vertex") {
    CHECK(read_error("vertices: [{name: gpu0, kind: gpu, node: 0}]\nlinks: [" + link("gpu1", "gpu0", "") + "]") ==
          "c.yaml:6:16: links[0].from: \"gpu1\" is no vertex; did you mean \"gpu0\"?");
  }
  SECTION("names must differ, links join two vertices, and a GPU says its node") {
    CHECK(read_error("vertices: [{name: g, kind: gpu, node: 0}, {name: g, kind: nic}]\nlinks: [" + link("g", "g", "") +
                     "]") ==
          "c.yaml:5:50: vertices[1].name: \"g\" names an earlier vertex too\n"
          "c.yaml:6:23: links[0].to: joins a vertex to itself");
    CHECK(read_error("vertices: [{name: g, kind: gpu}]\nlinks: []") == "c.yaml:5:12: vertices[0].node: missing key");
  }
  SECTION("they do not grow") {
    CHECK(build_error(vertices + links, 64) ==
          "world 64 needs 64 GPUs; the cluster has 2, and explicit vertices do not grow");
  }
  SECTION("a machine is a template or explicit, not both and not neither") {
    CHECK(
        read_error(vertices + links + "\n" + nv_template(kSingleSwitch)) ==
        "c.yaml:8:3: template: cannot be combined with vertices or links; a machine is either a template or explicit");
    CHECK(read_error("") == "c.yaml:1:1: describes no machine; expected template, or vertices and links");
  }
}

TEST_CASE("a world that the cluster cannot give is refused") {
  CHECK(build_error(nv_template("", 1), 64) == "world 64 needs 64 GPUs; the cluster has 8 and no fabric to grow by");
  CHECK(build_error(nv_template(kSingleSwitch), 0) == "world 0 is out of range; expected 1 to 1048576");
  CHECK(build_error(nv_template(kSingleSwitch), -3) == "world -3 is out of range; expected 1 to 1048576");
  CHECK(build_error(nv_template(kSingleSwitch), 1'048'577) == "world 1048577 is out of range; expected 1 to 1048576");
  CHECK(build_error("template:\n  nodes: 2\n  gpus_per_node: 1\n" + kNvSwitch +
                        "  fabric: {kind: dragonfly, nics_per_node: 1, nic_bandwidth: 1 GB/s, latency: 0, "
                        "oversubscription: 1, nodes_per_leaf: 1}",
                    100'000) == "100000 nodes of 1 GPUs and 1 NICs need about 1e+10 links, more than 16777216");
}

TEST_CASE("a wrong cluster file is refused with the place and what was expected") {
  SECTION("an unknown key names the nearest one") {
    CHECK(read_error(nv_template("{kind: single_switch, nics_per_node: 8, nic_bandwith: 50 GB/s, latency: 0}")) ==
          "c.yaml:9:51: template.fabric.nic_bandwith: unknown key; did you mean \"nic_bandwidth\"?");
  }
  SECTION("a bandwidth without unit, and one of 0") {
    CHECK(read_error(nv_template("{kind: single_switch, nics_per_node: 8, nic_bandwidth: 50, latency: 0}")) ==
          "c.yaml:9:66: template.fabric.nic_bandwidth: \"50\" has no unit; write e.g. \"450 GB/s\" or \"3600 Gbps\"");
    CHECK(read_error(nv_template("{kind: single_switch, nics_per_node: 8, nic_bandwidth: 0 GB/s, latency: 0}")) ==
          "c.yaml:9:66: template.fabric.nic_bandwidth: \"0 GB/s\" is out of range; expected more than 0");
  }
  SECTION("several nodes need a fabric") {
    CHECK(read_error(nv_template("")) == "c.yaml:6:3: template: missing key \"fabric\": it joins the 4 nodes");
  }
  SECTION("a number without origin") {
    const std::string text = tests::cluster_text(nv_template("", 1));
    const std::string part = "{\"\": \"assumed: a test\"}";
    const std::string less = "{template: \"assumed: x\", collective_startup: \"assumed: y\"}";
    const Node document = parse_yaml(std::string(text).replace(text.find(part), part.size(), less), "c.yaml");
    CHECK(error_of([&] { static_cast<void>(read_cluster(document)); }) ==
          "c.yaml:3:19: message_overhead: has no origin; name it, or a prefix of it, in origins as \"measured: ...\", "
          "\"datasheet: ...\", \"published: ...\" or \"assumed: ...\"");
  }
  SECTION("a collective that stands in the list twice") {
    const std::string one = "{collective: all_gather, span: intra_node, alpha: 1 us, beta: 1 ns/B}";
    CHECK(read_error(nv_template("", 1) + "collectives: [" + one + ", " + one + "]") ==
          "c.yaml:9:99: collectives[1].collective: all_gather intra_node stands in the list twice");
  }
  SECTION("measured collectives of a shape or a rate that cannot be") {
    const auto with = [](const std::string& entry) {
      return read_error(nv_template("", 1) + "collectives: [{collective: all_gather, " + entry + "}]");
    };
    CHECK(with("span: intra_node, ranks: 8, nodes: 2, alpha: 1 us, beta: 1 ns/B") ==
          "c.yaml:9:75: collectives[0].nodes: 2 is out of range; expected 1");
    CHECK(with("span: inter_node, ranks: 2, nodes: 4, alpha: 1 us, beta: 1 ns/B") ==
          "c.yaml:9:65: collectives[0].ranks: 2 ranks are on 4 nodes");
    CHECK(with("span: intra_node, nodes: 1, alpha: 1 us, beta: 1 ns/B") ==
          "c.yaml:9:65: collectives[0].nodes: stands without ranks");
    CHECK(with("span: intra_node, alpha: 1 us, beta: 0.001 ps/B") ==
          "c.yaml:9:77: collectives[0].beta: \"0.001 ps/B\" is impossible: a rank would send more than 100.0 TB/s");
    CHECK(with("span: intra_node, alpha: -1 us, beta: 1 ns/B")
              .starts_with("c.yaml:9:65: collectives[0].alpha: \"-1 us\" is out of range"));
  }
  SECTION("an unknown GPU names the nearest file") {
    Node document = parse_yaml("gpu: h100_sxn", "c.yaml");
    CHECK(error_of([&] { embed_files(document, {tests::kConfigs / "gpus"}); }) ==
          "c.yaml:1:6: gpu: \"h100_sxn\" is no known GPU; did you mean \"h100_sxm\"?");
  }
}

TEST_CASE("the assumed numbers of a cluster include those of its GPU") {
  const Node document = parse_yaml(tests::cluster_text(nv_template("", 1)), "c.yaml");
  const auto assumed = assumed_numbers(document);
  CHECK(assumed.front() == "collective_startup = 10 us: a test");
  CHECK(std::find(assumed.begin(), assumed.end(), "gpu.peak.bf16 = 100 TFLOP/s: a toy") != assumed.end());
  CHECK(assumed.size() == 2 + 4 + 11);  // start-up and overhead, the template's four, the GPU's eleven
}

TEST_CASE("an all-reduce measured faster than what it contains is refused beyond noise") {
  const auto error = [](const std::string& all_gather, const std::string& all_reduce) {
    return read_error(nv_template("", 1) + "collectives: [{collective: all_gather, span: intra_node, " + all_gather +
                      "}, {collective: all_reduce, span: intra_node, " + all_reduce + "}]");
  };
  CHECK(error("alpha: 10 us, beta: 4 ps/B", "alpha: 10 us, beta: 8 ps/B").empty());
  CHECK(error("alpha: 10 us, beta: 4 ps/B", "alpha: 10 us, beta: 3.2 ps/B").empty());
  const std::string text = error("alpha: 10 us, beta: 4 ps/B", "alpha: 10 us, beta: 2 ps/B");
  INFO(text);
  const double n = 0x1p30;  // the least ratio is that of the largest message
  CHECK(text.find(": collectives[1].beta: all_reduce intra_node takes " + human(Seconds(10e-6 + n * 2e-12)) + " for " +
                  human(Bytes(n)) + ", less than the all_gather of " + human(Seconds(10e-6 + n * 4e-12)) +
                  " that it contains; correct one of them, or leave out the all_reduce, which then costs both of its "
                  "halves") != std::string::npos);
  SECTION("but named, not refused, where shapes of groups were measured one by one, because such times scatter") {
    CHECK(error("ranks: 8, beta: 4 ps/B", "ranks: 8, beta: 1 ps/B").empty());
  }
  SECTION("also from the size on where a later piece begins, at that piece") {
    const std::string later =
        error("alpha: 10 us, beta: 4 ps/B",
              "alpha: 10 us, beta: 8 ps/B}, {collective: all_reduce, span: intra_node, from: 1 MiB, alpha: 10 us, "
              "beta: 2 ps/B");
    CHECK(later.find("collectives[2].beta: all_reduce intra_node from 1.000 MiB takes ") != std::string::npos);
  }
  SECTION("not among small messages") {
    CHECK(error("alpha: 100 us, beta: 4 ps/B", "alpha: 10 us, beta: 101 ps/B").empty());
  }
}

TEST_CASE("measured collectives are read by shape and size") {
  const std::string entries =
      "collectives:\n"
      "  - {collective: all_to_all, span: intra_node, ranks: 8, alpha: 7 us, beta: 20 ps/B}\n"
      "  - {collective: all_to_all, span: intra_node, ranks: 8, from: 1 MiB, alpha: 24 us, beta: 3 ps/B}\n"
      "  - {collective: all_to_all, span: inter_node, ranks: 2, nodes: 2, in_place: true, beta: 12 ps/B}\n";
  const ClusterSpec spec = read_cluster(parse_yaml(tests::cluster_text(nv_template("", 1) + entries), "c.yaml"));
  REQUIRE(spec.collectives.size() == 3);
  const CollectiveKey piece{
      .collective = Collective::AllToAll, .span = Span::IntraNode, .nodes = 1, .ranks = 8, .from = Bytes(1 << 20)};
  CHECK(spec.collectives.at(piece).alpha.value() == Approx(24e-6));
  const CollectiveKey pair{
      .collective = Collective::AllToAll, .span = Span::InterNode, .in_place = true, .nodes = 2, .ranks = 2};
  CHECK(spec.collectives.at(pair).alpha == spec.collective_startup);  // none was measured
}

TEST_CASE("every cluster of configs/clusters loads under the name of its file and is connected") {
  const auto files = tests::files_in("clusters");
  CHECK(files.size() >= 12);
  for (const auto& path : files) {
    INFO(path);
    const ClusterSpec spec = tests::load_cluster(path);
    CHECK(spec.name == path.stem().string());
    const Cluster c = build_cluster(spec, std::nullopt);
    for (std::size_t r = 1; r < c.gpu_of_rank.size(); ++r) {
      const Route route = c.route(RankId(0), RankId(r));
      REQUIRE(!route.links.empty());
      if (c.node_of_rank[r] != 0) continue;
      for (const RouteLink& l : route.links) {
        const Link& link = c.topology.links[l.link.index()];
        CHECK((link.tier == LinkTier::IntraNode || link.tier == LinkTier::Memory));  // never the NIC inside a node
      }
    }
  }
}

TEST_CASE("large worlds are built and routed on demand in well under a second") {
  const ClusterSpec spec = tests::load_cluster(tests::kConfigs / "clusters" / "dgx_h100.yaml");
  const auto start = std::chrono::steady_clock::now();
  const Cluster c = build_cluster(spec, 16384);
  const auto last = c.gpu_of_rank.back();
  for (std::size_t r = 0; r < 16000; r += 8) CHECK(c.routes.between(c.gpu_of_rank[r], last).links.size() == 6);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() < 5);  // loose: sanitizers and busy machines
}

TEST_CASE("a cluster of racks has the GPUs that are used of each") {
  const auto built = [](const std::string& template_key, std::optional<std::int64_t> world) {
    return build_cluster(
        cluster_from("template:\n  nodes: 2\n  gpus_per_node: 72\n" + template_key +
                     "  intra_node: {kind: nvswitch, bandwidth: 900 GB/s, latency: 1 us}\n"
                     "  fabric: {kind: single_switch, nics_per_node: 72, nic_bandwidth: 400 Gbps, latency: 1 us}"),
        world);
  };
  CHECK(built("", 144).ranks_per_node() == 72);
  CHECK(built("", 256).ranks_per_node() == 64);
  CHECK(built("", std::nullopt).world_size() == 144);
  CHECK(built("  used_per_node: 64\n", std::nullopt).world_size() == 128);
  const Cluster whole = built("  used_per_node: 72\n", 256);
  CHECK(whole.node_of_rank[71] == 0);
  CHECK(whole.node_of_rank[72] == 1);
  REQUIRE_THROWS_WITH(built("  used_per_node: 73\n", 256), Catch::Contains("used_per_node") && Catch::Contains("72"));
}

TEST_CASE("several ranks may share each GPU") {
  const std::string machine =
      "template:\n  nodes: 1\n  gpus_per_node: 2\n  intra_node: {kind: nvswitch, bandwidth: 100 GB/s, latency: 1 us}\n"
      "  fabric: {kind: single_switch, nics_per_node: 1, nic_bandwidth: 100 Gbps, latency: 1 us}";
  const ClusterSpec spec = cluster_from("ranks_per_gpu: 4\n" + machine);
  SECTION("a rank's GPU is that of its number over 4; nodes hold 8; world counts ranks") {
    const Cluster c = build_cluster(spec, std::nullopt);
    CHECK(c.world_size() == 8);
    CHECK(c.gpus() == 2);
    CHECK(c.ranks_per_node() == 8);
    for (std::size_t r = 0; r < 8; ++r) {
      CHECK(c.topology.vertices[c.gpu_of_rank[r].index()].name == (r < 4 ? "node0.gpu0" : "node0.gpu1"));
    }
  }
  SECTION("9 ranks need a third GPU, and the template grows by a node") {
    const Cluster c = build_cluster(spec, 9);
    CHECK(c.world_size() == 9);
    CHECK(c.gpus() == 3);
    CHECK(c.node_of_rank.back() == 1);
  }
  SECTION("a way inside a GPU is its memory, at half of what kernels reach, since a byte is read and written") {
    const Cluster c = build_cluster(spec, std::nullopt);
    const Route copy = c.route(RankId(4), RankId(7));
    REQUIRE(copy.links.size() == 1);
    const Link& link = c.topology.links[copy.links[0].link.index()];
    CHECK(link.bandwidth.value() == Approx(2e12 * 0.9 / 2));
    CHECK(copy.latency == Seconds(0));
    CHECK(c.topology.link_name(copy.links[0].link) == "memory of node0.gpu1");
    CHECK(c.route(RankId(3), RankId(4)).links.size() == 2);  // over the NVSwitch
  }
  SECTION("all ranks of a GPU must fit into its 80 GB") {
    CHECK(build_cluster(spec, std::nullopt).memory_per_rank().value() == Approx(20e9));
    CHECK(build_cluster(spec, 2).memory_per_rank().value() == Approx(40e9));
  }
  SECTION("one rank a GPU is the default, and has no such links") {
    const ClusterSpec alone = cluster_from(machine);
    CHECK(alone.ranks_per_gpu == 1);
    const Cluster c = build_cluster(alone, std::nullopt);
    CHECK(c.memory_links.empty());
    CHECK(c.topology == build_cluster(cluster_from("ranks_per_gpu: 1\n" + machine), std::nullopt).topology);
    CHECK(c.memory_per_rank() == c.gpu.memory);
  }
  SECTION("an explicit machine of one GPU needs no link") {
    const ClusterSpec one = cluster_from("ranks_per_gpu: 3\nvertices: [{name: g, kind: gpu, node: 0}]\nlinks: []");
    CHECK(build_cluster(one, std::nullopt).world_size() == 3);
    CHECK(error_of([&] { static_cast<void>(build_cluster(one, 4)); }) ==
          "world 4 needs 2 GPUs; the cluster has 1, and explicit vertices do not grow");
  }
  SECTION("nonsense is refused, and the number needs an origin") {
    CHECK(read_error("ranks_per_gpu: 0\n" + machine).find("ranks_per_gpu: 0 is out of range") != std::string::npos);
    std::string text = cluster_text("ranks_per_gpu: 4\n" + machine);
    const std::string origins = "origins: {\"\": \"assumed: a test\"}";
    text.replace(text.find(origins), origins.size(),
                 "origins: {template: \"assumed: a test\", collective_startup: \"assumed: a test\", message_overhead: "
                 "\"assumed: a test\"}");
    CHECK(error_of([&] { static_cast<void>(read_cluster(parse_yaml(text, "c.yaml"))); }).find("ranks_per_gpu") !=
          std::string::npos);
  }
}

TEST_CASE("Routes between ranks are kept once they are computed") {
  const Cluster cluster = tests::built_cluster("dgx_h100", 16);
  const auto links = [](const Route& route) {
    std::vector<LinkId> ids;
    for (const RouteLink& l : route.links) ids.push_back(l.link);
    return ids;
  };
  for (const int to : {1, 8, 15}) {
    const Route route = cluster.route(RankId(0), RankId(to));
    const Route& kept = cluster.cached_route(RankId(0), RankId(to));
    CHECK(links(kept) == links(route));
    CHECK(kept.latency == route.latency);
    CHECK(&cluster.cached_route(RankId(0), RankId(to)) == &kept);
  }
}

}  // namespace moeplan::tests::cluster_test
