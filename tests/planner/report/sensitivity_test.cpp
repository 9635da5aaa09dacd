#include "planner/report/sensitivity.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "model/analysis/critical_path.hpp"
#include "model/text/unit_text.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/spec_files.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::sensitivity_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

/// A small model whose iteration has every class of traffic.
ModelSpec model() {
  const Moe moe{.num_experts = 8,
                .top_k = 2,
                .expert = {512, true, false},
                .shared = {0, false, false},
                .shared_gate = false,
                .router_bias = false};
  return {.name = "small",
          .vocab_size = 1000,
          .hidden_size = 256,
          .position_embeddings = 0,
          .token_types = 0,
          .embedding_norm = false,
          .tied_embeddings = false,
          .causal = true,
          .norm = Norm::Rms,
          .norms_per_layer = 2,
          .final_norm = true,
          .attention =
              HeadAttention{
                  .num_heads = 4, .num_kv_heads = 4, .head_dim = 64, .bias = false, .qk_norm = false, .sinks = false},
          .layers = {{2, {{0, moe}}}},
          .num_mtp_layers = 0};
}

Workload workload(RoutingShape shape = RoutingShape::Uniform) {
  Workload w{};
  w.name = "test";
  w.global_batch = 32;
  w.sequence_length = 256;
  w.mode = Mode::Train;
  w.dtype = Dtype::Fp16;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  w.zero_stage = 1;
  w.routing.shape = shape;
  return w;
}

Candidate candidate(const std::string& schedule, std::int64_t world, std::int64_t tp, std::int64_t ep,
                    std::int64_t esp) {
  Candidate c;
  c.degrees = {.dp = world / tp, .tp = tp, .edp = world / (ep * esp), .ep = ep, .esp = esp};
  c.schedule = schedule;
  return c;
}

Node cluster_document(const std::string& name) { return tests::cluster_document(tests::cluster_path(name)); }

/// Values on the command line: KEY=VALUE without the root "cluster."
using Overrides = std::vector<std::pair<std::string, std::string>>;

Cluster overridden(const std::string& name, std::int64_t world, const Overrides& overrides) {
  Node document = cluster_document(name);
  for (const auto& [key, value] : overrides) override_value(document, key, value, "-C");
  return build_cluster(read_cluster(document), world);
}

/// Equal up to what scaling in another order may round: 1e-9, or a picosecond an operation.
bool same(SimTime a, SimTime b, const Program& p) {
  double operations = 0;
  const std::vector<std::int64_t> counts = block_counts(p);
  for (std::size_t i = 0; i < counts.size(); ++i) {
    operations += static_cast<double>(counts[i]) * static_cast<double>(p.blocks[i].operations.size());
  }
  const auto difference = static_cast<double>(std::abs((a - b).picoseconds()));
  return difference <= std::max(operations, 1e-9 * static_cast<double>(a.picoseconds()));
}

void check_overrides(const std::string& name, const Program& p, std::int64_t world,
                     const std::map<Resource, Overrides>& overrides) {
  const Cluster cluster = overridden(name, world, {});
  const SimTime before = simulate(p, cluster).makespan;
  std::size_t checked = 0;
  for (const Sensitivity& s : sensitivities(p, cluster, before)) {
    INFO(name << " " << s.resource.name);
    const auto it = overrides.find(s.resource.resource);
    REQUIRE(it != overrides.end());
    const SimTime separate = simulate(p, overridden(name, world, it->second)).makespan;
    CHECK(same(s.makespan, separate, p));
    CHECK(s.gain == Approx(1 - separate.seconds() / before.seconds()).margin(1e-6));
    ++checked;
  }
  CHECK(checked == overrides.size());
}

Overrides peaks(const Cluster& cluster) {
  Overrides out;
  for (const auto& [dtype, peak] : cluster.gpu.peak) {
    out.emplace_back("gpu.peak." + std::string(name_of<Dtype>(kDtypeNames, dtype)),
                     exact(1.1 * peak.value()) + " FLOP/s");
  }
  return out;
}

/// alpha or beta of every measured collective, as the file writes them.
Overrides of_collectives(const ClusterSpec& spec, const std::string& what, double factor, Overrides out = {}) {
  const Node document = cluster_document(spec.name);
  const std::vector<Node>& items = document.find("collectives")->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string text = items[i].find(what)->scalar;
    const std::string key = "collectives[" + std::to_string(i) + "]." + what;
    if (what == "alpha") {
      out.emplace_back(key, exact(factor * std::get<Seconds>(parse_seconds(text)).value()) + " s");
    } else {
      out.emplace_back(key, exact(factor * std::get<SecondsPerByte>(parse_seconds_per_byte(text)).value()) + " s/B");
    }
  }
  return out;
}

