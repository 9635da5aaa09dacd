#include "cuda_runtime/measure/machine_profile.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <set>

#include "cuda_runtime/measure/operator_rows.hpp"
#include "model/costs/compute.hpp"
#include "model/costs/measured_cost.hpp"
#include "model/operators/operator_models.hpp"
#include "planner/plan/inputs.hpp"
#include "profiler/scores/operator_prediction.hpp"
#include "profiler/tables/operator_table.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::machine_profile_test {

using namespace moeplan::profiler;
using namespace moeplan::runtime;

namespace {

constexpr double kPeak = 10e9, kKernelRate = 2e9, kLaunch = 20e-6, kSlowdown = 1.5, kExchangeSlowdown = 1.3;
constexpr std::int64_t kRanks = 4, kCores = 2;
const MeasuredMachine kMachine{.processor = "CPU", .processors = kCores, .memory = 1e9, .ranks = kRanks};

/// A machine whose times follow the model exactly.
double time_on(const Benchmark& b) {
  switch (b.kind) {
    case Benchmark::Kind::Gemm:
    case Benchmark::Kind::Operator:
    case Benchmark::Kind::Peak:
    case Benchmark::Kind::Sustained:
    case Benchmark::Kind::GroupedGemm: return kLaunch + b.flops / kPeak;
    case Benchmark::Kind::Kernel:
    case Benchmark::Kind::Codec: return kLaunch + b.bytes / kKernelRate;
    case Benchmark::Kind::Collective: return 1e-5 * static_cast<double>(b.ranks) + b.bytes / 1e9;
    case Benchmark::Kind::Pair: return 7e-5 + b.bytes / 0.5e9;
    case Benchmark::Kind::Concurrent: return kSlowdown * (kLaunch + b.flops / kPeak);
    case Benchmark::Kind::ConcurrentExchange:  // which ends before the products do
      return kExchangeSlowdown * (1e-5 * static_cast<double>(b.ranks) + b.bytes / 1e9);
  }
  return 0;
}

std::vector<Measured> measured_on(const std::vector<Benchmark>& all) {
  std::vector<Measured> out;
  for (const Benchmark& b : all) out.push_back({time_on(b), time_on(b), time_on(b), 9, "precise"});
  return out;
}

}  // namespace

TEST_CASE("A machine that is as the model has it is found again") {
  const std::vector<Benchmark> all = benchmarks(BenchmarkScale::Cores, kMachine.measured_ranks());
  const std::vector<Measured> measured = measured_on(all);
  const MachineFit fit = fit_machine(all, measured, kMachine);
  CHECK(fit.launch.value() == Approx(kLaunch).epsilon(1e-6));
  CHECK(fit.kernel_rate == Approx(kKernelRate).epsilon(1e-6));
  REQUIRE(fit.slowdown);
  CHECK(*fit.slowdown == Approx(kSlowdown));
  CHECK_FALSE(fit.exchange_slowdown);  // not measured on cores
  CHECK(fit.pairs.pieces.front().cost.alpha.value() == Approx(7e-5).epsilon(1e-6));
  CHECK(fit.pairs.pieces.front().cost.beta.value() == Approx(2e-9).epsilon(1e-6));
  for (const RateFit& f : fit.fits) {
    CAPTURE(f.what);
    CHECK(f.quality.median_error < 0.02);
    CHECK(f.quality.r2 > 0.99);
  }
  SECTION("and its profile is a cluster, because a plan shall be made with it as it is") {
    const Node document = parse_yaml(to_yaml(machine_profile(fit, kMachine)), "profile.yaml");
    const ClusterSpec spec = read_cluster(document);
    CHECK(spec.ranks_per_gpu == 2);
    const Cluster cluster = build_cluster(spec, kRanks);
    CHECK(cluster.gpus() == kCores);
    CHECK(cluster.gpu.slowdown_beside_communication == Approx(kSlowdown));
    CHECK(cluster.gpu.slowdown_beside_computation == 1);
    const double flops = 2.0 * 256 * 512 * 256;
    const Seconds gemm = gemm_time(cluster.gpu, Dtype::Fp32, {256, 512, 256}, 0);
    CHECK(gemm.value() == Approx(kLaunch + flops / kPeak).epsilon(0.02));
    const auto cost = measured_cost(cluster.collectives, Collective::AllToAll, {4, 1}, Bytes(1e6));
    REQUIRE(cost);
    CHECK(cost->alpha.value() == Approx(4e-5).epsilon(0.01));
    CHECK(cost->beta.value() == Approx(1e-9).epsilon(0.01));
  }
  SECTION("and the table says how well") {
    const std::string table = machine_table(fit, measured);
    CHECK(table.find("memory-bound kernels") != std::string::npos);
    CHECK(table.find("products concurrent with an all-to-all take 1.50 times as long") != std::string::npos);
    CHECK(table.find(std::to_string(all.size()) + " measurements: " + std::to_string(all.size()) + " precise") !=
          std::string::npos);
  }
}

