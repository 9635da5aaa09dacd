#include "planner/layer/quantised_operands.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/costs/memory.hpp"
#include "model/program/resolve.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::quantised_operands_test {

using namespace moeplan::planner;

namespace {

Candidate candidate(bool sequence_parallel = false) {
  Candidate c;
  c.degrees = {.dp = 4, .tp = 1, .edp = 1, .ep = 4, .esp = 1};
  if (sequence_parallel) c.degrees = {.dp = 2, .tp = 2, .edp = 1, .ep = 4, .esp = 1};
  c.sequence_parallel = sequence_parallel;
  c.schedule = "baseline";
  return c;
}

Program iteration(const std::optional<Precision>& precision, bool sequence_parallel = false,
                  const std::string& recompute = "none") {
  Small s = small({.shared_hidden = 256, .recompute = recompute});
  s.workload.precision = precision;
  StageClusters clusters(s.cluster);
  return lowered(s.model, s.workload, clusters, candidate(sequence_parallel));
}

template <class Visit>
void for_each_operation(const Program& program, const Visit& visit) {
  for (const Block& block : program.blocks) {
    for (const Operation& op : block.operations) visit(op);
  }
}

std::int64_t count(const Program& program, Kernel kernel) {
  std::int64_t n = 0;
  for_each_operation(program, [&](const Operation& op) {
    const auto* k = std::get_if<Kernel>(&op.work);
    n += k && *k == kernel;
  });
  return n;
}

std::int64_t count_codecs(const Program& program) {
  std::int64_t n = 0;
  for_each_operation(program, [&](const Operation& op) { n += std::holds_alternative<Codec>(op.work); });
  return n;
}

/// Forward and backward blocks of MoE layers.
std::int64_t moe_blocks(const Program& program, Gemm::Form form) {
  std::int64_t n = 0;
  for_each_operation(program, [&](const Operation& op) {
    const auto* gemm = std::get_if<Gemm>(&op.work);
    n += gemm && gemm->grouped && gemm->form == form;
  });
  return n / 2;
}

/// Whether every operand that is quantised was written, forward or earlier in the same block.
void check_written(const Program& program) {
  std::set<BufferId> written;
  for_each_operation(program, [&](const Operation& op) {
    for (const Slice& s : op.writes) written.insert(s.buffer);
  });
  for_each_operation(program, [&](const Operation& op) {
    for (const Slice& s : op.reads) {
      const Buffer& buffer = program.buffer(s.buffer);
      CAPTURE(op.name, buffer.name);
      if (buffer.dtype == Dtype::Fp8) CHECK(written.contains(s.buffer));
    }
  });
}

}  // namespace

TEST_CASE("A recipe quantises what the products of linear layers read") {
  CHECK(count(iteration(std::nullopt), Kernel::Quantise) == 0);
  const bool sequence_parallel = GENERATE(false, true);
  const std::string recompute = GENERATE("none", "selective", "full");
  CAPTURE(sequence_parallel, recompute);
  const Program program = iteration(Precision::Mxfp8, sequence_parallel, recompute);
  check_written(program);
  for_each_operation(program, [&](const Operation& op) {
    const auto* gemm = std::get_if<Gemm>(&op.work);
    if (!gemm) return;
    CAPTURE(op.name);
    // The router and the output head stay in 16 bits.
    const bool is_linear = op.op_class != OpClass::Gate && op.op_class != OpClass::Embedding;
    CHECK(gemm->format == (is_linear ? std::optional(MathFormat::Mxfp8) : std::nullopt));
    const bool is_quantised = program.buffer(op.reads.front().buffer).dtype == Dtype::Fp8;
    CHECK(is_quantised == is_linear);
    CHECK(program.buffer(op.writes.front().buffer).dtype == Dtype::Bf16);
    if (gemm->form != Gemm::Form::TN || !is_linear) return;
    for (const Slice& s : op.reads) CHECK(program.buffer(s.buffer).name.ends_with(" columns"));
  });
}

TEST_CASE("Messages and attention stay in 16 bits") {
  for_each_operation(iteration(Precision::Fp8Block), [&](const Operation& op) {
    const bool is_message = op.communication() || std::holds_alternative<AttentionCore>(op.work);
    if (!is_message) return;
    const Program program = iteration(Precision::Fp8Block);
    for (const Slice& s : op.reads) CHECK(program.buffer(s.buffer).dtype != Dtype::Fp8);
  });
}

