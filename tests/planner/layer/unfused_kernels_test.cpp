#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <string>
#include <vector>

#include "model/costs/memory.hpp"
#include "model/program/resolve.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/moe_parts.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_layers.hpp"

namespace moeplan::tests::unfused_kernels_test {

using namespace moeplan::planner;
using namespace small_layers;

namespace {

constexpr std::int64_t kTokens = 32;

ModelSpec model(bool has_bias, bool clamped = false) {
  ModelSpec m{};
  m.vocab_size = 128;
  m.hidden_size = kM;
  m.attention = HeadAttention{
      .num_heads = 2, .num_kv_heads = 2, .head_dim = kM / 2, .bias = false, .qk_norm = false, .sinks = false};
  Moe experts = moe(4, /*gated=*/true);
  experts.expert.bias = has_bias;
  experts.expert.clamped = clamped;
  m.layers = {{1, {LayerSpec{.attention_window = 0, .ffn = experts}}}};
  return m;
}

Workload in_experts() {
  Workload w = workload({});
  w.sequence_length = kTokens;
  w.dtype = Dtype::Bf16;
  w.gate_weights = GateWeights::InExperts;
  w.routing.shape = RoutingShape::Uniform;
  return w;
}

/// Bytes that the kernels of these names, and with " backward" after them, move on rank 0 in the first forward or
/// backward block that has any.
std::int64_t bytes_of(const Program& program, bool backward, const std::vector<std::string>& names) {
  std::int64_t bytes = 0;
  for (const Block& block : program.blocks) {
    if (bytes > 0) break;
    if ((block.name.find("backward") != std::string::npos) != backward) continue;
    for (const Operation& op : block.operations) {
      for (const std::string& name : names) {
        if (op.name == name || op.name == name + " backward") bytes += compute_load(program, op, RankId(0)).bytes;
      }
    }
  }
  return bytes;
}

std::int64_t bias_bytes(const Program& program, bool backward) {
  return bytes_of(program, backward,
                  {"weigh biases", "add biases", "join experts", "round", "bias gradient", "weights of biases",
                   "gradient of weights of biases"});
}

std::int64_t clamp_bytes(const Program& program, bool backward) {
  return bytes_of(program, backward, {"clamp", "join halves", "limits", "both limits"});
}

std::int64_t sort_bytes(const Program& program, bool backward) {
  return bytes_of(program, backward, {"sort by expert", "sort by source"});
}

}  // namespace

TEST_CASE("Biases of experts that weigh are added by kernels of their own, in fp32") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  const Program p = lower_iteration(model(true), in_experts(), c, 2);
  // Every token selects 2 of 4 experts: a rank computes as many rows as its tokens select.
  const std::int64_t values = kTokens * 2 * kM, row = kTokens * 2 * 2 * 2 * 4;
  constexpr std::int64_t kNarrow = 2, kWide = 4;
  SECTION("forward: product, sum, one tensor of all experts, rounded") {
    CHECK(bias_bytes(p, false) == values * (kWide + (kNarrow + 2 * kWide) + 2 * kWide + (kWide + kNarrow)) + row);
  }
  SECTION("backward: both gradients of the product, each with its sum") {
    const std::int64_t bias = 2 * kM * kWide, weights = kTokens * 2 * 2 * 4;
    CHECK(bias_bytes(p, true) ==
          values * ((kNarrow + kWide) + 2 * kWide + kWide + 2 * kWide + kWide + (kWide + kNarrow) + 2 * kNarrow) + row +
              bias + weights);
  }
  SECTION("not without biases, at the sources, in a forward workload, or in a layer that is executed") {
    CHECK(bias_bytes(lower_iteration(model(false), in_experts(), c, 2), false) == 0);
    Workload at_sources = in_experts();
    at_sources.gate_weights = GateWeights::AtSources;
    CHECK(bias_bytes(lower_iteration(model(true), at_sources, c, 2), false) == 0);
    Workload forward = in_experts();
    forward.mode = Mode::Forward;
    CHECK(bias_bytes(lower_iteration(model(true), forward, c, 2), false) == 0);
    const Moe experts = std::get<Moe>(model(true).layers.front().pattern.front().ffn);
    CHECK(bias_bytes(lower_moe_layer(experts, kM, kTokens, in_experts(), c, 2), false) == 0);
  }
}

