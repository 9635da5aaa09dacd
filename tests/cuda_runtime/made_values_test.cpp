// Weights made where they are: by kernels, by back ends, and by the reference row by row.
#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "cuda_runtime/host/element_format.hpp"
#include "cuda_runtime/host/host_memory.hpp"
#include "cuda_runtime/kernels/one_lane.hpp"
#include "cuda_runtime/made_elements.hpp"
#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "model/base/random.hpp"
#include "tests/device/two_ranks.hpp"
#include "tests/support/value_cases.hpp"

namespace moeplan::tests::made_values_test {

using namespace moeplan::runtime;
using kernels::MadeRun;

TEST_CASE("a made value is the sum of the four parts of a number of SplitMix64, less its mean") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::uint64_t bits = mixed(i * 0x9e3779b97f4a7c15ULL);
    double sum = -2.0 * 0xffff;
    for (unsigned part = 0; part < 4; ++part) sum += static_cast<double>(bits >> (16 * part) & 0xffffU);
    REQUIRE(static_cast<double>(kernels::made_value(i)) == sum);
  }
}

TEST_CASE("values about 1 are sums without a rounding, so that fused multiply-add has the same bits") {
  const MadeRow row = norm_row({.hidden_size = 16, .ffn_size = 1, .experts = 1, .top_k = 1, .gated = false}, 0, 3);
  REQUIRE(row.mean == 1);
  for (const float made : {float{kernels::kMadeMean}, -float{kernels::kMadeMean}, 1.0F, kernels::made_value(5)}) {
    const double exact = double{row.mean} + double{row.scale} * double{made};
    CHECK(double{row.mean + row.scale * made} == exact);
    CHECK(std::abs(exact - 1) < 0.25);
  }
}

TEST_CASE("parts of a run have the values that the whole has there") {
  const MadeRun run{.to = 10, .count = 20, .first = 100, .one = 7};
  const auto is = [](const MadeRun& r, std::int64_t to, std::int64_t count, std::uint64_t first, std::int64_t one) {
    return r.to == to && r.count == count && r.first == first && r.one == one;
  };
  CHECK(is(MadeElements::within(run, 0, 100), 10, 20, 100, 7));
  CHECK(is(MadeElements::within(run, 15, 100), 15, 15, 105, 2));
  CHECK(is(MadeElements::within(run, 18, 25), 18, 7, 108, -1));
  CHECK(MadeElements::within(run, 0, 10).count == 0);
  CHECK(MadeElements::within(run, 30, 40).count == 0);
  MadeElements long_run;
  long_run.append({.to = 3, .count = 2 * kernels::kLongestPiece + 1, .first = 5, .one = kernels::kLongestPiece});
  REQUIRE(long_run.runs.size() == 3);
  CHECK(is(long_run.runs[0], 3, kernels::kLongestPiece, 5, kernels::kLongestPiece));  // outside of it: none
  CHECK(long_run.runs[1].one == 0);
  CHECK(long_run.runs[2].count == 1);
  CHECK(long_run.runs[2].one == -1);
}

TEST_CASE("the kernel makes the elements of the runs, and no others") {
  rc::prop("in any format, at any place, in all columns or some", [] {
    const auto dtype = *rc::gen::element(Dtype::Fp32, Dtype::Bf16, Dtype::Fp16);
    const auto columns = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto own = *rc::gen::inRange<std::int64_t>(0, columns + 1);  // 0: all
    const auto first_column = own == 0 ? 0 : *rc::gen::inRange<std::int64_t>(0, columns - own + 1);
    constexpr std::int64_t kRows = 5;
    const std::int64_t elements = kRows * (own == 0 ? columns : own);
    const auto to = *rc::gen::inRange<std::int64_t>(0, elements),
               count = *rc::gen::inRange<std::int64_t>(1, elements + 1);
    const MadeRun run{.to = to,
                      .count = std::min(count, elements - to),
                      .first = *rc::gen::arbitrary<std::uint64_t>(),
                      .one = *rc::gen::inRange<std::int64_t>(-1, 4)};
    MadeElements made{.scale = 3e-6F, .columns = own, .first_column = first_column, .runs = {run}};
    HostBuffer buffer({kRows, columns, dtype});
    constexpr float kBefore = 2;
    for (std::int64_t r = 0; r < kRows; ++r) {
      buffer.store_row(r, std::vector<float>(static_cast<std::size_t>(columns), kBefore));
    }
    kernels::OneLane::run(made.call({buffer.at(0), columns, format_of(dtype)}, made.runs.data(), 1));
    std::vector<double> expected(static_cast<std::size_t>(run.count));
    make_row({run.first, made.scale, run.one < run.count ? run.one : -1}, dtype, expected);
    std::vector<float> row(static_cast<std::size_t>(columns));
    for (std::int64_t r = 0; r < kRows; ++r) {
      buffer.load_row(r, row);
      for (std::int64_t c = 0; c < columns; ++c) {
        const bool is_in = own == 0 || (c >= first_column && c < first_column + own);
        const std::int64_t e = own == 0 ? r * columns + c : r * own + c - first_column;
        const bool is_made = is_in && e >= run.to && e < run.to + run.count;
        const double value = is_made ? expected[static_cast<std::size_t>(e - run.to)] : double{kBefore};
        RC_ASSERT(static_cast<double>(row[static_cast<std::size_t>(c)]) == value);
      }
    }
  });
}