TEST_CASE("The slowdown of an all-to-all is that of its part during which products run") {
  const MeasuredMachine gpus{
      .has_gpus = true, .processor = "GPU", .processors = kRanks, .memory = 80e9, .ranks = kRanks};
  const std::vector<Benchmark> all = benchmarks(BenchmarkScale::Gpus, gpus.measured_ranks());
  std::vector<Measured> measured = measured_on(all);
  const MachineFit fit = fit_machine(all, measured, gpus);
  CHECK(fit.exchange_slowdown.value() == Approx(kExchangeSlowdown));  // products outlast the all-to-all
  CHECK(machine_table(fit, measured).find("an all-to-all concurrent with products takes 1.30 times as long") !=
        std::string::npos);

  // An all-to-all of three times the time of the products.
  const auto concurrent = [&](Benchmark::Kind kind) {
    return static_cast<std::size_t>(
        std::find_if(all.begin(), all.end(), [&](const Benchmark& b) { return b.kind == kind; }) - all.begin());
  };
  const std::size_t exchange = concurrent(Benchmark::Kind::ConcurrentExchange);
  const double products = static_cast<double>(sizes_of(BenchmarkScale::Gpus).concurrent_products) *
                          measured[concurrent(Benchmark::Kind::Concurrent)].median;
  const double alone = 3 * products;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].kind == Benchmark::Kind::Collective && all[i].bytes == all[exchange].bytes) measured[i].median = alone;
  }
  const auto found = [&](double time) {
    measured[exchange].median = time;
    return fit_machine(all, measured, gpus).exchange_slowdown.value();
  };
  // In the products' time the factor's inverse of it is done, and the rest at the rate of the all-to-all alone.
  CHECK(found(products + alone - products / kExchangeSlowdown) == Approx(kExchangeSlowdown));
  CHECK(found(0.99 * alone) == 1);               // not faster than alone, whatever was measured
  CHECK(found(products + alone) == Approx(10));  // nothing is done during products
}

TEST_CASE("Without the same all-to-all alone its slowdown is not known") {
  // Three ranks share a GPU, two of which multiply and exchange at once, but collectives are those of all three.
  const MeasuredMachine shared{.has_gpus = true, .processor = "GPU", .memory = 80e9, .ranks = 3};
  const std::vector<Benchmark> all = benchmarks(BenchmarkScale::Gpus, shared.measured_ranks());
  const MachineFit fit = fit_machine(all, measured_on(all), shared);
  CHECK(fit.slowdown);
  CHECK_FALSE(fit.exchange_slowdown);
  CHECK(processor_profile(fit, shared).find("slowdown_beside_computation") == nullptr);
}

