// Training by PyTorch's own modules, its FSDP2 and a loss by chunks, as torchtitan does it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <string>

#include "model/costs/estimate.hpp"
#include "planner/evaluation/common_work.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/lowering/blocks/launches.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::pytorch_modules_test {

using namespace moeplan::planner;

namespace {

constexpr std::int64_t kTokens = 128, kM = 256, kH = 512, kVocabulary = 8000;  // a sequence on each GPU

/// Every expert on each of four GPUs, weights sharded.
Candidate replicas() {
  Candidate c;
  c.degrees = {.dp = 4, .tp = 1, .edp = 4, .ep = 1, .esp = 1};
  c.schedule = "baseline";
  return c;
}

Small case_of(const std::string& recompute = "none") {
  Small s = small({.dense_layers = 0,
                   .moe_layers = 2,
                   .vocabulary = kVocabulary,
                   .global_batch = 4,
                   .sequence = kTokens,
                   .zero_stage = 3,
                   .recompute = recompute});
  for (auto& run : s.model.layers) {
    for (LayerSpec& layer : run.pattern) std::get<Moe>(layer.ffn).expert.gated = true;
  }
  s.workload.fusions = Fusions{Fusion::Attention};
  return s;
}

Program iteration(const Small& s) { return lower_iteration(s.model, s.workload, replicas(), 4); }

MemoryUse memory(const Small& s) {
  const Problem problem(s.model, s.workload, s.cluster);
  return iteration_memory_by_stage(problem, replicas(), iteration(s)).front();
}

/// Of the operations of an iteration of a stage that are of this kind, the sum of a quantity.
double sum(const Program& p, const std::function<double(const Operation&)>& of) {
  double out = 0;
  const std::vector<std::int64_t> counts = block_counts(p, 0);
  for (std::size_t b = 0; b < counts.size(); ++b) {
    for (const Operation& op : p.blocks[b].operations) out += static_cast<double>(counts[b]) * of(op);
  }
  return out;
}

/// What an operation reads and writes.
double bytes_of(const Program& p, const Operation& op) {
  double bytes = 0;
  for (const auto* slices : {&op.reads, &op.writes}) {
    for (const Slice& slice : *slices) {
      const Buffer& buffer = p.buffer(slice.buffer);
      bytes += static_cast<double>(slice.rows.each * buffer.columns * size_of(buffer.dtype));
    }
  }
  return bytes;
}

double count(const Program& p, const std::string& part_of_name) {
  return sum(p, [&](const Operation& op) { return op.name.find(part_of_name) != std::string::npos ? 1 : 0; });
}

}  // namespace

TEST_CASE("A loss by chunks computes the same products and holds the logits of one chunk") {
  Small s = case_of();
  const Problem problem(s.model, s.workload, s.cluster);
  const Program whole = iteration(s);
  const double whole_memory = memory(s).allocated().value();
  s.workload.loss_chunks = 4;
  const Program chunks = iteration(s);
  for (const char* product : {"head projection", "head input gradient", "head weight gradient"}) {
    CAPTURE(product);
    CHECK(count(whole, product) == 1);
    CHECK(count(chunks, product) == 4);
  }
  const auto multiply_adds = [&](const Program& p) {
    const Candidate c = replicas();
    Problem of(s.model, s.workload, s.cluster);
    return estimate(p, of.stage_clusters()).compute.value();
  };
  CHECK(multiply_adds(chunks) >= 0.9 * multiply_adds(whole));
  // Of all tokens: logits in 16 bits and their softmax in fp32 are kept, gradients of 16 bits are written. Of a chunk a
  // quarter, and the norm's result instead.
  const double logits = kTokens * kVocabulary;
  const double saved = whole_memory - memory(s).allocated().value();
  CHECK(saved > 0.5 * logits * (2 + 4 + 2));
  CHECK(saved < 0.8 * logits * (2 + 4 + 2));
  SECTION("of tokens that chunks do not divide, each has as many as the largest") {
    s.workload.loss_chunks = 3;
    const Program uneven = iteration(s);
    for (const Block& block : uneven.blocks) {
      for (const Operation& op : block.operations) {
        if (op.name == "head projection") CHECK(op.reads.front().rows.each == 43);
      }
    }
  }
}

