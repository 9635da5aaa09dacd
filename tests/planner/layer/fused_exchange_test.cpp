#include <catch2/catch.hpp>
#include <string>

#include "model/program/resolve.hpp"
#include "planner/lowering/blocks/launches.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_layers.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::fused_exchange_test {

using namespace moeplan::planner;
using namespace small_layers;

namespace {

Workload even() {
  Workload w = workload({});
  w.dtype = Dtype::Bf16;
  w.routing.shape = RoutingShape::Uniform;
  return w;
}

Candidate on_four(const std::string& all_to_all) {
  Candidate c = candidate("baseline", 4, 1, 4, 1);
  c.all_to_all = all_to_all;
  return c;
}

Program layer_of(const std::string& all_to_all, const Workload& w = even()) {
  return lower_moe_layer(moe(8, /*gated=*/true), kM, 1024, w, on_four(all_to_all), 4);
}

double flops_of(const Program& program) {
  double flops = 0;
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      if (op.computes()) flops += compute_load(program, op, RankId(0)).flops;
    }
  }
  return flops;
}

std::int64_t sent_by(const Program& program) {
  std::int64_t bytes = 0;
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) {
      if (op.communication() == nullptr) continue;
      for (const Flow& flow : flows_from(program, op, RankId(0))) bytes += flow.bytes;
    }
  }
  return bytes;
}

}  // namespace

TEST_CASE("A fused dispatcher moves and multiplies the same rows, part by part") {
  const Program separate = layer_of("linear"), fused = layer_of("fused");
  CHECK(flops_of(fused) == flops_of(separate));
  CHECK(sent_by(fused) == sent_by(separate));
  std::int64_t parts = 0, started = 0, gradients = 0;
  for (const Block& block : fused.blocks) {
    for (const Operation& op : block.operations) {
      if (const Communication* c = op.communication(); c && !op.communication()->kernels->accompanies)
        started += c->continues ? 0 : 1;
      if (const auto* gemm = std::get_if<Gemm>(&op.work); gemm && gemm->grouped) {
        if (op.computes_weight_gradient()) ++gradients;
        if (!op.computes_weight_gradient()) CHECK(op.parts == find_all_to_all("fused")->fused_parts());
        parts += op.parts > 1 ? 1 : 0;
      }
      if (op.name == "encode") CHECK(op.kernels == 0);
    }
  }
  CHECK(parts == 4 * find_all_to_all("fused")->fused_parts());  // two products, forward and backward
  CHECK(gradients == 2);                                        // of all rows
  CHECK(started == 2);                                          // forward and backward, which combine on the way
}

TEST_CASE("A fused layer takes less than its exchanges and products after one another, not less than either") {
  Workload w = even();
  w.mode = Mode::Forward;
  const Cluster cluster = tests::toy_cluster(1, 4);
  Cluster free_links = tests::toy_cluster(1, 4), free_products = tests::toy_cluster(1, 4);
  for (Link& link : free_links.topology.links) link.bandwidth = BytesPerSecond(1e30);
  free_products.gpu.hbm_bandwidth = BytesPerSecond(1e30);
  for (auto& [dtype, rate] : free_products.gpu.peak) rate = FlopsPerSecond(1e30);
  free_products.gpu.launch_overhead = Seconds(0);
  const auto time = [&](const std::string& all_to_all, const Cluster& machine) {
    return sim::simulate(layer_of(all_to_all, w), machine, {.keep_spans = false}).makespan.seconds().value();
  };
  const double fused = time("fused", cluster);
  CHECK(fused < time("linear", cluster));
  CHECK(fused >= time("fused", free_links));
  CHECK(fused >= time("fused", free_products));
  CHECK(fused < time("fused", free_links) + time("fused", free_products));
}

TEST_CASE("The host launches parts of a fused kernel once") {
  const Program separate = layer_of("linear"), fused = layer_of("fused");
  for (std::size_t b = 0; b < fused.blocks.size(); ++b) {
    CAPTURE(fused.blocks[b].name);
    CHECK(fused.blocks[b].operations.size() > separate.blocks[b].operations.size());
    CHECK(launched_operations(fused.blocks[b], Workload{}) < launched_operations(separate.blocks[b], Workload{}));
  }
}

TEST_CASE("What fused kernels do not do is infeasible") {
  const auto why = [](Candidate c, std::int64_t ranks_per_node) {
    const auto reason = layer_infeasibility(kM, even(), c, ranks_per_node);
    return reason ? std::string(reason->text) : std::string();
  };
  CHECK(why(on_four("fused"), 4).empty());
  CHECK(why(on_four("fused"), 2) == "fused kernels write to ranks of one NVLink domain");
  Candidate other = on_four("fused");
  other.schedule = "pipelined";
  CHECK(why(other, 4) == "fused kernels order a layer themselves, as schedule baseline");
  Candidate overlapped = on_four("fused");
  overlapped.ep_overlap = true;
  CHECK(why(overlapped, 4) == "fused kernels leave no exchange to overlap");
}

}  // namespace moeplan::tests::fused_exchange_test