TEST_CASE("Benchmarks are the same on every rank and stay inside their buffers") {
  const auto inside = [](const BenchmarkExecution& run, BufferId buffer, const Packed& packed) {
    const BufferShape& shape = run.buffers[buffer.index()];
    return std::all_of(packed.runs.begin(), packed.runs.end(),
                       [&](const Run& r) { return r.first >= 0 && r.first + r.count <= shape.rows * shape.columns; });
  };
  const BenchmarkScale scale = GENERATE(BenchmarkScale::Cores, BenchmarkScale::Gpus);
  for (const MeasuredRanks ranks :
       {MeasuredRanks{1, 1}, {2, 1}, {3, 1}, {4, 1, true}, {8, 1}, {2, 2}, {8, 2}, {6, 3}}) {
    const std::vector<Benchmark> all = benchmarks(scale, ranks);
    const auto sends = [](const Benchmark& b) {
      return b.kind == Benchmark::Kind::Collective || b.kind == Benchmark::Kind::Pair ||
             b.kind == Benchmark::Kind::Concurrent || b.kind == Benchmark::Kind::ConcurrentExchange;
    };
    const auto first = std::find_if(all.begin(), all.end(), sends);
    CHECK((first == all.end()) == (ranks.all == 1));
    if (first != all.end()) CHECK(first->ranks == ranks.all);  // so that all have what any of them needs to send
    for (const Benchmark& b : all) {
      if (b.kind == Benchmark::Kind::Kernel && scale == BenchmarkScale::Gpus) continue;  // large, and of one rank
      CAPTURE(ranks.all, ranks.nodes, b.name, b.bytes);
      const std::vector<RankId> members = b.members();
      CHECK(std::ssize(members) == b.ranks);
      std::set<std::int64_t> machines;
      for (const RankId m : members) machines.insert(m.value() / (ranks.all / ranks.nodes));
      CHECK(std::ssize(machines) == b.nodes);
      std::vector<BenchmarkExecution> runs;
      for (std::int64_t r = 0; r < ranks.all; ++r) runs.push_back(run_of(b, RankId(static_cast<std::size_t>(r))));
      bool fits = true, agrees = true;
      for (std::size_t r = 0; r < runs.size(); ++r) {
        CHECK(runs[r].works.size() == runs[r].steps.size());
        const bool rests = std::find(members.begin(), members.end(), RankId(r)) == members.end();
        CHECK(runs[r].works.empty() == rests);
        for (std::size_t w = 0; w < runs[r].works.size(); ++w) {
          if (const auto* c = std::get_if<CollectiveWork>(&runs[r].works[w])) {
            agrees &= c->members == members && c->members[static_cast<std::size_t>(c->position)] == RankId(r);
          }
          const auto* exchange = std::get_if<ExchangeWork>(&runs[r].works[w]);
          if (exchange == nullptr) continue;
          for (const Transfer& t : exchange->sends) {
            fits &= inside(runs[r], exchange->from, t.data);
            const auto& there = std::get<ExchangeWork>(runs[t.peer.index()].works[w]).receives;
            const auto it =
                std::find_if(there.begin(), there.end(), [&](const Transfer& x) { return x.peer.index() == r; });
            agrees &= it != there.end() && it->data.elements() == t.data.elements();
          }
          for (const Transfer& t : exchange->receives) fits &= inside(runs[r], exchange->to, t.data);
        }
      }
      CHECK(fits);
      CHECK(agrees);
    }
  }
}

TEST_CASE("Products of fp8 are what GPUs have kernels for") {
  std::vector<Benchmark> all = benchmarks(BenchmarkScale::Gpus, {.multiply_fp8 = true});
  for (Benchmark& b : operator_benchmarks(true)) all.push_back(std::move(b));
  std::size_t seen = 0;
  for (const Benchmark& b : all) {
    if (b.dtype != Dtype::Fp8) continue;
    ++seen;
    const BenchmarkExecution run = run_of(b, RankId(0));
    const auto& work = std::get<GemmWork>(run.works.front());
    const GemmShape& s = b.products.front();
    CHECK(work.form == Gemm::Form::NT);
    CHECK(run.buffers[2].dtype == Dtype::Bf16);
    CHECK((s.m % 16 == 0 && s.n % 16 == 0 && s.k % 16 == 0));
    CHECK(b.bytes == static_cast<double>(s.m * s.k + s.k * s.n + 2 * s.m * s.n));
  }
  CHECK(seen == 1 + 36);  // one peak, and 9 weights with 4 numbers of tokens
}

