#include "model/costs/compute.hpp"

#include <catch2/catch.hpp>

#include "model/operators/operator_models.hpp"
#include "tests/support/spec_files.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::compute_test {

namespace {

constexpr double kLaunch = 3e-6;

GpuSpec gpu() {
  GpuSpec g = tests::toy_gpu();
  g.launch_overhead = Seconds(kLaunch);
  g.gemm_efficiency = {{1e6, 0.2}, {1e8, 0.4}, {1e12, 0.8}};
  g.memory_efficiency = 0.5;
  g.attention_efficiency = 0.25;
  g.num_sms = 10;
  g.tile_rows = 64;
  g.tile_columns = 128;
  return g;
}

}  // namespace

TEST_CASE("a GEMM's efficiency is linear in the logarithm of its FLOPs") {
  CHECK(gemm_efficiency(gpu(), 1e8) == Approx(0.4));
  CHECK(gemm_efficiency(gpu(), 1e7) == Approx(0.3));
  CHECK(gemm_efficiency(gpu(), 1e10) == Approx(0.6));
  SECTION("and constant beyond the ends of the curve") {
    CHECK(gemm_efficiency(gpu(), 1) == 0.2);
    CHECK(gemm_efficiency(gpu(), 1e20) == 0.8);
  }
}

TEST_CASE("a format without a peak of its own uses the nearest") {
  GpuSpec g = gpu();  // fp32 and bf16 only
  CHECK(peak_rate(g, Dtype::Fp32).value() == tests::kPeak);
  CHECK(peak_rate(g, Dtype::Tf32).value() == tests::kPeak);
  CHECK(peak_rate(g, Dtype::Fp16).value() == 2 * tests::kPeak);
  CHECK(peak_rate(g, Dtype::Fp8).value() == 2 * tests::kPeak);
  g.peak = {{Dtype::Fp32, FlopsPerSecond(5)}};
  CHECK(peak_rate(g, Dtype::Bf16).value() == 5);
}

TEST_CASE("a GEMM takes the longer of its mathematics and its memory traffic") {
  // 2 * 1000 * 1000 * 5000 = 1e10 FLOPs at 0.6 of 1 TFLOP/s = 16.67 ms
  CHECK(gemm_time(gpu(), Dtype::Fp32, {1000, 1000, 5000}, 1000).value() == Approx(kLaunch + 1e10 / (0.6 * 1e12)));
  CHECK(gemm_time(gpu(), Dtype::Fp32, {1, 1000, 1000}, 4'000'000).value() ==
        Approx(kLaunch + 4e6 / tests::kMemoryRate));
  CHECK(gemm_time(gpu(), Dtype::Fp32, {0, 1000, 1000}, 4'000'000).value() == 0);
}

TEST_CASE("a grouped GEMM pays for whole tiles and whole waves") {
  const auto time = [](std::vector<GemmShape> products) {
    return grouped_gemm_time(gpu(), Dtype::Fp32, products, 0).value() - kLaunch;
  };
  SECTION("ten tiles on ten SMs are one full wave: nothing is lost") {
    const double flops = 2.0 * 640 * 128 * 500;
    CHECK(time({{640, 128, 500}}) == Approx(flops / (gemm_efficiency(gpu(), flops) * 1e12)));
  }
  SECTION("eleven tiles take two waves, because the last wave lasts as long as a full one") {
    const double flops = 2.0 * 704 * 128 * 500;
    CHECK(time({{704, 128, 500}}) == Approx(flops * (2 / 1.1) / (gemm_efficiency(gpu(), flops) * 1e12)));
  }
  SECTION("an expert's one row costs a whole tile of rows") {
    const double flops = 2.0 * 2 * 128 * 500;
    CHECK(time({{1, 128, 500}, {1, 128, 500}}) == Approx(64 * flops / (gemm_efficiency(gpu(), flops) * 1e12)));
  }
  SECTION("a product by source costs no more rows than its own, from 16 on") {
    const std::vector<GemmShape> by_source{{1, 128, 500}, {20, 128, 500}};
    const double flops = 2.0 * 21 * 128 * 500, padded = 2.0 * (16 + 32) * 128 * 500;
    CHECK(grouped_gemm_time(gpu(), Dtype::Fp32, by_source, 0, 2).value() - kLaunch ==
          Approx(padded / (gemm_efficiency(gpu(), flops) * 1e12)));
    CHECK(grouped_gemm_time(gpu(), Dtype::Fp32, std::vector<GemmShape>{{100, 128, 500}}, 0, 2) ==
          grouped_gemm_time(gpu(), Dtype::Fp32, std::vector<GemmShape>{{100, 128, 500}}, 0));
  }
  SECTION("experts without rows cost nothing, and no rows at all not even a launch") {
    CHECK(time({{64, 128, 500}, {0, 128, 500}}) == time({{64, 128, 500}}));
    CHECK(grouped_gemm_time(gpu(), Dtype::Fp32, std::vector<GemmShape>{{0, 128, 500}}, 1000).value() == 0);
  }
}