/// All times of models of collectives, multiplied by 0.9.
Overrides latencies(const Node& node, const std::string& key, Overrides out) {
  for (const Entry& entry : node.entries) {
    if (entry.key != "origins") out = latencies(entry.value, key + "." + entry.key, std::move(out));
  }
  for (std::size_t i = 0; i < node.items.size(); ++i)
    out = latencies(node.items[i], key + "[" + std::to_string(i) + "]", std::move(out));
  if (node.kind != Node::Kind::Scalar || !node.scalar.ends_with(" us")) return out;
  out.emplace_back(key, exact(0.9 * std::get<Seconds>(parse_seconds(node.scalar)).value()) + " s");
  return out;
}

}  // namespace

TEST_CASE("a sensitivity is the makespan that simulating with the value overridden gives") {
  SECTION("on dgx_h100, where the core follows the NICs") {
    const Program p = lower_iteration(model(), workload(), candidate("parm_s1", 16, 2, 8, 2), 8);
    const ClusterSpec spec = read_cluster(cluster_document("dgx_h100"));
    const Cluster cluster = build_cluster(spec, 16);
    check_overrides(
        "dgx_h100", p, 16,
        {{Resource::IntraNodeBandwidth, {{"template.intra_node.bandwidth", "495 GB/s"}}},
         {Resource::NicBandwidth, {{"template.fabric.nic_bandwidth", "440 Gbps"}}},
         // Only one leaf group is built, so nothing crosses the spine, whatever its bandwidth.
         {Resource::CoreBandwidth, {}},
         {Resource::LinkLatency, {{"template.intra_node.latency", "0.45 us"}, {"template.fabric.latency", "0.9 us"}}},
         {Resource::CollectiveStartup,
          latencies(*cluster_document("dgx_h100").find("collectives"), "collectives",
                    {{"collective_startup", exact(0.9 * cluster.collective_startup.value()) + " s"},
                     {"message_overhead", exact(0.9 * cluster.message_overhead.value()) + " s"}})},
         {Resource::GpuFlops, peaks(cluster)},
         {Resource::HbmBandwidth, {{"gpu.hbm_bandwidth", "3685 GB/s"}}},
         {Resource::KernelLaunch,
          {{"gpu.launch_overhead", "2.394 us"}, {"gpu.grouped_gemm_launch_overhead", "9.36 us"}}},
         {Resource::Host,
          {{"gpu.host_time_per_operation", exact(0.9 * cluster.gpu.host_time_per_operation.value()) + " s"}}}});
  }
  SECTION("on parts of a GPU, where sums have a rate of their own") {
    const Program p = lower_iteration(model(), workload(), candidate("tutel_r0", 4, 1, 4, 1), 4);
    const Cluster cluster = build_cluster(read_cluster(cluster_document("parts")), 4);
    check_overrides(
        "parts", p, 4,
        {{Resource::IntraNodeBandwidth, {{"template.intra_node.bandwidth", "55 GB/s"}}},
         {Resource::LinkLatency, {}},
         {Resource::CollectiveStartup, {{"collective_startup", "37.8 us"}}},
         {Resource::CollectiveRate, {{"reduction_bandwidth", "396 GB/s"}}},
         {Resource::GpuFlops, peaks(cluster)},
         {Resource::HbmBandwidth, {{"gpu.hbm_bandwidth", exact(1.1 * cluster.gpu.hbm_bandwidth.value()) + " B/s"}}},
         {Resource::KernelLaunch, {{"gpu.launch_overhead", exact(0.9 * cluster.gpu.launch_overhead.value()) + " s"}}}});
  }
  SECTION("on parm_testbed_b, a PCIe tree whose collectives were measured") {
    const Program p = lower_iteration(model(), workload(), candidate("parm_s1", 32, 4, 8, 4), 4);
    const ClusterSpec spec = read_cluster(cluster_document("parm_testbed_b"));
    const Cluster cluster = build_cluster(spec, 32);
    check_overrides(
        "parm_testbed_b", p, 32,
        {{Resource::IntraNodeBandwidth,
          {{"template.intra_node.pcie_bandwidth", "17.325 GB/s"},
           {"template.intra_node.inter_bridge_bandwidth", "22.88 GB/s"}}},
         {Resource::NicBandwidth, {{"template.fabric.nic_bandwidth", "110 Gbps"}}},
         {Resource::LinkLatency, {{"template.intra_node.latency", "0.45 us"}, {"template.fabric.latency", "0.9 us"}}},
         {Resource::CollectiveStartup, of_collectives(spec, "alpha", 0.9, {{"collective_startup", "28.8 us"}})},
         {Resource::CollectiveRate, of_collectives(spec, "beta", 1 / 1.1)},
         {Resource::GpuFlops, peaks(cluster)},
         {Resource::HbmBandwidth, {{"gpu.hbm_bandwidth", exact(1.1 * cluster.gpu.hbm_bandwidth.value()) + " B/s"}}},
         {Resource::KernelLaunch, {{"gpu.launch_overhead", exact(0.9 * cluster.gpu.launch_overhead.value()) + " s"}}}});
  }
}