TEST_CASE("An operation of Megatron-Core's is as many kernels as it launches") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  Workload w = in_experts();
  w.precision = Precision::Mxfp8;
  const auto kernels = [](const Program& p, const std::string& name, OpClass op_class) {
    for (const Block& block : p.blocks) {
      for (const Operation& op : block.operations)
        if (op.name == name && op.op_class == op_class) return op.kernels;
    }
    FAIL("no operation " << name);
    return std::int64_t{0};
  };
  const Program p = lower_iteration(model(true), w, c, 2);
  CHECK(kernels(p, "quantise", OpClass::Expert) == 2);  // two of four experts are on a rank
  CHECK(kernels(p, "quantise", OpClass::Attention) == 1);
  CHECK(kernels(p, "weigh biases", OpClass::Expert) == 2);
  CHECK(kernels(p, "round", OpClass::Expert) == 1);
  CHECK(kernels(p, "expert activation backward", OpClass::Expert) == 2);
  CHECK(kernels(p, "top-k", OpClass::Gate) == 30);
  CHECK(kernels(p, "top-k backward", OpClass::Gate) == 30);
  Candidate dispatched = c;
  dispatched.all_to_all = "hybridep";
  CHECK(kernels(lower_iteration(model(true), w, dispatched, 2), "top-k", OpClass::Gate) == 16);
  SECTION("and one where the gate's weights are applied at the sources, as other frameworks do") {
    w.gate_weights = GateWeights::AtSources;
    const Program others = lower_iteration(model(true), w, c, 2);
    CHECK(kernels(others, "top-k", OpClass::Gate) == 1);
    CHECK(kernels(others, "quantise", OpClass::Expert) == 1);
  }
}

TEST_CASE("Experts' fused products weigh, clamp, activate and quantise what they write") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  Workload w = in_experts();
  w.precision = Precision::Mxfp8;
  w.fusions.add(Fusion::Padding);
  const ModelSpec m = model(/*has_bias=*/true, /*clamped=*/true);
  const auto kept = [&](const Workload& of) {
    const Program p = lower_iteration(m, of, c, 2);
    return memory_use(p, stage_parameters(m, of, c), of, c.degrees).activations.value();
  };
  const double unfused = kept(w);
  w.fusions.add(Fusion::GroupedMlp);
  const Program p = lower_iteration(m, w, c, 2);
  CHECK(clamp_bytes(p, false) + clamp_bytes(p, true) + bias_bytes(p, false) == 0);
  std::vector<std::string> forward, backward;  // of the first block that has any
  for (const Block& block : p.blocks) {
    std::vector<std::string>& names = block.name.find("backward") != std::string::npos ? backward : forward;
    if (!names.empty()) continue;
    for (const Operation& op : block.operations) {
      const auto* kernel = std::get_if<Kernel>(&op.work);
      if (op.op_class != OpClass::Expert || !kernel) continue;
      names.push_back(op.name);
      CHECK(op.kernels == 1);
      CHECK((*kernel == Kernel::Epilogue) == op.name.starts_with("expert activation"));
    }
  }
  CHECK(forward == std::vector<std::string>{"quantise", "expert activation"});
  CHECK(backward ==
        std::vector<std::string>{"gradients of biases and their weights", "quantise", "expert activation backward"});
  // What the up projection wrote, read, and both copies of what the down projection reads, with the choices.
  const std::int64_t values = kTokens * 2 * kH, row = kTokens * 2 * 2 * 2 * 4;
  CHECK(bytes_of(p, false, {"expert activation"}) == values * (2 * 2 + 1 + 1) + row);
  // Not kept: the clamped halves, in bf16.
  CHECK(unfused - kept(w) == static_cast<double>(values * 2 * 2));
  SECTION("activations that are recomputed take a kernel of their own") {
    w.recompute = Recompute{RecomputeModule::MoeActivation};
    const Program again = lower_iteration(m, w, c, 2);
    CHECK(bytes_of(again, true, {"expert activation"}) ==
          bytes_of(p, true, {"expert activation"}) + values * (2 * 2 + 1) + row);
    CHECK(kept(w) < unfused);
  }
  SECTION("not where another framework runs them") {
    w.gate_weights = GateWeights::AtSources;
    CHECK(bytes_of(lower_iteration(m, w, c, 2), false, {"expert activation"}) == values * 2 * (2 + 1));
  }
}