TEST_CASE("A table of operators is one that score reads, of the products that were measured") {
  const std::vector<Benchmark> all = operator_benchmarks(/*multiplies_fp8=*/true);
  std::vector<Measured> measured(all.size());
  for (std::size_t i = 1; i < all.size(); ++i) measured[i].median = 1e-9 * all[i].flops;  // the first has no time
  const TemporaryDirectory dir;
  const auto file = dir.write("t.csv", operator_rows(all, measured, "h200_sxm", "cuBLASLt on a GPU, by trtllm"));
  const std::vector<OperatorRow> rows = read_operator_table(file);
  REQUIRE(rows.size() + 1 == all.size());
  std::set<std::string> kinds;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Benchmark& b = all[i + 1];
    const OperatorRow& row = rows[i];
    CAPTURE(b.name, row.kind, row.phase);
    CHECK(flops_of(row) == b.flops);
    CHECK(row.time.value() == Approx(1e-9 * b.flops).epsilon(1e-3));
    CHECK(row.source.starts_with(b.products.size() > 1   ? "separate products of cuBLASLt"
                                 : b.dtype == Dtype::Fp8 ? "quantised operands of cuBLASLt"
                                                         : "cuBLASLt"));
    if (b.products.size() > 1) CHECK(grouped_shapes(row) == b.products);
    kinds.insert(fmt::format("{} {} {}", row.kind, row.phase, row.format));
    // The operands' dimensions are those of the form.
    const BenchmarkExecution run = run_of(b, RankId(0));
    const auto& work = std::get<GemmWork>(run.works.front());
    const auto groups = std::ssize(b.products);
    const BufferShape &left = run.buffers[0], &right = run.buffers[1], &out = run.buffers[2];
    const GemmShape s = b.products.front();
    CHECK(left.rows * left.columns == groups * s.m * s.k);
    CHECK(right.rows * right.columns == groups * s.k * s.n);
    CHECK(out.rows * out.columns == groups * s.m * s.n);
    CHECK(left.columns == (work.form == Gemm::Form::TN ? s.m : s.k));
    CHECK(right.columns == (work.form == Gemm::Form::NT ? s.k : s.n));
    for (const Product& p : work.products) {
      CHECK(p.a.first + p.a.rows <= left.rows);
      CHECK(p.b.first + p.b.rows <= right.rows);
      CHECK(p.accumulates == (out.dtype == Dtype::Fp32));
    }
  }
  CHECK(kinds.size() == 6 + 1);
  CHECK(kinds.contains("gemm forward fp8"));

  const auto is_fp8 = [](const Benchmark& b) { return b.dtype == Dtype::Fp8; };
  const auto of_weights = static_cast<std::ptrdiff_t>(operator_sizes().weights.size() * operator_sizes().tokens.size());
  CHECK(std::count_if(all.begin(), all.end(), is_fp8) == of_weights);
  const std::vector<Benchmark> without = operator_benchmarks(false);
  CHECK(std::none_of(without.begin(), without.end(), is_fp8));
  CHECK(std::ssize(without) + of_weights == std::ssize(all));

  // Operands of fp8 were in it before: the kernel that quantises, in the figures' times, is not in these.
  const OperatorModels models =
      read_operator_models(load_document(planner::find_config("operators", "h200_sxm").string()));
  const GemmModel* model = find_gemm_model(models, MathFormat::Fp8, "trtllm");
  REQUIRE(model);
  for (const OperatorRow& row : rows) {
    if (row.format != "fp8") continue;
    const GemmShape shape{row.m, row.n, row.k};
    const Prediction p = prediction_of(row, models);
    REQUIRE(p.time);
    CHECK(p.time->value() == gemm_cost(*model, models.num_sms, shape, {.quantises = false}).time().value());
    CHECK(*p.time < gemm_cost(*model, models.num_sms, shape, {}).time());
  }
}

}  // namespace moeplan::tests::machine_profile_test
