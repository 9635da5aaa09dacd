#include "planner/lowering/blocks/offloaded.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/costs/compute.hpp"
#include "model/costs/estimate.hpp"
#include "model/program/resolve.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "sim/program/simulate.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::offloaded_test {

using namespace moeplan::planner;

namespace {

Candidate candidate(std::int64_t pp = 1) {
  Candidate c;
  c.degrees = {.dp = 4 / pp, .tp = 1, .edp = 1, .ep = 4 / pp, .esp = 1};
  c.degrees.pp = pp;
  c.schedule = "baseline";
  return c;
}

/// Four equal layers on four GPUs.
Small layers(const std::string& recompute = "none") {
  return small({.dense_layers = 0, .moe_layers = 4, .recompute = recompute});
}

Program iteration(const Small& s, const Candidate& c) {
  StageClusters clusters(s.cluster);
  return lowered(s.model, s.workload, clusters, c);
}

/// The buffers that leave or come back in blocks of one direction, with how often in an iteration of a stage.
std::map<std::string, std::int64_t> copied(const Program& p, bool to_host, std::size_t stage = 0) {
  std::map<std::string, std::int64_t> out;
  const std::vector<std::int64_t> counts = block_counts(p, stage);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    for (const Operation& op : p.blocks[b].operations) {
      if (!std::holds_alternative<HostCopy>(op.work) || op.kernels == 0) continue;
      for (const Slice& s : to_host ? op.reads : op.writes) {
        if (counts[b] > 0) out[p.buffer(s.buffer).name] += counts[b];
      }
    }
  }
  return out;
}

MemoryUse memory(const Small& s) {
  return iteration_memory_by_stage(Problem(s.model, s.workload, s.cluster), candidate(), iteration(s, candidate()))
      .front();
}

}  // namespace

TEST_CASE("What a layer keeps of these modules leaves once a layer and comes back, but of the last layer") {
  Small s = layers();
  s.workload.offload = {OffloadModule::ExpertFc1, OffloadModule::MoeActivation, OffloadModule::AttentionNorm};
  const std::int64_t passes = 2;  // 8 sequences, 4 ranks, 1 sequence a microbatch
  const std::int64_t each = 3 * passes;
  const Program p = iteration(s, candidate());
  CHECK(copied(p, true) == std::map<std::string, std::int64_t>{{"x", each}, {"expert.in", each}, {"expert.up", each}});
  CHECK(copied(p, false) ==
        std::map<std::string, std::int64_t>{{"x.ahead", each}, {"expert.in.ahead", each}, {"expert.up.ahead", each}});
}

TEST_CASE("What is recomputed does not leave") {
  Small s = layers("moe_act+layernorm");
  s.workload.offload = {OffloadModule::QkvLinear, OffloadModule::MlpNorm, OffloadModule::FusedGroupMlp};
  const auto left = copied(iteration(s, candidate()), true);
  CHECK(left.contains("x.mid"));
  CHECK(left.contains("expert.in"));
  CHECK_FALSE(left.contains("attn.in"));           // a norm's result
  CHECK_FALSE(left.contains("expert.activated"));  // an activation function's
}

TEST_CASE("Only the stage on which microbatches turn back keeps its last layer on the GPU") {
  Small s = layers();
  s.workload.offload = {OffloadModule::ExpertFc1};
  const Program p = iteration(s, candidate(2));
  const std::int64_t passes = 4;
  CHECK(copied(p, true, 0).at("expert.in") == 2 * passes);
  CHECK(copied(p, true, 1).at("expert.in") == 1 * passes);
}

TEST_CASE("Rows in host memory are not on the GPU") {
  Small s = layers();
  const MemoryUse before = memory(s);
  const Program p = iteration(s, candidate());
  Bytes of_layer(0);
  for (const Block& block : p.blocks) {
    for (const Operation& op : block.operations) {
      if (op.name == "expert up projection" && of_layer == Bytes(0))
        of_layer = Bytes(static_cast<double>(byte_count(p, op.writes.front(), RankId(0))));
    }
  }
  s.workload.offload = {OffloadModule::MoeActivation};
  CHECK(before.host == Bytes(0));
  CHECK(memory(s).host == 3.0 * of_layer);
  CHECK(before.activations - memory(s).activations == 3.0 * of_layer);
}