TEST_CASE("Attention in 8 bits reads copies, and keeps those for backward in place of the rows") {
  const std::string recompute = GENERATE("none", "core_attn");
  Small s = small({.recompute = recompute});
  s.workload.precision = Precision::Mxfp8;
  s.workload.fp8_modules.add(Fp8Module::Attention);
  StageClusters clusters(s.cluster);
  const Program program = lowered(s.model, s.workload, clusters, candidate());
  check_written(program);
  std::int64_t backward = 0;
  for_each_operation(program, [&](const Operation& op) {
    const auto* core = std::get_if<AttentionCore>(&op.work);
    if (!core) return;
    CHECK(core->format == MathFormat::Mxfp8);
    CHECK(program.buffer(op.reads.front().buffer).name ==
          (core->backward ? "attn.qkv.quantised columns" : "attn.qkv.quantised"));
    CHECK(program.buffer(op.reads.back().buffer).dtype == Dtype::Fp8);
    CHECK(program.buffer(op.writes.front().buffer).dtype == Dtype::Bf16);
    backward += core->backward;
  });
  CHECK(backward > 0);
}

TEST_CASE("The output head multiplies in 8 bits where the workload says so") {
  const bool sequence_parallel = GENERATE(false, true);
  CAPTURE(sequence_parallel);
  Small s = small({});
  s.workload.precision = Precision::Mxfp8;
  s.workload.fp8_modules.add(Fp8Module::OutputHead);
  StageClusters clusters(s.cluster);
  const Program program = lowered(s.model, s.workload, clusters, candidate(sequence_parallel));
  check_written(program);
  std::int64_t products = 0;
  for_each_operation(program, [&](const Operation& op) {
    const auto* gemm = std::get_if<Gemm>(&op.work);
    if (!gemm || op.op_class != OpClass::Embedding) return;
    CHECK(gemm->format == MathFormat::Mxfp8);
    ++products;
  });
  CHECK(products > 0);
}

TEST_CASE("Rows that are dispatched in the recipe's format are quantised once, at their sources") {
  const bool deduplicates = GENERATE(false, true), weighs_in_experts = GENERATE(false, true);
  CAPTURE(deduplicates, weighs_in_experts);
  const auto program = [&](const std::string& codec) {
    Small s = small({});
    s.workload.precision = Precision::Fp8Block;
    s.workload.codecs.allowed = {WireFormat::Fp8Block};
    if (weighs_in_experts) s.workload.gate_weights = GateWeights::InExperts;
    Candidate c = candidate();
    c.all_to_all = deduplicates ? "deepep" : "linear";
    c.codec = *parse_codec_pair(codec);
    REQUIRE(infeasibility(s.model, s.workload, c, s.cluster.ranks_per_node()).value_or("").text.empty());
    StageClusters clusters(s.cluster);
    return lowered(s.model, s.workload, clusters, c);
  };
  const Program plain = program("none"), sent = program("fp8_block/none");
  check_written(sent);
  // What is weighed at the holders of the experts is decoded first, and quantised again.
  const bool all_are_operands = weighs_in_experts || !deduplicates;
  CHECK((count_codecs(sent) == 0) == all_are_operands);
  const auto dispatched = [](const Program& p) {
    std::int64_t bytes = 0;
    for_each_operation(p, [&](const Operation& op) {
      if (op.op_class != OpClass::Dispatch || !op.communication()) return;
      for (const Flow& f : flows_from(p, op, RankId(0))) bytes += f.bytes;
    });
    return bytes;
  };
  CHECK(10 * dispatched(sent) < 6 * dispatched(plain));
  // Of the rows that arrive, only the copy in columns is made by the experts' rank.
  for_each_operation(sent, [&](const Operation& op) {
    const auto* k = std::get_if<Kernel>(&op.work);
    if (!k || *k != Kernel::Quantise) return;
    const std::string& read = sent.buffer(op.reads.front().buffer).name;
    CAPTURE(op.name, read);
    if (read == "expert.in") CHECK(false);
    if (read == "d.expert.out") CHECK_FALSE(all_are_operands);
    if (read == "expert.in.quantised") CHECK(sent.buffer(op.writes.front().buffer).name == read + " columns");
  });
  const std::int64_t forward = moe_blocks(sent, Gemm::Form::NN), backward = moe_blocks(sent, Gemm::Form::NT);
  CHECK(forward > 0);
  CHECK(count(sent, Kernel::Quantise) == count(plain, Kernel::Quantise) + forward + (all_are_operands ? backward : 0));
}