TEST_CASE("FSDP2 copies weights out of what it gathers, and gradients into what it reduces") {
  Small s = case_of();
  const Program separate = iteration(s);
  CHECK(count(separate, "out of the buffer") == 0);
  s.workload.main_weights = MainWeights::Only;
  const Program only = iteration(s);
  // Two layers forward and backward, the embedding, and the head: once gathered, once copied.
  CHECK(count(only, "weights out of the buffer") == count(only, "weight all-gather"));
  CHECK(count(only, "gradients into a buffer") == count(only, "gradient reduce-scatter"));
  const auto optimizer_bytes_of = [](const Program& p) {
    return sum(p, [&](const Operation& op) { return op.op_class == OpClass::Optimizer ? bytes_of(p, op) : 0; });
  };
  // Gradients of 4 bytes, read for their norm, to be clipped and written, and once more; weights and moments of 12 read
  // and written; separate ones also write weights of 2.
  CHECK(optimizer_bytes_of(separate) / optimizer_bytes_of(only) == Approx(42.0 / 40));
  s.workload.main_weights = MainWeights::None;
  s.workload.gradient_dtype = s.workload.optimizer_dtype = Dtype::Bf16;
  // All of 2 bytes: gradients, four times; weights and both moments.
  CHECK(optimizer_bytes_of(iteration(s)) / optimizer_bytes_of(only) == Approx((4 * 2.0 + 2 * 6) / 40));
}

TEST_CASE("Eager activations and weights keep their operands") {
  Small s = case_of();
  const double rows = kTokens * 2;  // top-2
  s.workload.pytorch_modules = PyTorchModules::Compiled;
  const double compiled = memory(s).activations.value();
  s.workload.pytorch_modules = PyTorchModules::Eager;
  SECTION("the activation of the gate, and the returned rows in fp32 instead of 16 bits") {
    CHECK(memory(s).activations.value() - compiled == 2 * rows * (2 * kH + (4 - 2) * kM));
  }
  SECTION("clamped: gate, linear half, sigmoid and gated gate") {
    for (auto& run : s.model.layers) {
      for (LayerSpec& layer : run.pattern) std::get<Moe>(layer.ffn).expert.clamped = true;
    }
    CHECK(memory(s).activations.value() - compiled == 2 * rows * (2 * 4 * kH + (4 - 2) * kM));
  }
  SECTION("with whole layers computed again, only their inputs are kept") {
    Small full = case_of("full");
    full.workload.pytorch_modules = PyTorchModules::Eager;
    const double inputs = 2 * kTokens * kM * 2;
    const double head = kTokens * kM * 2 + kTokens * kVocabulary * (2 + 4);  // its input, logits and their softmax
    CHECK(memory(full).activations.value() >= inputs);
    CHECK(memory(full).activations.value() <= inputs + 1.1 * head);
  }
  SECTION("whatever the experts' activation, each gradient has its kernel") {
    const Program p = iteration(s);
    CHECK(count(p, "silu") == 2 * count(p, "silu backward"));  // its name is part of the other's
    CHECK(count(p, "cast rows") == 4 * 2);
  }
}

TEST_CASE("Eager rotary embedding is a sequence of kernels in fp32, of which nothing is kept") {
  Small s = case_of();
  s.model.attention =
      HeadAttention{.num_heads = 8, .num_kv_heads = 2, .head_dim = 32, .bias = false, .qk_norm = true, .sinks = false};
  s.workload.pytorch_modules = PyTorchModules::Compiled;
  const double compiled = memory(s).activations.value();
  CHECK(count(iteration(s), "sum and cast") == 0);
  s.workload.pytorch_modules = PyTorchModules::Eager;
  const Program p = iteration(s);
  CHECK(memory(s).activations.value() - compiled == 2 * kTokens * 2 * (2 * kH + (4 - 2) * kM));  // as without queries
  const double columns = 8 * 32 + 2 * 32;
  const auto bytes = [&](const char* name, bool backward) {
    const std::string full = std::string(name) + (backward ? " backward" : "");
    // Of a layer, a token and a column.
    return sum(p, [&](const Operation& op) { return op.name == full ? bytes_of(p, op) : 0; }) / (2 * kTokens * columns);
  };
  const auto all = [&](bool backward) {
    return bytes("cast", backward) + bytes("turn", backward) + bytes("rotary", backward) +
           bytes("sum and cast", backward);
  };
  CHECK(all(false) == Approx(28 + 24));
  CHECK(all(true) == Approx(36 + 36));
}