TEST_CASE("The gradient of the gate's weights reads the activation's operands again") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  const std::int64_t values = kTokens * 2 * kH, row = kTokens * 2 * 2 * 2 * 4, gradients = kTokens * 2 * 2 * 4;
  constexpr std::int64_t kNarrow = 2;
  CHECK(bytes_of(lower_iteration(model(false), in_experts(), c, 2), true, {"expert activation"}) ==
        values * kNarrow * (1 + 2 + 2 + 1 + 2) + row + gradients);
}

TEST_CASE("Megatron-Core's loss writes the gradients of the logits in their place") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  const auto bytes = [&](const Workload& w) {
    return bytes_of(lower_iteration(model(false), w, c, 2), false, {"loss"});
  };
  Workload others = in_experts();
  others.gate_weights = GateWeights::AtSources;
  CHECK(bytes(in_experts()) == bytes(others) + 2 * kTokens * 128 * 2);
}

TEST_CASE("A loss that is not fused keeps the softmax in fp32 instead of the logits' gradients") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  Workload w = in_experts();
  const auto kept_and_working = [&] {
    const Program p = lower_iteration(model(false), w, c, 2);
    return memory_use(p, stage_parameters(model(false), w, c), w, c.degrees);
  };
  const MemoryUse fused = kept_and_working();
  w.fusions = Fusions{Fusion::Attention, Fusion::Router};
  const MemoryUse own = kept_and_working();
  constexpr double kLogits = kTokens * 128;
  CHECK(own.activations.value() - fused.activations.value() == kLogits * (4 - 2));
  const Program p = lower_iteration(model(false), w, c, 2);
  // The cast, three passes of which one only reads, and backward two.
  CHECK(bytes_of(p, false, {"loss"}) == kTokens * (128 * (2 + 6 * 4) + 2 * 4));
  CHECK(bytes_of(p, true, {"loss"}) == kTokens * 128 * (3 * 4 + 2));
}

TEST_CASE("Experts that weigh clamp the halves of the up projection by kernels of their own") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  const Program p = lower_iteration(model(false, true), in_experts(), c, 2);
  const std::int64_t values = kTokens * 2 * kH;  // of a half
  constexpr std::int64_t kNarrow = 2;
  CHECK(clamp_bytes(p, false) == values * 2 * kNarrow * (2 + 2));
  // Masks of both halves, the second of two limits; their conjunction; the gradients; both halves joined.
  CHECK(clamp_bytes(p, true) == values * ((2 * kNarrow + 3) + 3 + (2 * kNarrow + 2 + 2 * kNarrow) + 2 * 2 * kNarrow));
  CHECK(clamp_bytes(lower_iteration(model(false), in_experts(), c, 2), false) == 0);
  Workload at_sources = in_experts();
  at_sources.gate_weights = GateWeights::AtSources;
  CHECK(clamp_bytes(lower_iteration(model(false, true), at_sources, c, 2), false) == 0);
  const Moe experts = std::get<Moe>(model(false, true).layers.front().pattern.front().ffn);
  CHECK(clamp_bytes(lower_moe_layer(experts, kM, kTokens, in_experts(), c, 2), false) == 0);
  SECTION("again where activations are recomputed") {
    Workload again = in_experts();
    again.recompute = Recompute{RecomputeModule::MoeActivation};
    CHECK(clamp_bytes(lower_iteration(model(false, true), again, c, 2), true) ==
          clamp_bytes(p, true) + clamp_bytes(p, false));
  }
}