TEST_CASE("a grouped GEMM follows the figures of grouped GEMMs where the GPU has them, and single ones never do") {
  const std::vector<GemmShape> one_wave{{640, 128, 500}};
  const double flops = 2.0 * 640 * 128 * 500;
  const auto time = [&](const GpuSpec& g, std::int64_t bytes) {
    return grouped_gemm_time(g, Dtype::Fp32, one_wave, bytes).value();
  };
  GpuSpec own = gpu();
  SECTION("the share of the peak") {
    own.grouped_gemm_efficiency = {{flops / 10, 0.5}, {flops * 10, 0.7}};
    CHECK(grouped_gemm_efficiency(own, flops) == Approx(0.6));
    CHECK(time(own, 0) == Approx(kLaunch + flops / (0.6 * 1e12)));
  }
  SECTION("the share of the HBM bandwidth, which is the whole one where it is absent") {
    CHECK(time(own, 100'000'000) == Approx(kLaunch + 1e8 / tests::kMemoryRate));
    own.grouped_gemm_memory_efficiency = 0.8;
    CHECK(time(own, 100'000'000) == Approx(kLaunch + 1e8 / (0.8 * tests::kMemoryRate)));
  }
  SECTION("the launch") {
    own.grouped_gemm_launch_overhead = Seconds(9e-6);
    CHECK(time(own, 0) - time(gpu(), 0) == Approx(9e-6 - kLaunch));
  }
  CHECK(grouped_gemm_efficiency(gpu(), flops) == gemm_efficiency(gpu(), flops));
  CHECK(gemm_time(own, Dtype::Fp32, {640, 128, 500}, 1000) == gemm_time(gpu(), Dtype::Fp32, {640, 128, 500}, 1000));
}

TEST_CASE("fused attention") {
  CHECK(attention_time(gpu(), Dtype::Fp32, 1e9, 10).value() == Approx(kLaunch + 1e9 / (0.25 * 1e12)));
  CHECK(attention_time(gpu(), Dtype::Fp32, 10, 1'000'000).value() == Approx(kLaunch + 1e6 / tests::kMemoryRate));
}