namespace {

constexpr MoeShape kShape{.hidden_size = 24, .ffn_size = 12, .experts = 3, .top_k = 1, .gated = true};

/// Rows of an up projection, and after them one of the gate, in a buffer that is a part of another.
void make_rows(Backend& backend, Dtype dtype) {
  const BufferId flat(0), part(1);
  backend.allocate(std::vector<BufferShape>{{8, 64, dtype}, {5, 24, dtype, BufferPart{flat, 64}}});
  backend.write_row(flat, 7, std::vector<double>(64, 3.0));
  backend.write_row(part, 4, std::vector<double>(24, 5.0));
  MadeElements up{.scale = up_row(kShape, 2, 0, 9).scale}, gate{.scale = gate_row(kShape, 2, 9).scale};
  for (std::int64_t r = 0; r < 3; ++r) up.append({24 * r, 24, up_row(kShape, 2, r, 9).first});
  gate.append({24 * 3, 3, gate_row(kShape, 2, 9).first, 2});
  backend.make(part, up);
  backend.make(part, gate);
}

void check_rows(Backend& backend, Dtype dtype) {
  const BufferId flat(0), part(1);
  const Matrix up = made_up(kShape, 2, dtype, 9), gate = made_gate(kShape, dtype, 9);
  const auto is_row = [](const std::vector<double>& got, std::span<const double> row) {
    return std::equal(row.begin(), row.end(), got.begin());
  };
  for (std::int64_t r = 0; r < 3; ++r) {
    if (!is_row(backend.read_row(part, r), up.row(r))) throw std::logic_error("not made");
  }
  if (!is_row(backend.read_row(part, 3), gate.row(2))) throw std::logic_error("not made");
  if (backend.read_row(part, 3).back() != 0) throw std::logic_error("more than asked for is made");
  if (backend.read_row(part, 4) != std::vector<double>(24, 5.0)) throw std::logic_error("what was written is lost");
  if (backend.read_row(flat, 7) != std::vector<double>(64, 3.0)) throw std::logic_error("what was written is lost");
  if (backend.read_row(flat, 0) != std::vector<double>(64, 0.0)) throw std::logic_error("not zero");
}

}  // namespace

TEST_CASE("a device makes weights in its memory with the bits that the reference has") {
  const Dtype dtype = GENERATE(Dtype::Fp32, Dtype::Bf16, Dtype::Fp16);
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    FakeDevice device(seed);
    CHECK(two_ranks::error_of(device, {.slab = 0}, [&](RankId, Backend& backend) {
            make_rows(backend, dtype);
            check_rows(backend, dtype);
          }) == "");
    CHECK(device.is_clean());
  }
}

TEST_CASE("rows of a large buffer are read through a window") {
  constexpr std::int64_t kColumns = 1 << 20, kRows = 10;  // 40 MiB
  FakeDevice device(2);
  {
    LoopbackTransport transport(device, 0);
    DeviceWorld world(device, transport, {RankId(0)}, {.slab = 0});
    Backend& backend = world.backend(0);
    backend.allocate(std::vector<BufferShape>{{kRows, kColumns, Dtype::Fp32}});
    for (const std::int64_t row : {0, 1, 5, 9}) {
      MadeElements made{.mean = static_cast<float>(row + 1), .scale = 0};
      made.append({row * kColumns, kColumns});
      backend.make(BufferId(0), made);
      for (const std::int64_t r : {0, 9, 5, 4, 1}) {
        const std::vector<double> got = backend.read_row(BufferId(0), r);
        const bool is_made = r <= row && r != 4;
        CHECK((got.front() == (is_made ? static_cast<double>(r + 1) : 0.0) && got.back() == got.front()));
      }
    }
  }
  CHECK(device.largest_copy() == DeviceBuffer::kWindow);
  CHECK(device.is_clean());
}

TEST_CASE("a device that does not end making values, or fails, is given up") {
  FakeDevice device(1);
  device.fail("launch", 1);
  const auto make = [](RankId, Backend& backend) { make_rows(backend, Dtype::Fp32); };
  CHECK(two_ranks::error_of(device, {.slab = 0}, make) == "launch: made to fail");
  CHECK(device.is_clean());
  FakeDevice stuck(1);
  stuck.hang();
  LoopbackTransport transport(stuck, 0);
  DeviceWorld world(stuck, transport, {RankId(0)}, {.time_out = Seconds(0.02), .slab = 0});
  CHECK_THROWS_WITH(make_rows(world.backend(0), Dtype::Fp32), "rank 0: values were not made within 0.02 s");
}

TEST_CASE("of weights on a device nothing is copied, nor of the states of an optimizer") {
  // Weights of 16 experts of 64 x 256, gated: 3.1 MB. In a step they are in flat buffers, of which a state has three
  // parts.
  ValueLayer layer{.name = "large",
                   .degrees = {.dp = 1, .ep = 1},
                   .per_node = 1,
                   .experts = 16,
                   .shape = RoutingShape::Uniform,
                   .gated = true,
                   .hidden = 64,
                   .ffn = 256,
                   .tokens = 8,
                   .mode = Mode::Forward};
  if (GENERATE(false, true)) {
    layer.mode = Mode::Train;
    layer.step = ValueStep{.optimizer = Optimizer::Adam};
  }
  constexpr std::size_t kWeights = std::size_t{16} * 64 * 3 * 256 * sizeof(float);
  const ValueCase c(layer);
  FakeDevice device(3);
  {
    LoopbackTransport transport(device, 0);
    DeviceWorld world(device, transport, {RankId(0)}, {.slab = 0});
    double worst = 0;
    CHECK(c.problem(c.runs().front(), world.backend(0), RankId(0), worst) == "");
    CHECK(worst > 0);
  }
  CHECK(device.copied_in() < kWeights / 4);                      // tokens, and for each row how it is made
  if (!layer.step) CHECK(device.largest_copy() < kWeights / 8);  // otherwise they are read, to be compared
}

}  // namespace moeplan::tests::made_values_test