TEST_CASE("Copies that keep up with a block take no time, and others as long as they take") {
  Small s = layers();
  const auto makespan = [&](double bandwidth) {
    s.cluster.gpu.host_bandwidth = BytesPerSecond(bandwidth);
    StageClusters clusters(s.cluster);
    return sim::simulate(iteration(s, candidate()), clusters, {.keep_spans = false}).makespan.seconds().value();
  };
  const double on_gpu = makespan(1e9);
  s.workload.offload = {OffloadModule::ExpertFc1, OffloadModule::CoreAttention};
  CHECK(makespan(1e18) == Approx(on_gpu));
  double bytes = 0;
  const Program p = iteration(s, candidate());
  const std::vector<std::int64_t> counts = block_counts(p);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    for (const Operation& op : p.blocks[b].operations) {
      if (std::holds_alternative<HostCopy>(op.work))
        bytes += static_cast<double>(counts[b]) * host_copy_time(p, op, RankId(0), s.cluster.gpu).value() * 1e18;
    }
  }
  const double slow = makespan(1e6);
  CHECK(slow > bytes / 1e6);
  CHECK(slow < bytes / 1e6 + on_gpu);
}

TEST_CASE("Where ranks copy different numbers of rows, no iteration is faster than its lower bound") {
  for (const char* shape : {"zero_load", "lognormal", "hot_rank"}) {
    CAPTURE(shape);
    Small s = small({.startup = "0",
                     .message_overhead = "4 us",
                     .hidden = 1024,
                     .dense_layers = 0,
                     .moe_layers = 6,
                     .experts = 3,
                     .top_k = std::string(shape) == "zero_load" ? 3 : 2,
                     .expert_hidden = 64,
                     .global_batch = 16,
                     .sequence = 60,
                     .dtype = "fp32",
                     .recompute = "none",
                     .routing = std::string("{shape: ") + shape + ", sampled: true, seed: 57}"});
    s.workload.offload = {OffloadModule::CoreAttention, OffloadModule::ExpertFc1};
    Candidate c = candidate(2);
    c.micro_batch = 4;
    StageClusters machines(s.cluster);
    const Program p = lowered(s.model, s.workload, machines, c);
    const double bound = estimate(p, machines).lower_bound.value();
    CHECK(bound > 0);
    CHECK(sim::simulate(p, s.cluster, {.keep_spans = false}).makespan.seconds().value() >= bound * (1 - 1e-9));
    CHECK(sim::simulate_stages(p, machines, {.keep_spans = false}).makespan.seconds().value() >= bound * (1 - 1e-9));
  }
}

TEST_CASE("A backward pass waits for its weights, with and without rows in host memory") {
  for (const Offload& offload : {Offload::None, Offload{OffloadModule::ExpertFc1}}) {
    Small s = small({.dense_layers = 0, .moe_layers = 4, .zero_stage = 3, .recompute = "none"});
    s.workload.offload = offload;
    int waits = 0;
    for (const Block& block : iteration(s, candidate()).blocks) {
      if (block.operations.size() < 3 || !std::holds_alternative<Wait>(block.operations.front().work)) continue;
      const auto computes = [](const Operation& op) { return op.computes(); };
      const auto first = std::find_if(block.operations.begin(), block.operations.end(), computes);
      if (first == block.operations.end() || first->op_class == OpClass::Optimizer) continue;
      CAPTURE(block.name, first->name);
      CHECK(first->after == std::vector<std::int32_t>{0});
      ++waits;
    }
    CHECK(waits > 2);
  }
}

TEST_CASE("The optimizer's states come before its step and leave after it") {
  for (const Dtype moments : {Dtype::Fp32, Dtype::Bf16}) {
    Small s = layers();
    s.workload.optimizer_dtype = moments;
    const MemoryUse on_gpu = memory(s);
    s.workload.offload = {OffloadModule::OptimizerStates};
    const MemoryUse away = memory(s);
    CHECK(away.optimizer == Bytes(0));
    CHECK(away.host == on_gpu.optimizer);
    CHECK(away.activations == on_gpu.activations);
    CHECK(away.working >= on_gpu.optimizer - on_gpu.activations);  // they are there during the step, without the others
    const auto left = copied(iteration(s, candidate()), true), back = copied(iteration(s, candidate()), false);
    CHECK(left == back);
    CHECK(left.size() == (moments == Dtype::Fp32 ? 2 : 4));  // of dense and of experts' weights
  }
}

}  // namespace moeplan::tests::offloaded_test