TEST_CASE("an operation's time follows from the rows, columns and formats of its slices") {
  Program program = tests::one_block(1);
  program.buffers = {{"a", 300, Dtype::Bf16}, {"b", 200, Dtype::Bf16}, {"c", 200, Dtype::Bf16}};
  const auto slice = [](std::int32_t buffer, std::int64_t rows) { return Slice{BufferId(buffer), Rows::fixed(rows)}; };
  Operation op{.name = "gemm",
               .op_class = OpClass::Gate,
               .stream = Stream::Compute,
               .work = Gemm{},
               .reads = {slice(0, 50), slice(1, 300)},
               .writes = {slice(2, 50)},
               .after = {}};
  SECTION("a product of 50 x 300 by 300 x 200") {
    const std::int64_t bytes = 2 * (50 * 300 + 300 * 200 + 50 * 200);
    CHECK(compute_time(program, op, RankId(0), gpu()) == gemm_time(gpu(), Dtype::Bf16, {50, 200, 300}, bytes));
  }
  SECTION("a memory-bound kernel takes the time of the bytes that it reads and writes, and none for none") {
    op.work = Kernel::Norm;
    const double bytes = 2 * (50 * 300 + 300 * 200 + 50 * 200);
    CHECK(compute_time(program, op, RankId(0), gpu()).value() == Approx(kLaunch + bytes / (0.5 * tests::kMemoryRate)));
    op.reads = {slice(0, 0)};
    op.writes = {slice(2, 0)};
    CHECK(compute_time(program, op, RankId(0), gpu()).value() == 0);
  }
  SECTION("kinds of kernels that reach less of the bandwidth take longer, where the GPU says so") {
    const double bytes = 2 * (50 * 300 + 300 * 200 + 50 * 200);
    GpuSpec g = gpu();
    const auto share = [&](Kernel work) {
      op.work = work;
      return bytes / tests::kMemoryRate / (compute_time(program, op, RankId(0), g).value() - kLaunch);
    };
    CHECK(share(Kernel::Encode) == Approx(0.5));
    CHECK(share(Kernel::Quantise) == Approx(0.5));
    CHECK(share(Kernel::NormBackward) == Approx(0.5));
    g.permutation_efficiency = 0.25;
    g.cast_efficiency = 0.4;
    g.norm_backward_efficiency = 0.3;
    for (const Kernel rows :
         {Kernel::Encode, Kernel::EncodeBackward, Kernel::Decode, Kernel::DecodeBackward, Kernel::SortRows})
      CHECK(share(rows) == Approx(0.25));
    CHECK(share(Kernel::Quantise) == Approx(0.4));
    CHECK(share(Kernel::QuantiseTensor) == Approx(0.4));
    CHECK(share(Kernel::NormBackward) == Approx(0.3));
    g.activation_efficiency = 0.45;
    g.activation_backward_efficiency = 0.2;
    g.loss_efficiency = 0.35;
    CHECK(share(Kernel::Activation) == Approx(0.45));
    CHECK(share(Kernel::ActivationBackward) == Approx(0.2));
    CHECK(share(Kernel::Loss) == Approx(0.35));
    CHECK(share(Kernel::LossBackward) == Approx(0.35));
    CHECK(share(Kernel::ScatterAdd) == Approx(0.25));
    CHECK(share(Kernel::GeneralPass) == Approx(0.5));
    CHECK(share(Kernel::Norm) == Approx(0.5));
    CHECK(share(Kernel::Copy) == Approx(0.5));
  }
  SECTION("a cast with one scale writes no copy in columns where products do not need one") {
    GpuSpec g = gpu();
    g.cast_efficiency = 0.4;
    op.reads = {slice(0, 50)};
    op.writes = {slice(2, 50), slice(1, 50)};
    const auto time = [&] { return compute_time(program, op, RankId(0), g).value() - kLaunch; };
    const double bytes = 2 * (50 * 300 + 50 * 200), columns = 2 * 50 * 200;
    for (const Kernel cast : {Kernel::Quantise, Kernel::QuantiseTensor}) {
      op.work = cast;
      CHECK(time() == Approx((bytes + columns) / (0.4 * tests::kMemoryRate)));
    }
    g.fp8_operands_in_any_layout = true;
    CHECK(time() == Approx(bytes / (0.5 * tests::kMemoryRate)));
    op.work = Kernel::Quantise;
    CHECK(time() == Approx((bytes + columns) / (0.4 * tests::kMemoryRate)));
  }
  SECTION("what ends a product's kernel takes no launch, and reads the product's result in registers") {
    op.work = Kernel::Epilogue;
    op.reads = {slice(0, 50), slice(1, 50)};
    op.writes = {slice(2, 50)};
    std::int64_t bytes = 0;
    for (const Slice& s : {slice(1, 50), slice(2, 50)}) bytes += byte_count(program, s, RankId(0));
    CHECK(compute_time(program, op, RankId(0), gpu()).value() ==
          Approx(static_cast<double>(bytes) / (gpu().memory_efficiency * gpu().hbm_bandwidth.value())));
  }
  SECTION("some kernels take as long as their elements do, where the GPU says so and that is longer") {
    GpuSpec g = gpu();
    const auto work_time = [&](Kernel work) {
      op.work = work;
      return compute_time(program, op, RankId(0), g).value() - kLaunch;
    };
    const double by_bytes = work_time(Kernel::GeneralPass);
    g.element_rates = {.general_pass = 1e3, .scatter_add = 2e3, .index_add = 1e15};
    CHECK(work_time(Kernel::GeneralPass) == Approx(50 * 200 / 1e3));               // written
    CHECK(work_time(Kernel::ScatterAdd) == Approx((50 * 300 + 300 * 200) / 2e3));  // read
    CHECK(work_time(Kernel::IndexAdd) == Approx(by_bytes));
    CHECK(work_time(Kernel::Copy) == Approx(by_bytes));
  }
  SECTION("each of its kernels is launched, if there is work for any") {
    op.work = Kernel::Norm;
    const double one = compute_time(program, op, RankId(0), gpu()).value();
    op.kernels = 4;
    CHECK(compute_time(program, op, RankId(0), gpu()).value() == Approx(one + 3 * kLaunch));
    op.reads = {slice(0, 0)};
    op.writes = {slice(2, 0)};
    CHECK(compute_time(program, op, RankId(0), gpu()).value() == 0);
  }
  SECTION("what the kernel of another operation does takes no time of its own") {
    op.work = Kernel::Norm;
    op.kernels = 0;
    CHECK(compute_time(program, op, RankId(0), gpu()).value() == 0);
  }
  SECTION("causal attention sees half of the keys, and its backward has five products for two") {
    op.work = AttentionCore{.sequence_length = 50, .heads = {1, 1, 300, 200}};
    const std::int64_t bytes = 2 * (50 * 300 + 300 * 200 + 50 * 200);
    const double flops = 2.0 * 50 * 25 * (300 + 200);
    CHECK(compute_time(program, op, RankId(0), gpu()) == attention_time(gpu(), Dtype::Bf16, flops, bytes));
    std::get<AttentionCore>(op.work).backward = true;
    CHECK(compute_time(program, op, RankId(0), gpu()) == attention_time(gpu(), Dtype::Bf16, 2.5 * flops, bytes));
  }
  SECTION("a window of ten keys is all that a query meets, less for the first ten queries") {
    op.work = AttentionCore{.sequence_length = 50, .window = 10, .heads = {1, 1, 300, 200}};
    CHECK(compute_load(program, op, RankId(0)).flops == 2.0 * (40 * 10 + 10 * 5) * (300 + 200));
  }
}