TEST_CASE("Selective checkpoints keep a layer's input, queries, values, and what attention returns") {
  Small s = case_of();
  s.model.attention =
      HeadAttention{.num_heads = 8, .num_kv_heads = 2, .head_dim = 32, .bias = false, .qk_norm = true, .sinks = false};
  s.workload.pytorch_modules = PyTorchModules::Compiled;
  s.workload.loss_chunks = 8;
  const auto kept = [&](const std::string& modules) {
    s.workload.recompute = parse_recompute(modules);
    Candidate c = replicas();
    c.recompute = *s.workload.recompute;
    const Problem problem(s.model, s.workload, s.cluster);
    const Program p = lower_iteration(s.model, s.workload, c, 4);
    return iteration_memory_by_stage(problem, c, p).front().activations.value();
  };
  const double columns = 8 * 32 + 2 * 32 + 8 * 32;  // queries, values of two heads, the kernel's result
  const double of_layers = 2 * kTokens * (kM + columns) * 2, head = kTokens * kM * 2;
  CHECK(kept("moe+layernorm+projections") >= of_layers);
  CHECK(kept("moe+layernorm+projections") <= of_layers + 2.5 * head);
  // Otherwise also keys, what norms and rotary embedding read, and the sum before the feed-forward part.
  CHECK(kept("moe+layernorm") - kept("moe+layernorm+projections") ==
        2 * kTokens * (2 * 32 + (8 * 32 + 2 * 32) + kM) * 2);
  SECTION("which takes the products of keys and output, and what follows them, once more") {
    s.workload.recompute = parse_recompute("moe+layernorm+projections");
    Candidate c = replicas();
    c.recompute = *s.workload.recompute;
    const Program p = lower_iteration(s.model, s.workload, c, 4);
    CHECK(count(p, "key projection") == 2);
    CHECK(count(p, "attention_out projection") == 2 * 2);
    CHECK(count(p, "rotary") == 3 * 2);
  }
}

TEST_CASE("Bounds hold for PyTorch's own modules, whose launches are fractions of an operation") {
  for (const std::int64_t micro_batch : {1, 2}) {
    for (const PyTorchModules modules : {PyTorchModules::Compiled, PyTorchModules::Eager}) {
      for (const std::int64_t chunks : {1, 4}) {
        for (const std::string recompute : {"none", "full", "moe+layernorm+projections"}) {
          Small s = case_of(recompute);
          s.workload.global_batch = 8;
          s.workload.main_weights = MainWeights::Only;
          s.workload.pytorch_modules = modules;
          s.workload.loss_chunks = chunks;
          for (const double host : {1e-6, 3e-4}) {
            s.cluster.gpu.host_time_per_operation = Seconds(host);
            Candidate c = replicas();
            c.micro_batch = micro_batch;
            c.recompute = *s.workload.recompute;
            CAPTURE(micro_batch, chunks, recompute, host);
            const Problem problem(s.model, s.workload, s.cluster);
            CommonWork common(problem);
            const double makespan = simulated_makespan(problem, c).seconds().value();
            CHECK(common.rough_bound(c).value() <= makespan);
            CHECK(common.bound(c).value() <= makespan);
            const Evaluation e = evaluate(problem, c, Depth::Extrapolation);
            CHECK(e.evaluated.estimate.lower_bound.value() <= makespan);
          }
        }
      }
    }
  }
}

TEST_CASE("The host launches PyTorch's own modules in a tenth of the time") {
  Small s = case_of();
  const Program p = iteration(s);
  for (const Block& block : p.blocks) {
    s.workload.pytorch_modules = PyTorchModules::None;
    const std::int64_t own = launched_operations(block, s.workload);
    s.workload.pytorch_modules = PyTorchModules::Compiled;
    CHECK(launched_operations(block, s.workload) <= own);
    CHECK(launched_operations(block, s.workload) <= static_cast<std::int64_t>(block.operations.size()) / 2 + 1);
  }
  CHECK(launched_updates(120, s.workload) == 12);
  s.workload.pytorch_modules = PyTorchModules::None;
  CHECK(launched_updates(120, s.workload) == 120);
}

}  // namespace moeplan::tests::pytorch_modules_test
