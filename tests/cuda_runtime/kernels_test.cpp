// Kernels against the CPU back end and codecs of the library, by one lane and by several, which are threads here.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <barrier>
#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>

#include "cuda_runtime/codecs/make_row_codec.hpp"
#include "cuda_runtime/host/host_compute.hpp"
#include "cuda_runtime/kernels/kernel_call.hpp"
#include "cuda_runtime/kernels/one_lane.hpp"
#include "model/base/random.hpp"

namespace moeplan::tests::kernels_test {

using namespace moeplan::runtime;
using kernels::Format;
using kernels::OneLane;

namespace {

constexpr int kLanes = 3;

/// Lanes that are threads.
class Lanes {
 public:
  template <class Kernel>
  static void run(const Kernel& kernel) {
    for (std::int64_t item = 0; item < kernel.items; ++item) {
      Shared shared;
      std::vector<std::jthread> threads;
      for (int lane = 0; lane < kLanes; ++lane) {
        threads.emplace_back([&, lane] {
          Team team{lane, kLanes, shared, shared.scratch};
          kernel.run(item, team);
        });
      }
    }
  }

 private:
  struct Shared {
    std::barrier<> all{kLanes};
    kernels::Best values[kLanes];
    alignas(16) char scratch[kernels::kScratchBytes];
  };
  struct Team {
    int lane, size;
    Shared& shared;
    char* scratch;
    void sync() { shared.all.arrive_and_wait(); }
    template <class F>
    kernels::Best fold(kernels::Best mine, F f) {
      shared.values[lane] = mine;
      sync();
      kernels::Best out = shared.values[0];
      for (int i = 1; i < kLanes; ++i) out = f(out, shared.values[i]);
      sync();
      return out;
    }
    float sum(float v) {
      return fold({v, 0}, [](auto a, auto b) { return kernels::Best{a.value + b.value, 0}; }).value;
    }
    float least(float v) {
      return fold({v, 0}, [](auto a, auto b) { return kernels::Best{std::min(a.value, b.value), 0}; }).value;
    }
    float most(float v) {
      return fold({v, 0}, [](auto a, auto b) { return kernels::Best{std::max(a.value, b.value), 0}; }).value;
    }
    kernels::Best best(kernels::Best v) {
      return fold(v, [](auto a, auto b) { return is_better(b, a) ? b : a; });
    }
  };
};

std::vector<float> normal_values(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(static_cast<float>(random.normal()));
  return values;
}

kernels::View view_of(HostBuffer& buffer) {
  const Dtype d = buffer.shape().dtype;
  return {buffer.at(0), buffer.shape().columns,
          d == Dtype::Fp32   ? Format::Fp32
          : d == Dtype::Fp16 ? Format::Fp16
          : d == Dtype::Bf16 ? Format::Bf16
                             : Format::Bytes};
}

/// Buffers that the CPU back end and a kernel work on alike. HostBuffer's memory is aligned to 16 bytes, as malloc's
/// is.
struct Both {
  std::vector<HostBuffer> cpu, gpu;