TEST_CASE("parts of a kernel that also exchanges rows are shares of the product of all rows") {
  const std::int64_t ranks = 2, experts = 4, tokens = 512;
  Program program = tests::one_block(ranks, {{"ep", ranks, 1}});
  program.routings.push_back({RoutingCounts::uniform(ranks, experts, 2 * tokens / experts), GroupId(0), 2});
  program.buffers = {{"in", 300, Dtype::Bf16}, {"w", 200, Dtype::Bf16}, {"out", 200, Dtype::Bf16}};
  const auto product = [&](std::int64_t parts) {
    std::vector<RowStep> path{{RowStep::Kind::Union, GroupId(0)}};
    if (parts > 1) path.push_back({RowStep::Kind::Chunk, {}, 0, parts});
    const Rows rows = Rows::routed({}, Rows::Experts::Local, path);
    return Operation{.name = "product",
                     .op_class = OpClass::Expert,
                     .stream = Stream::Compute,
                     .work = Gemm{.grouped = true},
                     .reads = {{BufferId(0), rows}, {BufferId(1), Rows::per_expert({}, 300)}},
                     .writes = {{BufferId(2), rows}},
                     .after = {},
                     .parts = parts};
  };
  GpuSpec g = gpu();
  const auto time = [&](std::int64_t parts) { return compute_time(program, product(parts), RankId(0), g).value(); };
  const double whole = time(1);
  CHECK(4 * time(4) == Approx(whole));
  CHECK(8 * time(8) == Approx(whole));
  SECTION("slower where the GPU says so, if tensor cores limit it") {
    g.memory_efficiency = g.gemm_efficiency.front().efficiency = 1;
    g.hbm_bandwidth = BytesPerSecond(1e30);
    const double fast = time(1) - kLaunch;
    g.fused_exchange_efficiency = 0.5;
    CHECK(4 * time(4) - kLaunch == Approx(2 * fast));
    CHECK(time(1) - kLaunch == Approx(fast));
  }
  SECTION("not slower if memory limits it by more") {
    g.hbm_bandwidth = BytesPerSecond(1e6);
    const double slow = time(1);
    g.fused_exchange_efficiency = 0.5;
    CHECK(4 * time(4) == Approx(slow));
  }
}