TEST_CASE("Only the scales of whole tensors that are taken from themselves need another pass") {
  const std::int64_t passes = count(iteration(Precision::Fp8Current), Kernel::QuantiseTensor);
  CHECK(passes > 0);
  CHECK(count(iteration(Precision::Fp8Current), Kernel::LargestMagnitude) == passes);
  for (const Precision p : {Precision::Fp8Delayed, Precision::Fp8Block, Precision::Mxfp8}) {
    CHECK(count(iteration(p), Kernel::LargestMagnitude) == 0);
    CHECK(count(iteration(p), p == Precision::Fp8Delayed ? Kernel::QuantiseTensor : Kernel::Quantise) == passes);
  }
}

TEST_CASE("Casts of a rank's experts are launched as Transformer Engine launches them") {
  const auto most_kernels = [](Precision precision, Kernel kernel) {
    Small s = small({.shared_hidden = 256, .recompute = "none"});
    s.workload.precision = precision;
    s.workload.gate_weights = GateWeights::InExperts;
    StageClusters clusters(s.cluster);
    std::int64_t most = 0;
    for_each_operation(lowered(s.model, s.workload, clusters, candidate()), [&](const Operation& op) {
      const auto* k = std::get_if<Kernel>(&op.work);
      if (k && *k == kernel && op.op_class == OpClass::Expert) most = std::max(most, op.kernels);
    });
    return most;
  };
  const std::int64_t experts = most_kernels(Precision::Mxfp8, Kernel::Quantise);
  CHECK(experts > 1);
  CHECK(most_kernels(Precision::Fp8Block, Kernel::Quantise) == experts);
  CHECK(most_kernels(Precision::Fp8Delayed, Kernel::QuantiseTensor) == 1);
  CHECK(most_kernels(Precision::Fp8Current, Kernel::LargestMagnitude) == 2 * experts);
  CHECK(most_kernels(Precision::Fp8Current, Kernel::QuantiseTensor) == 2 * experts);
}

TEST_CASE("Copies in columns are kept for backward, and the inputs in 16 bits are not") {
  const Small s = small({.recompute = "none"});
  const auto kept = [&](const std::optional<Precision>& precision) {
    const Program program = iteration(precision);
    return memory_use(program, stage_parameters(s.model, s.workload, candidate()), s.workload, candidate().degrees)
        .activations.value();
  };
  CHECK(kept(Precision::Fp8Delayed) < kept(std::nullopt));
  CHECK(kept(Precision::Fp8Delayed) > kept(std::nullopt) / 2);
}

TEST_CASE("Inputs of activation functions are kept for backward in fp8 if the workload says so") {
  const std::string recompute = GENERATE("none", "selective", "moe", "full"),
                    schedule = GENERATE("baseline", "s1_deferred");
  CAPTURE(recompute, schedule);
  const auto lowered_with = [&](bool in_fp8) {
    Small s = small({.shared_hidden = 256, .recompute = recompute});
    s.workload.fp8_activation_inputs = in_fp8;
    Candidate c = candidate();
    c.schedule = schedule;
    StageClusters clusters(s.cluster);
    return lowered(s.model, s.workload, clusters, c);
  };
  const Program plain = lowered_with(false), in_fp8 = lowered_with(true);
  check_written(in_fp8);
  const auto named = [](const Program& program, const std::string& name) {
    std::int64_t n = 0;
    for_each_operation(program, [&](const Operation& op) { n += op.name == name; });
    return n;
  };
  CHECK(named(plain, "keep in fp8") + named(plain, "restore from fp8") == 0);
  CHECK(named(in_fp8, "restore from fp8") > 0);
  CHECK(named(in_fp8, "keep in fp8") ==
        count(in_fp8, Kernel::Activation) - (recompute == "selective" ? named(in_fp8, "restore from fp8") : 0));
  for_each_operation(in_fp8, [&](const Operation& op) {
    if (op.name != "expert activation backward" && op.name != "shared activation backward") return;
    CHECK(in_fp8.buffer(op.reads[1].buffer).name.ends_with(".up.restored"));
  });
  const auto kept = [&](const Program& program) {
    const Small s = small({.shared_hidden = 256, .recompute = recompute});
    return memory_use(program, stage_parameters(s.model, s.workload, candidate()), s.workload, candidate().degrees)
        .activations.value();
  };
  if (recompute == "full") {
    CHECK(kept(in_fp8) == kept(plain));
  } else {
    CHECK(kept(in_fp8) < kept(plain));
  }
}

}  // namespace moeplan::tests::quantised_operands_test