TEST_CASE("sensitivities are sorted by gain and leave out what the machine lacks") {
  Program p = tests::one_block(1);
  p.blocks.back().operations.push_back(tests::kernel_of(p, 1'000'000));
  const Cluster cluster = tests::toy_cluster(1, 1);
  const std::vector<Sensitivity> all = sensitivities(p, cluster, simulate(p, cluster).makespan);
  SECTION("a program of one kernel gains by HBM alone, 1 - 1 / 1.1") {
    CHECK(all.front().resource.resource == Resource::HbmBandwidth);
    CHECK(all.front().gain == Approx(1 - 1 / 1.1).margin(1e-6));
    for (std::size_t i = 1; i < all.size(); ++i) CHECK(all[i].gain == 0);
  }
  SECTION("the toy has no core links and nothing measured") {
    for (const Sensitivity& s : all) {
      CHECK(s.resource.resource != Resource::CoreBandwidth);
      CHECK(s.resource.resource != Resource::CollectiveRate);
    }
  }
}

TEST_CASE("the critical path of a plan is as long as its makespan and leaves nothing unexplained") {
  const auto check = [](const Program& p, const Cluster& cluster, const SimulateOptions& options) {
    const Timeline t = simulate(p, cluster, options);
    const std::vector<PathSegment> path = critical_path(p, t, cluster);
    SimTime sum;
    bool explained = true;
    for (const PathSegment& s : path) {
      sum += SimTime::scaled(s.duration, s.times);
      explained = explained && s.limited_by != Bottleneck::Unrecorded && s.limited_by != Bottleneck::Waiting;
    }
    CHECK(explained);
    CHECK(sum == t.makespan);
    CHECK(summarise(p, cluster, path).time == t.makespan);
  };
  SimulateOptions every_iteration, every_rank;
  every_iteration.skip_repeats = false;
  every_rank.use_symmetry = false;
  const Cluster dgx = overridden("dgx_h100", 16, {}), parm = overridden("parm_testbed_b", 16, {});
  for (const RoutingShape shape : {RoutingShape::Uniform, RoutingShape::Zipf}) {
    for (const Candidate& c : {candidate("baseline", 16, 1, 8, 1), candidate("baseline", 16, 4, 4, 4),
                               candidate("parm_s1", 16, 2, 8, 2), candidate("parm_s2", 16, 4, 4, 2)}) {
      INFO(c.schedule.name() << " tp " << c.degrees.tp);
      check(lower_iteration(model(), workload(shape), c, 8), dgx, {});
      const Program p = lower_iteration(model(), workload(shape), c, 4);
      check(p, parm, {});
      check(p, parm, every_iteration);
      check(p, parm, every_rank);
    }
  }
}

TEST_CASE("copies inside a GPU that ranks share go by its HBM, not by links of the node") {
  const Cluster cluster = tests::built_cluster("loopback");
  const auto copies = [](const Cluster& c) { return c.topology.links.front().bandwidth.value(); };
  CHECK(copies(scaled(cluster, Resource::HbmBandwidth, 1.1)) == Approx(1.1 * copies(cluster)));
  CHECK(copies(scaled(cluster, Resource::IntraNodeBandwidth, 1.1)) == copies(cluster));
  CHECK(scaled(cluster, Resource::GpuFlops, 1.1).route(RankId(0), RankId(3)).links.size() == 1);
  for (const ResourceInfo& r : resources_of(cluster)) CHECK(r.resource != Resource::IntraNodeBandwidth);
}

}  // namespace moeplan::tests::sensitivity_test