TEST_CASE("figures of a GPU's kernels price products and attention in their formats") {
  const GpuSpec b200 = load_gpu("b200_sxm");
  const OperatorModels& figures = *b200.operators;
  Program program = tests::one_block(1);
  program.buffers = {{"a", 4096, Dtype::Bf16}, {"b", 1024, Dtype::Bf16}, {"c", 1024, Dtype::Bf16}};
  const auto slice = [](std::int32_t buffer, std::int64_t rows) { return Slice{BufferId(buffer), Rows::fixed(rows)}; };
  Operation op{.name = "gemm",
               .op_class = OpClass::Gate,
               .stream = Stream::Compute,
               .work = Gemm{},
               .reads = {slice(0, 512), slice(1, 4096)},
               .writes = {slice(2, 512)},
               .after = {}};
  const auto time = [&](const GpuSpec& gpu) { return compute_time(program, op, RankId(0), gpu); };
  const GemmShape shape{512, 1024, 4096};
  GpuSpec shares = b200;
  shares.operators.reset();
  SECTION("a product takes the time of its phase") {
    CHECK(time(b200).value() ==
          Approx(training_gemm_cost(figures, MathFormat::Bf16, shape, {})->time().value()).epsilon(1e-12));
    op.work = Gemm{.form = Gemm::Form::NT};
    CHECK(time(b200).value() ==
          Approx(training_gemm_cost(figures, MathFormat::Bf16, shape, {.phase = GemmPhase::Dgrad})->time().value())
              .epsilon(1e-12));
  }
  SECTION("fp16 takes the figures of bf16, and a format without figures the share of the peak") {
    const Seconds bf16 = time(b200);
    for (Buffer& b : program.buffers) b.dtype = Dtype::Fp16;
    CHECK(time(b200) == bf16);
    for (Buffer& b : program.buffers) b.dtype = Dtype::Tf32;
    CHECK(time(b200) == time(shares));
  }
  SECTION("a product of quantised operands takes the time of their format, without the quantisation") {
    const Seconds bf16 = time(b200);
    for (Buffer& b : program.buffers) b.dtype = Dtype::Fp8;
    op.work = Gemm{.format = MathFormat::Fp8};
    CHECK(time(b200).value() ==
          Approx(training_gemm_cost(figures, MathFormat::Fp8, shape, {.quantises = false})->time().value())
              .epsilon(1e-12));
    op.work = Gemm{.format = MathFormat::Mxfp8};
    CHECK(time(b200) > bf16);  // its scales take kernels of their own, and the product is small
    op.reads = {slice(0, 16384), slice(1, 4096)};
    op.writes = {slice(2, 16384)};
    const Seconds mxfp8 = time(b200);
    op.work = Gemm{};
    for (Buffer& b : program.buffers) b.dtype = Dtype::Bf16;
    CHECK(mxfp8 < time(b200));
  }
  SECTION("attention takes the kernel's time, with a window too, and a part of the sequence its share of it") {
    program.buffers = {{"q", 8 * 128, Dtype::Bf16}, {"kv", 2 * 128, Dtype::Bf16}, {"o", 8 * 128, Dtype::Bf16}};
    op.reads = {slice(0, 8192), slice(1, 8192)};
    op.writes = {slice(2, 8192)};
    AttentionCore core{.sequence_length = 4096, .heads = {8, 2, 128, 128}};
    op.work = core;
    const AttentionModel& model = *training_attention_model(figures, false);
    const AttentionShape whole{.batch = 2, .sequence_length = 4096, .query_heads = 8, .kv_heads = 2};
    CHECK(time(b200).value() == Approx(attention_time(model, 148, whole).value()));
    core.window = 1024;
    op.work = core;
    AttentionShape windowed = whole;
    windowed.window = 1024;
    CHECK(time(b200).value() == Approx(attention_time(model, 148, windowed).value()));
    core = {.sequence_length = 16384, .heads = {8, 2, 128, 128}};
    op.work = core;
    const AttentionShape longer{.batch = 1, .sequence_length = 16384, .query_heads = 8, .kv_heads = 2};
    CHECK(time(b200).value() ==
          Approx((model.launch + (attention_time(model, 148, longer) - model.launch) * 0.5).value()));
  }
}

}  // namespace moeplan::tests::compute_test