  BufferId add(std::int64_t rows, std::int64_t columns, Dtype dtype = Dtype::Fp32) {
    const auto values = normal_values(static_cast<std::size_t>(rows * columns), 11 + cpu.size());
    for (std::vector<HostBuffer>* buffers : {&cpu, &gpu}) {
      HostBuffer& buffer = buffers->emplace_back(BufferShape{rows, columns, dtype});
      for (std::int64_t r = 0; r < rows && dtype != Dtype::Int8; ++r) {
        buffer.store_row(r, std::span(values).subspan(static_cast<std::size_t>(r * columns), buffer.columns()));
      }
    }
    return BufferId(cpu.size() - 1);
  }
  kernels::View view(BufferId b) { return view_of(gpu[b.index()]); }
  kernels::RowView rows(BufferId b, const std::vector<std::int32_t>& index) { return {view(b), index.data(), 0}; }
  /// Largest difference of a buffer between the two.
  float difference(BufferId b) {
    float worst = 0;
    HostBuffer &x = cpu[b.index()], &y = gpu[b.index()];
    std::vector<float> p(x.columns()), q(x.columns());
    for (std::int64_t r = 0; r < x.shape().rows; ++r) {
      x.load_row(r, p);
      y.load_row(r, q);
      for (std::size_t c = 0; c < p.size(); ++c) worst = std::max(worst, std::abs(p[c] - q[c]));
    }
    return worst;
  }
};

/// Adds the gradient of a norm's weights by the kernels, given the scales of the rows of `in`.
void add_norm_weight_gradient(Both& both, const RowList& d_out, const RowList& in, const RowList& d_weights,
                              const std::vector<kernels::RowScale>& scales) {
  const std::int64_t rows = std::ssize(in.rows), columns = both.view(in.buffer).columns;
  const std::int64_t sums = kernels::NormWeightSums::sums_of(rows);
  const bool is_layer_norm = d_weights.rows.size() > 1;
  std::vector<float> partial(static_cast<std::size_t>(sums * std::ssize(d_weights.rows) * columns), NAN);
  Lanes::run(kernels::NormWeightSums{both.rows(d_out.buffer, d_out.rows), both.rows(in.buffer, in.rows), scales.data(),
                                     partial.data(), rows, kernels::NormWeightSums::items_of(rows, columns),
                                     is_layer_norm});
  Lanes::run(kernels::NormWeightGradient{partial.data(), both.rows(d_weights.buffer, d_weights.rows), sums, columns,
                                         is_layer_norm});
}

}  // namespace

namespace {

/// A row through the kernel and through libzfp: the same bytes, and the same values back.
bool is_zfp(const std::vector<float>& row, std::int32_t bits) {
  const auto codec = make_row_codec(WireFormat::Zfp, {.zfp_bits = bits});
  const auto columns = static_cast<std::int64_t>(row.size());
  std::vector<std::byte> expected(codec->value_bytes(row.size())), got(expected.size(), std::byte{0x5a});
  codec->encode(row, expected, {});
  std::vector<float> in = row, out(row.size()), back(row.size());
  const kernels::View bytes{got.data(), static_cast<std::int64_t>(got.size()), Format::Bytes};
  OneLane::run(kernels::ZfpCodec{{{in.data(), columns, Format::Fp32}}, {bytes}, 1, bits, false});
  if (got != expected) return false;
  codec->decode(expected, {}, back);
  OneLane::run(kernels::ZfpCodec{{{out.data(), columns, Format::Fp32}}, {bytes}, 1, bits, true});
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(out[i]) != std::bit_cast<std::uint32_t>(back[i])) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("several lanes make the values that one makes") {
  for (const std::int64_t columns : {0, 16, 5}) {
    Both both;
    const BufferId buffer = both.add(16, 48, Dtype::Bf16);
    const std::vector<kernels::MadeRun> runs{{8, 37, 1000, 36}, {48, 16, 7, -1}};
    const auto make = [&](const kernels::View& view) {
      return kernels::MakeValues{view, runs.data(), 2, 0, 2e-6F, columns, columns == 5 ? 3 : columns};
    };
    OneLane::run(make(view_of(both.cpu[buffer.index()])));
    Lanes::run(make(both.view(buffer)));
    CHECK(both.difference(buffer) == 0);
  }
}

TEST_CASE("zfp's blocks are libzfp's, bit for bit") {
  const float least = std::numeric_limits<float>::denorm_min(), most = std::numeric_limits<float>::max();
  for (std::int32_t bits = 3; bits <= 32; ++bits) {
    SECTION("at " + std::to_string(bits) + " bits a value") {
      CHECK(is_zfp({0, 0, 0, 0}, bits));
      CHECK(is_zfp({-0.0F, 0, -0.0F, 0}, bits));
      CHECK(is_zfp({1, 1, 1, 1, -1, -1, -1, -1}, bits));
      CHECK(is_zfp({1, -1, 1, -1, 0, 0, 0, 1, 1, 0, 0, 0}, bits));
      CHECK(is_zfp({most, -most, most, -most, most, most, most, most}, bits));
      CHECK(is_zfp({0x1p-96F, 0x1.8p-97F, -0x1p-97F, 0, 1e20F, -1e-20F, 3, 0}, bits));
      CHECK(is_zfp({0x1p-97F, 0x1p-98F, -0x1p-120F, 0}, bits));  // the library's scale is infinite here
      CHECK(is_zfp({least, -least, 0, 2 * least, 0x1p-126F, 0, 0, 0}, bits));
      Random random(static_cast<std::uint64_t>(bits));
      for (int i = 0; i < 300; ++i) {
        std::vector<float> row;
        const int exponent = static_cast<int>(random.below(40)) - 20;
        for (int j = 0; j < 12; ++j) {
          row.push_back(std::ldexp(static_cast<float>(random.normal()), exponent + static_cast<int>(random.below(6))));
        }
        REQUIRE(is_zfp(row, bits));
      }
    }
  }
  rc::prop("any finite values", [](std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    std::vector<float> row;
    for (const std::uint32_t v : {a, b, c, d}) row.push_back(std::bit_cast<float>(v));
    for (const float v : row) RC_PRE(std::isfinite(v));
    for (const std::int32_t bits : {3, 8, 13, 32}) RC_ASSERT(is_zfp(row, bits));
  });
}

TEST_CASE("codecs' kernels give the library's bytes, by several lanes too") {
  for (const std::int64_t columns :
       {std::int64_t{24}, std::int64_t{20}, std::int64_t{260}, std::int64_t{1204}, std::int64_t{2184}}) {
    for (const Dtype dtype : {Dtype::Fp32, Dtype::Bf16}) {
      for (const WireFormat format : {WireFormat::Fp16, WireFormat::Int8, WireFormat::Fp8Block, WireFormat::Zfp}) {
        for (const std::int64_t numbers : {1, 2}) {
          const CodecOptions options{.zfp_bits = 5, .int8_row_messages = numbers};
          const auto codec = make_row_codec(format, options);
          Both both;
          const BufferId plain = both.add(3, columns, dtype);
          const std::int64_t scales = format == WireFormat::Fp8Block ? (columns + 127) / 128 : 1;
          const auto bytes = static_cast<std::int64_t>(codec->value_bytes(static_cast<std::size_t>(columns)));
          const BufferId values = both.add(2, bytes, Dtype::Int8), scale = both.add(2, scales), zero = both.add(2, 1);
          CodecWork work{format, false, {plain, {2, 0}}, {{values, {0, 1}}}};
          if (format == WireFormat::Int8 || format == WireFormat::Fp8Block) work.wire.push_back({scale, {0, 1}});
          if (format == WireFormat::Int8 && numbers == 2) work.wire.push_back({zero, {0, 1}});
          for (const bool decodes : {false, true}) {
            work.decodes = decodes;
            compute(work, both.cpu, options);
            const std::vector<std::int32_t> in{2, 0}, out{0, 1};
            const kernels::RowView p = both.rows(plain, in), v = both.rows(values, out), s = both.rows(scale, out),
                                   z = numbers == 2 ? both.rows(zero, out) : kernels::RowView{};
            if (format == WireFormat::Fp16) Lanes::run(kernels::Fp16Codec{p, v, 2, decodes});
            if (format == WireFormat::Int8) Lanes::run(kernels::Int8Codec{p, v, s, z, 2, decodes});
            if (format == WireFormat::Fp8Block)
              Lanes::run(kernels::Fp8BlockCodec{p, v, s, kernels::Fp8BlockCodec::items_of(2, columns), decodes});
            if (format == WireFormat::Zfp) Lanes::run(kernels::ZfpCodec{p, v, 2, 5, decodes});
            const HostBuffer &a = both.cpu[values.index()], &b = both.gpu[values.index()];
            const auto all = static_cast<std::size_t>(2 * bytes);
            CHECK(
                std::equal(a.bytes().begin(), a.bytes().begin() + static_cast<std::ptrdiff_t>(all), b.bytes().begin()));
            CHECK(both.difference(plain) == 0);
            CHECK(both.difference(scale) == 0);
            CHECK(both.difference(zero) == 0);
          }
        }
      }
    }
  }
}

TEST_CASE("kernels compute what the CPU back end computes, by several lanes") {
  const std::int64_t columns =
      GENERATE(std::int64_t{16}, std::int64_t{10}, std::int64_t{136});  // in eights or not; more than lanes hold
  const Dtype dtype = GENERATE(Dtype::Fp32, Dtype::Fp16, Dtype::Bf16);
  const float tolerance = dtype == Dtype::Fp32 ? 1e-5F : dtype == Dtype::Fp16 ? 4e-3F : 4e-2F;
  Both both;
  std::int32_t failure = 0;

  SECTION("rows copied, added and summed up") {
    const BufferId a = both.add(4, columns, dtype), b = both.add(4, columns, dtype), out = both.add(4, columns, dtype);
    compute(CopyRowsWork{{a, {3, -1, 0}}, {out, {1, 0, 3}}}, both.cpu);
    const std::vector<std::int32_t> from{3, -1, 0}, to{1, 0, 3};
    Lanes::run(kernels::CopyRows{both.rows(a, from), both.rows(out, to), 3});
    CHECK(both.difference(out) == 0);
    compute(AddWork{{a, {3, 1, 0}}, {b, {1, 1, 2}}, {out, {1, 0, 3}}}, both.cpu);
    const std::vector<std::int32_t> x{3, 1, 0}, y{1, 1, 2};
    Lanes::run(kernels::AddRows{both.rows(a, x), both.rows(b, y), both.rows(out, to), 3});
    CHECK(both.difference(out) == 0);
    const SumRowsWork sum{{a, b}, {out, {0, 2}}, {0, 3, 3}, {{0, 1, 0, 0}, {1, 2, 0, 0}, {0, 3, 0, 0}}, {}};
    compute(sum, both.cpu);
    const std::vector<kernels::View> inputs{both.view(a), both.view(b)};
    const std::vector<kernels::SumTerm> terms{{0, 1, 0, 0}, {1, 2, 0, 0}, {0, 3, 0, 0}};
    const std::vector<std::int32_t> rows{0, 2};
    Lanes::run(kernels::SumRows{inputs.data(), both.rows(out, rows), sum.begin.data(), terms.data(), {}, 2, &failure});
    CHECK(both.difference(out) == 0);
  }
  SECTION("sums of few terms and of many, of one format and of several") {
    const BufferId a = both.add(12, columns, dtype), b = both.add(12, columns, dtype), c = both.add(12, columns),
                   out = both.add(12, columns, dtype);
    SumRowsWork sum{{a, b, c}, {out, {}}, {0}, {}, {}};
    std::vector<kernels::SumTerm> terms;
    for (std::int32_t row = 0; row < 12; ++row) {  // row i has i terms, the last 40; of three rows one has some in fp32
      for (std::int32_t t = 0; t < (row < 11 ? row : 40); ++t) {
        sum.terms.push_back({row % 3 == 0 ? t % 3 : t % 2, (5 * row + t) % 12, 0, 0});
        terms.push_back({sum.terms.back().input, sum.terms.back().row, 0, 0});
      }
      sum.out.rows.push_back(11 - row);
      sum.begin.push_back(std::ssize(sum.terms));
    }
    compute(sum, both.cpu);
    const std::vector<kernels::View> inputs{both.view(a), both.view(b), both.view(c)};
    Lanes::run(kernels::SumRows{
        inputs.data(), both.rows(out, sum.out.rows), sum.begin.data(), terms.data(), {}, 12, &failure});
    CHECK(both.difference(out) == 0);
  }
  SECTION("the gate, its gradient, and what it weights") {
    const std::int64_t k = 3;
    const BufferId logits = both.add(2, columns, dtype), choice = both.add(2, 2 * k), d = both.add(2, k),
                   d_logits = both.add(2, columns, dtype);
    const std::vector<std::int32_t> all{0, 1};
    compute(TopKWork{{logits, all}, {choice, all}, k}, both.cpu);
    Lanes::run(kernels::TopK{both.rows(logits, all), both.rows(choice, all), 2, 3});
    CHECK(both.difference(choice) < 1e-6F);
    compute(TopKBackwardWork{{d, all}, {logits, all}, {d_logits, all}, k}, both.cpu);
    Lanes::run(kernels::TopKBackward{both.rows(d, all), both.rows(logits, all), both.rows(d_logits, all), 2, 3});
    CHECK(both.difference(d_logits) < tolerance);

    // Rows of the experts that token 1 chose, and one of padding.
    std::vector<float> chosen(static_cast<std::size_t>(2 * k));
    both.cpu[choice.index()].load_row(1, chosen);
    const auto first = static_cast<std::int32_t>(chosen[0]), second = static_cast<std::int32_t>(chosen[1]);
    const BufferId d_out = both.add(2, columns, dtype), returned = both.add(3, columns, dtype),
                   d_returned = both.add(3, columns, dtype), d_choice = both.add(2, k),
                   out = both.add(2, columns, dtype);
    const DecodeBackwardWork work{
        d_out,      returned,        choice,
        d_returned, {d_choice, all}, {{2, 1, 1, 1, 0, second}, {-1, 0, -1, -1, -1, 0}, {0, 2, 1, 1, 0, first}}};
    compute(work, both.cpu);
    std::vector<kernels::DecodeEntry> entries;
    for (const auto& e : work.entries)
      entries.push_back({e.returned, e.d_returned, e.token, e.choice, e.d_choice, e.expert});
    const std::vector<std::int32_t> none{-1, -1};
    Lanes::run(kernels::CopyRows{both.rows(d_choice, none), both.rows(d_choice, all), 2});
    Lanes::run(kernels::DecodeBackward{both.view(d_out), both.view(returned), both.view(choice), both.view(d_returned),
                                       both.view(d_choice), entries.data(), 3, &failure});
    CHECK(both.difference(d_returned) < tolerance);
    CHECK(both.difference(d_choice) < 1e-4F);
    const SumRowsWork sum{{returned}, {out, {1}}, {0, 2}, {{0, 2, 1, second}, {0, 0, 1, first}}, choice};
    compute(sum, both.cpu);
    const std::vector<kernels::View> inputs{both.view(returned)};
    const std::vector<kernels::SumTerm> terms{{0, 2, 1, second}, {0, 0, 1, first}};
    const std::vector<std::int32_t> row{1};
    Lanes::run(kernels::SumRows{inputs.data(), both.rows(out, row), sum.begin.data(), terms.data(), both.view(choice),
                                1, &failure});
    CHECK(both.difference(out) < tolerance);
    CHECK(failure == 0);
    const std::vector<kernels::SumTerm> wrong{{0, 2, 1, 999}, {0, 0, 1, first}};
    Lanes::run(kernels::SumRows{inputs.data(), both.rows(out, row), sum.begin.data(), wrong.data(), both.view(choice),
                                1, &failure});
    CHECK(failure == 1);  // nobody chose expert 999
  }
  SECTION("steps of Adam and of SGD, with weights in fp32 next to those of 16 bits") {
    for (const std::int64_t moments : {2, 1}) {
      const std::int64_t values = moments + (dtype == Dtype::Fp32 ? 0 : 1);
      const BufferId gradients = both.add(3, columns, dtype), states = both.add(3, values * columns),
                     weights = both.add(3, columns, dtype);
      for (HostBuffer* buffer : {&both.cpu[states.index()], &both.gpu[states.index()]}) {
        const std::vector<float> positive(buffer->columns(), 0.25F);  // as second moments are
        for (std::int64_t r = 0; r < 3; ++r) buffer->store_row(r, positive);
      }
      const std::vector<std::int32_t> own{1, 2};
      compute(OptimizerWork{{gradients, own}, {states, own}, {weights, own}, moments}, both.cpu);
      Lanes::run(kernels::UpdateWeights{both.rows(gradients, own), both.rows(states, own), both.rows(weights, own), 2,
                                        static_cast<std::int32_t>(moments)});
      CHECK(both.difference(states) < 1e-6F);
      CHECK(both.difference(weights) < tolerance);
    }
    // By hand: m = 0.9 + 0.1 2 = 1.1, v = 0.95 4 + 0.05 4 = 4, w = 3 - 0.1 1.1 / 2; momentum 0.9 + 2, w = 3 - 0.29.
    float first = 1, second = 4, weight = 3;
    kernels::adam(2, first, second, weight);
    CHECK(first == Approx(1.1));
    CHECK(second == Approx(4));
    CHECK(weight == Approx(3 - 0.055));
    first = 1, weight = 3;
    kernels::sgd(2, first, weight);
    CHECK(first == Approx(2.9));
    CHECK(weight == Approx(3 - 0.29));
  }
  SECTION("norms and their gradients, which are added to those of the weights") {
    for (const std::int64_t rows_of_weights : {1, 2}) {
      const BufferId in = both.add(5, columns, dtype), weights = both.add(2, columns, dtype),
                     out = both.add(5, columns, dtype), d_in = both.add(5, columns, dtype),
                     d_weights = both.add(2, columns);
      const bool is_layer_norm = rows_of_weights == 2;
      const std::vector<std::int32_t> some{4, 0, 1, 3}, own = is_layer_norm ? std::vector{1, 0} : std::vector{1};
      constexpr float kEpsilon = 0.5;  // so large that it shows
      compute(NormWork{{in, some}, {weights, own}, {out, some}, kEpsilon}, both.cpu);
      Lanes::run(kernels::NormRows{both.rows(in, some), both.rows(weights, own), both.rows(out, some), 4, kEpsilon,
                                   is_layer_norm});
      CHECK(both.difference(out) < tolerance);
      compute(NormBackwardWork{{out, some}, {in, some}, {weights, own}, {d_in, some}, {d_weights, own}, kEpsilon},
              both.cpu);
      std::vector<kernels::RowScale> scales(4);
      Lanes::run(kernels::NormRowsBackward{both.rows(out, some), both.rows(in, some), both.rows(weights, own),
                                           both.rows(d_in, some), scales.data(), 4, kEpsilon, is_layer_norm});
      CHECK(both.difference(d_in) < tolerance);
      add_norm_weight_gradient(both, {out, some}, {in, some}, {d_weights, own}, scales);
      CHECK(both.difference(d_weights) < tolerance);
    }
  }
  SECTION("gradients of a norm's weights, of many rows and columns") {
    const std::int64_t wide = 32 * columns + 8 * (columns % 8);  // more than two items take
    const BufferId in = both.add(150, wide, dtype), weights = both.add(2, wide, dtype),
                   d_out = both.add(150, wide, dtype), d_in = both.add(150, wide, dtype), d_weights = both.add(2, wide);
    std::vector<std::int32_t> all(150);
    std::iota(all.begin(), all.end(), 0);
    const std::vector<std::int32_t> own{0, 1};
    compute(NormBackwardWork{{d_out, all}, {in, all}, {weights, own}, {d_in, all}, {d_weights, own}, 1e-6}, both.cpu);
    std::vector<kernels::RowScale> scales(all.size());
    Lanes::run(kernels::NormRowsBackward{both.rows(d_out, all), both.rows(in, all), both.rows(weights, own),
                                         both.rows(d_in, all), scales.data(), std::ssize(all), 1e-6F, true});
    add_norm_weight_gradient(both, {d_out, all}, {in, all}, {d_weights, own}, scales);
    CHECK(both.difference(d_weights) < 40 * tolerance);  // of sums of 150 terms
  }
  SECTION("activations and their gradients") {
    for (const bool gated : {false, true}) {
      const BufferId up = both.add(2, gated ? 2 * columns : columns, dtype), out = both.add(2, columns, dtype),
                     d_up = both.add(2, gated ? 2 * columns : columns, dtype);
      const std::vector<std::int32_t> all{1, 0};
      compute(ActivationWork{{up, all}, {out, all}, gated}, both.cpu);
      Lanes::run(kernels::Activation{both.rows(up, all), both.rows(out, all), 2, gated});
      CHECK(both.difference(out) < tolerance);
      compute(ActivationBackwardWork{{out, all}, {up, all}, {d_up, all}, gated}, both.cpu);
      Lanes::run(kernels::ActivationBackward{both.rows(out, all), both.rows(up, all), both.rows(d_up, all), 2, gated});
      CHECK(both.difference(d_up) < tolerance);
    }
  }
}

TEST_CASE("pieces are moved and added up wherever they begin") {
  rc::prop("odd places, odd lengths", [](std::uint8_t first, std::uint8_t packed, std::uint8_t length) {
    const std::int64_t count = length % 40, from = first % 20, at = packed % 20;
    alignas(16) float buffer[64], staged[64];
    for (int i = 0; i < 64; ++i) buffer[i] = static_cast<float>(i), staged[i] = -1;
    const kernels::Piece piece{from, at, count};
    Lanes::run(kernels::MovePieces{buffer, staged, &piece, 1, 4, kernels::Move::Pack});
    for (std::int64_t i = 0; i < 64; ++i) {
      const bool is_inside = i >= at && i < at + count;
      RC_ASSERT(staged[i] == (is_inside ? static_cast<float>(from + i - at) : -1.0F));
    }
    Lanes::run(kernels::AddPieces{buffer, staged, &piece, 1, Format::Fp32});
    for (std::int64_t i = 0; i < 64; ++i) {
      RC_ASSERT(buffer[i] == static_cast<float>(i >= from && i < from + count ? 2 * i : i));
    }
    Lanes::run(kernels::MovePieces{buffer, nullptr, &piece, 1, 4, kernels::Move::Clear});
    for (std::int64_t i = 0; i < 64; ++i) {
      RC_ASSERT(buffer[i] == static_cast<float>(i >= from && i < from + count ? 0 : i));
    }
  });
}

}  // namespace moeplan::tests::kernels_test
