// Token mixers other than plain attention, hyper-connections and latent experts, in whole Programs.
#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "model/costs/compute.hpp"
#include "model/costs/model_flops.hpp"
#include "model/costs/scan_kernels.hpp"
#include "model/program/resolve.hpp"
#include "planner/layer/dense_parts.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_layers.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::mixer_parts_test {

using namespace moeplan::planner;

namespace {

constexpr std::int64_t kHidden = 1024, kSequence = 512;

const GatedDeltaNet kDelta{
    .num_key_heads = 8, .num_value_heads = 16, .key_head_dim = 64, .value_head_dim = 64, .conv_kernel = 4};
const Mamba2 kMamba{.num_heads = 32, .head_dim = 64, .state_size = 64, .num_groups = 8};
const LatentAttention kSparse{.num_heads = 16,
                              .q_lora_rank = 256,
                              .kv_lora_rank = 128,
                              .qk_nope_head_dim = 64,
                              .qk_rope_head_dim = 32,
                              .v_head_dim = 64,
                              .indexer = Indexer{.num_heads = 8, .head_dim = 64, .top_k = 128}};
const CompressedAttention kCompressed{.num_heads = 16,
                                      .head_dim = 64,
                                      .rope_head_dim = 32,
                                      .q_lora_rank = 256,
                                      .output_groups = 4,
                                      .output_rank = 128,
                                      .compression = 4,
                                      .indexer = Indexer{.num_heads = 8, .head_dim = 64, .top_k = 64}};
const HeadAttention kGated{.num_heads = 16,
                           .num_kv_heads = 4,
                           .head_dim = 64,
                           .bias = false,
                           .qk_norm = true,
                           .sinks = false,
                           .v_head_dim = 32,
                           .output_gate = OutputGate::Values};

Moe experts(std::int64_t latent = 0) {
  return {.num_experts = 8,
          .top_k = 2,
          .expert = {.hidden_size = 512, .gated = true, .bias = false},
          .shared = {.hidden_size = 512, .gated = true, .bias = false},
          .shared_gate = false,
          .router_bias = false,
          .latent_size = latent};
}

ModelSpec model(TokenMixer mixer, std::variant<Ffn, Moe> ffn, std::int64_t streams = 1) {
  ModelSpec m{};
  m.name = "m";
  m.vocab_size = 2048;
  m.hidden_size = kHidden;
  m.causal = true;
  m.norms_per_layer = 2;
  m.final_norm = true;
  m.residual_streams = streams;
  m.attention = kGated;
  LayerSpec layer{.attention_window = 0, .ffn = std::move(ffn), .mixer = std::move(mixer)};
  if (std::holds_alternative<CompressedAttention>(*layer.mixer)) layer.attention_window = 128;
  m.layers = {{1, {layer}}};
  return m;
}

Workload workload(Mode mode) {
  Workload w = small_layers::workload({});
  w.mode = mode;
  w.sequence_length = kSequence;
  w.global_batch = 2;
  w.dtype = Dtype::Bf16;
  w.routing.shape = RoutingShape::Uniform;
  return w;
}

Candidate candidate(std::int64_t tp, bool sequence_parallel = false) {
  Candidate c = small_layers::candidate("baseline", 1, 1, 1, 1);
  c.degrees = Degrees{.pp = 1, .dp = 1, .cp = 1, .tp = tp, .edp = 1, .ep = tp, .esp = 1};
  c.micro_batch = 2;
  c.sequence_parallel = sequence_parallel;
  return c;
}

/// FLOPs of rank 0 in all forward, or all backward, blocks.
double flops(const Program& program, bool backward) {
  double sum = 0;
  for (const Block& block : program.blocks) {
    if ((block.name.find("backward") != std::string::npos) != backward) continue;
    for (const Operation& op : block.operations) {
      if (op.computes()) sum += compute_load(program, op, RankId(0)).flops;
    }
  }
  return sum;
}

struct Case {
  const char* name;
  ModelSpec model;
};

std::vector<Case> cases() {
  const Ffn none{}, dense{.hidden_size = 512, .gated = true, .bias = false};
  return {{"delta net", model(kDelta, experts())},         {"mamba", model(kMamba, none)},
          {"sparse attention", model(kSparse, experts())}, {"compressed attention", model(kCompressed, experts(), 4)},
          {"gated attention", model(kGated, dense)},       {"experts alone", model(NoMixer{}, experts(256))},
          {"dense alone", model(NoMixer{}, dense)}};
}

/// The operations of rank 0's first block of a layer, forward or backward, in order.
std::vector<std::string> names(const Program& program, bool backward) {
  std::vector<std::string> out;
  for (const Block& block : program.blocks) {
    const bool is_layer = block.name.find("layer") != std::string::npos;
    if (!is_layer || (block.name.find("backward") != std::string::npos) != backward || !out.empty()) continue;
    for (const Operation& op : block.operations) out.push_back(op.name);
  }
  return out;
}

bool has(const std::vector<std::string>& all, const std::string& name) {
  return std::find(all.begin(), all.end(), name) != all.end();
}

}  // namespace

TEST_CASE("A lowered iteration computes the FLOPs that the model requires, whatever mixes its tokens") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const Workload w = workload(Mode::Train);
    REQUIRE_FALSE(infeasibility(c.model, w, candidate(1), 1));
    const Program program = lower_iteration(c.model, w, candidate(1), 1);
    // Norms, convolutions and other parameters that multiply no matrix count in the model, and are bytes here.
    const double required = forward_flops_per_token(c.model, kSequence) * static_cast<double>(2 * kSequence);
    CHECK(flops(program, false) == Approx(required).epsilon(0.01));
    // Twice as many backward, some more where backward computes again what memory would not hold, fewer where an
    // indexer learns from its selection alone.
    CHECK(flops(program, true) >= 1.7 * required);
    CHECK(flops(program, true) <= 2.8 * required);
  }
}