TEST_CASE("A scaled rotary embedding is a sequence of elementwise operations in training with Megatron-Core") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  ModelSpec plain = model(false), scaled = plain;
  std::get<HeadAttention>(scaled.attention).scaled_rotary = true;
  const std::int64_t pass = kTokens * 2 * kM * 2;  // queries and keys, in bf16
  const auto rotary_bytes = [&](const ModelSpec& m, const Workload& w, bool backward) {
    return bytes_of(lower_iteration(m, w, c, 2), backward, {"rotary"});
  };
  CHECK(rotary_bytes(plain, in_experts(), false) == 2 * pass);
  CHECK(rotary_bytes(plain, in_experts(), true) == 2 * pass);
  // t cos, -t2 (half), the halves joined, times sin, the sum of three, and a copy.
  CHECK(2 * rotary_bytes(scaled, in_experts(), false) == (4 + 2 + 4 + 4 + 6 + 4) * pass);
  // The same without the copy; two tensors of zeros, a copy into one of them, and their sum.
  CHECK(2 * rotary_bytes(scaled, in_experts(), true) == (4 + 2 + 4 + 4 + 6 + 2 * 2 + 4 + 6) * pass);
  SECTION("not at the sources, nor in a forward workload") {
    Workload at_sources = in_experts(), forward = in_experts();
    at_sources.gate_weights = GateWeights::AtSources;
    forward.mode = Mode::Forward;
    CHECK(rotary_bytes(scaled, at_sources, false) == 2 * pass);
    CHECK(rotary_bytes(scaled, forward, false) == 2 * pass);
  }
}

TEST_CASE("Rows that arrive by source are sorted by expert, and back, in both directions") {
  Workload sorted = in_experts();
  sorted.expert_layout = ExpertLayout::Sorted;
  const auto bytes = [&](std::int64_t world, bool backward) {
    return sort_bytes(lower_iteration(model(false), sorted, candidate("baseline", world, 1, world, 1), world),
                      backward);
  };
  const std::int64_t rows = kTokens * 2 * kM * 2;
  CHECK(bytes(2, false) == 2 * 2 * rows);
  CHECK(bytes(2, true) == 2 * 2 * rows);
  CHECK(bytes(4, false) == 0);  // one expert a rank
  CHECK(bytes(1, false) == 0);  // one source
  CHECK(sort_bytes(lower_iteration(model(false), in_experts(), candidate("baseline", 2, 1, 2, 1), 2), false) == 0);
  const Moe experts = std::get<Moe>(model(false).layers.front().pattern.front().ffn);
  CHECK(sort_bytes(lower_moe_layer(experts, kM, kTokens, sorted, candidate("baseline", 2, 1, 2, 1), 2), false) ==
        2 * 2 * rows);
}

TEST_CASE("A router that is not fused launches 72 kernels instead of 31, with its projection") {
  const auto router_kernels = [](Fusions fusions, bool backward) {
    Workload w = in_experts();
    w.fusions = fusions;
    std::int64_t kernels = 0, operations = 0;
    for (const Block& block : lower_iteration(model(false), w, candidate("baseline", 2, 1, 2, 1), 2).blocks) {
      if (kernels > 0) break;
      if ((block.name.find("backward") != std::string::npos) != backward) continue;
      for (const Operation& op : block.operations) {
        const bool is_small = op.op_class == OpClass::Gate && std::holds_alternative<Kernel>(op.work);
        kernels += is_small ? op.kernels : 0;
        operations += is_small;
      }
    }
    return std::pair(kernels, operations);
  };
  CHECK(router_kernels(Fusions::Default, false) == std::pair<std::int64_t, std::int64_t>(30, 1));
  CHECK(router_kernels({Fusion::ScaleBuffers}, false) == std::pair<std::int64_t, std::int64_t>(71, 4));
  CHECK(router_kernels({Fusion::ScaleBuffers}, true) == std::pair<std::int64_t, std::int64_t>(71, 4));
}