TEST_CASE("Tensor-parallel ranks divide a mixer's heads") {
  for (const Case& c : cases()) {
    for (const bool sequence_parallel : {false, true}) {
      CAPTURE(c.name, sequence_parallel);
      const Workload w = workload(Mode::Forward);
      const Candidate two = candidate(2, sequence_parallel);
      if (infeasibility(c.model, w, two, 2)) continue;
      const double one = flops(lower_iteration(c.model, w, candidate(1), 1), false);
      const double half = flops(lower_iteration(c.model, w, two, 2), false);
      // Indexers, compressors and stream weights are on every rank.
      CHECK(half >= 0.49 * one);
      CHECK(half <= 0.75 * one);
    }
  }
}

TEST_CASE("A layer has the operations of its mixer") {
  const auto forward = [](const ModelSpec& m) {
    return names(lower_iteration(m, workload(Mode::Train), candidate(1), 1), false);
  };
  SECTION("a recurrence's kernels") {
    for (const ScanKernel& kernel : scan_kernels(kDelta, 1).forward)
      CHECK(has(forward(model(kDelta, experts())), kernel.name));
    for (const ScanKernel& kernel : scan_kernels(kMamba, 1).forward)
      CHECK(has(forward(model(kMamba, experts())), kernel.name));
  }
  SECTION("an indexer, unless the selection is that of the layer before") {
    LatentAttention shared = kSparse;
    shared.indexer->is_shared = true;
    CHECK(has(forward(model(kSparse, experts())), "index scores"));
    CHECK(has(forward(model(kSparse, experts())), "sparse attention"));
    CHECK_FALSE(has(forward(model(shared, experts())), "index scores"));
    CHECK(has(forward(model(shared, experts())), "sparse attention"));
  }
  SECTION("no attention in a layer of experts alone, no experts in a layer of attention alone") {
    CHECK_FALSE(has(forward(model(NoMixer{}, experts())), "attention"));
    CHECK(has(forward(model(NoMixer{}, experts())), "gate projection"));
    CHECK(has(forward(model(kGated, Ffn{})), "attention"));
    CHECK_FALSE(has(forward(model(kGated, Ffn{})), "ffn.up projection"));
  }
  SECTION("hyper-connections read and write all streams") {
    const Program p = lower_iteration(model(kCompressed, experts(), 4), workload(Mode::Train), candidate(1), 1);
    std::int64_t reads = 0;
    for (const Block& block : p.blocks) {
      for (const Operation& op : block.operations) {
        if (op.name == "write streams") reads = compute_load(p, op, RankId(0)).bytes;
      }
    }
    const std::int64_t tokens = 2 * kSequence, weights = 4 * (4 + 2);
    CHECK(reads == tokens * 2 * (4 * kHidden + kHidden + weights + 4 * kHidden));  // streams, output, weights, streams
  }
}

TEST_CASE("Rows of latent experts are dispatched in the latent's columns") {
  const auto dispatched = [](std::int64_t latent) {
    Candidate c = candidate(1);
    c.degrees.dp = c.degrees.ep = 2;
    Workload w = workload(Mode::Forward);
    w.global_batch = 4;
    const Program p = lower_iteration(model(kGated, experts(latent)), w, c, 2);
    for (const Block& block : p.blocks) {
      for (const Operation& op : block.operations) {
        if (op.op_class == OpClass::Dispatch && op.communication()) return p.buffer(op.reads.front().buffer).columns;
      }
    }
    return std::int64_t{0};
  };
  CHECK(dispatched(0) == kHidden);
  CHECK(dispatched(256) == 256);
}

TEST_CASE("Fused products take the roofline of attention") {
  const ModelSpec m = model(kSparse, experts());
  const Program p = lower_iteration(m, workload(Mode::Forward), candidate(1), 1);
  const GpuSpec gpu = toy_gpu();
  for (const Block& block : p.blocks) {
    for (const Operation& op : block.operations) {
      if (op.name != "sparse attention") continue;
      const ComputeLoad load = compute_load(p, op, RankId(0));
      // The i-th of 512 queries sees min(i, 128) latents: 128 - 128^2 / 1024 = 112, each in two products a head.
      CHECK(load.flops == 2.0 * 2 * kSequence * 112 * 16 * (2 * 128 + 32));
      CHECK(compute_time(p, op, RankId(0), gpu) == attention_time(gpu, Dtype::Bf16, load.flops, load.bytes));
    }
  }
}

TEST_CASE("What is not modelled of a mixer is infeasible, with the reason") {
  const auto reason = [](const ModelSpec& m, Candidate c) {
    const auto found = infeasibility(m, workload(Mode::Train), c, c.degrees.world());
    return found ? found->text : std::string();
  };
  Candidate cp = candidate(1);
  cp.degrees.cp = cp.degrees.ep = 2;
  CHECK(reason(model(kDelta, experts()), cp) == "cp of linear attention is not modelled");
  CHECK(reason(model(kMamba, experts()), cp) == "cp of state-space layers is not modelled");
  CHECK(reason(model(kSparse, experts()), cp) == "cp of sparse attention is not modelled");
  CHECK(reason(model(kCompressed, experts()), cp) == "cp of compressed attention is not modelled");
  CHECK(reason(model(kGated, experts()), cp).empty());
  CHECK(reason(model(kCompressed, experts()), candidate(8)) ==
        "tp does not divide the groups of the output projection");
  CHECK(reason(model(kMamba, experts()), candidate(16)) == "tp does not divide the groups of state-space layers");
}

}  // namespace moeplan::tests::mixer_parts_test