TEST_CASE("Permutations that are not fused list the rows, and add them by atomic operations") {
  const auto kernels_of = [](const Workload& w, bool backward) {
    std::map<Kernel, std::int64_t> out;  // of the first block with any that permute
    for (const Block& block : lower_iteration(model(false), w, candidate("baseline", 2, 1, 2, 1), 2).blocks) {
      if (!out.empty()) break;
      if ((block.name.find("backward") != std::string::npos) != backward) continue;
      for (const Operation& op : block.operations) {
        if (op.op_class == OpClass::Permute && std::holds_alternative<Kernel>(op.work))
          out[std::get<Kernel>(op.work)] += op.kernels;
      }
    }
    return out;
  };
  using Kernels = std::map<Kernel, std::int64_t>;
  Workload w = in_experts();
  // Rows and choices.
  CHECK(kernels_of(w, false) == Kernels{{Kernel::Encode, 2}, {Kernel::EncodeBackward, 1}});
  CHECK(kernels_of(w, true) == Kernels{{Kernel::Encode, 1}, {Kernel::EncodeBackward, 2}});
  w.fusions = Fusions{Fusion::Attention, Fusion::Router, Fusion::CrossEntropy};
  CHECK(kernels_of(w, false) == Kernels{{Kernel::Copy, 17}, {Kernel::Encode, 2}, {Kernel::ScatterAdd, 1}});
  CHECK(kernels_of(w, true) == Kernels{{Kernel::Encode, 1}, {Kernel::EncodeBackward, 1}, {Kernel::IndexAdd, 1}});
  w.gate_weights = GateWeights::AtSources;
  CHECK(kernels_of(w, false) == Kernels{{Kernel::Copy, 17},
                                        {Kernel::GeneralPass, 1},
                                        {Kernel::Encode, 1},
                                        {Kernel::Decode, 1},
                                        {Kernel::SortRows, 1}});
  CHECK(kernels_of(w, true) ==
        Kernels{{Kernel::GeneralPass, 1}, {Kernel::IndexAdd, 1}, {Kernel::DecodeBackward, 1}, {Kernel::SortRows, 1}});
}

TEST_CASE("Rows of products in 8 bits are copied to padded rows and back, unless they arrive padded") {
  const Candidate c = candidate("baseline", 2, 1, 2, 1);
  Workload w = in_experts();
  const auto bytes = [&](bool backward) {
    return bytes_of(lower_iteration(model(false), w, c, 2), backward, {"pad rows", "unpad rows"});
  };
  CHECK(bytes(false) == 0);
  w.precision = Precision::Fp8Current;
  const std::int64_t rows = kTokens * 2 * kM * 2;  // in bf16
  CHECK(bytes(false) == 2 * 2 * rows);
  CHECK(bytes(true) == 2 * 2 * rows);
  w.fusions = Fusions::Default;
  w.fusions.add(Fusion::Padding);
  CHECK(bytes(false) == 0);
  CHECK(bytes(true) == 0);
}

TEST_CASE("Scales of mxfp8 take kernels of their own where they are not fused") {
  const auto lowered = [](Fusions fusions) {
    Workload w = in_experts();
    w.precision = Precision::Mxfp8;
    w.fusions = fusions;
    return lower_iteration(model(false), w, candidate("baseline", 2, 1, 2, 1), 2);
  };
  const auto kernels = [](const Program& program, const std::string& name) {
    std::int64_t n = 0;
    for (const Block& block : program.blocks) {
      for (const Operation& op : block.operations) n += op.name == name ? op.kernels : 0;
    }
    return n;
  };
  const Program all = lowered(Fusions::None), fused = lowered(Fusions::Default);
  const std::int64_t copies = kernels(fused, "quantise");
  REQUIRE(copies > 0);
  SECTION("for the copies in rows and in columns, of each expert") {
    CHECK(kernels(all, "set scales to zero") == 2 * copies);
    CHECK(kernels(all, "swizzle scales") == 2 * copies);
    CHECK(kernels(lowered({Fusion::ScaleBuffers}), "set scales to zero") == 0);
    CHECK(kernels(fused, "set scales to zero") + kernels(fused, "swizzle scales") == 0);
  }
  SECTION("a norm directly before a product quantises for it") {
    Fusions norms = Fusions::Default;
    norms.add(Fusion::NormQuantise);
    const Program p = lowered(norms);
    // Of the layer's first norm; the second is followed by the router, which reads 16 bits.
    CHECK(kernels(p, "quantise") == copies - 1);
    for (const Block& block : p.blocks) {
      for (const Operation& op : block.operations) {
        if (op.name == "norm" && op.writes.size() > 1) CHECK(op.writes.size() == 3);
      }
    }
  }
}

}  // namespace moeplan::tests::unfused_kernels_test
