// moeplan profile on ranks that share a device, on one that only keeps time: the figures that its costs were made of
// come out.
#include <catch2/catch.hpp>

#include "cuda_runtime/device/loopback_session.hpp"
#include "cuda_runtime/measure/machine_profile.hpp"
#include "cuda_runtime/validate/execute.hpp"
#include "model/costs/codec.hpp"
#include "model/costs/compute.hpp"
#include "model/costs/measured_cost.hpp"
#include "model/program/resolve.hpp"
#include "planner/request/plan_request.hpp"
#include "tests/device/fake_device.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::profile_on_device_test {

using namespace moeplan::planner;
using namespace moeplan::profiler;
using namespace moeplan::runtime;
using namespace moeplan::validate;

namespace {

constexpr double kLaunch = 3e-6, kCopyCall = 2e-6;  // seconds of a kernel, and of a copy, of nothing
constexpr double kMemory = 2.5e12;                  // bytes a second, read or written
constexpr double kCodec = 1e12;                     // bytes of plain rows a second
constexpr double kSlowdown = 1.25;                  // of an exchange while products run

double rate(Dtype dtype) {
  switch (dtype) {
    case Dtype::Fp8: return 1400e12;
    case Dtype::Bf16: return 700e12;
    case Dtype::Fp16: return 650e12;
    case Dtype::Tf32: return 350e12;
    default: return 50e12;
  }
}

double bytes_of(const kernels::CopyRows& k) { return static_cast<double>(2 * k.items * k.out.view.row_bytes()); }
double bytes_of(const kernels::Activation& k) {
  return static_cast<double>(k.items * (k.up.view.row_bytes() + k.activated.view.row_bytes()));
}
double bytes_of(const kernels::ActivationBackward& k) {
  return static_cast<double>(k.items * (k.d_activated.view.row_bytes() + 2 * k.up.view.row_bytes()));
}
double bytes_of(const kernels::SumRows& k) { return static_cast<double>(3 * k.items * k.out.view.row_bytes()); }
double bytes_of(const kernels::DecodeBackward& k) { return static_cast<double>(3 * k.items * k.d_out.row_bytes()); }
double bytes_of_pieces(const kernels::Piece* pieces, std::int64_t count, std::int64_t element) {
  double elements = 0;
  for (std::int64_t i = 0; i < count; ++i) elements += static_cast<double>(pieces[i].count);
  return elements * static_cast<double>(element);
}
double bytes_of(const kernels::MovePieces& k) { return 2 * bytes_of_pieces(k.pieces, k.items, k.element_bytes); }
double bytes_of(const kernels::AddPieces& k) {
  return 3 * bytes_of_pieces(k.pieces, k.items, kernels::size_of(k.format));
}
template <class Codec>
requires requires(const Codec& k) { k.plain; }
double bytes_of(const Codec& k) {  // as much time as kCodec makes of them
  return static_cast<double>(k.items * k.plain.view.row_bytes()) * kMemory / kCodec;
}
double bytes_of(const kernels::Fp8BlockCodec& k) {
  const std::int64_t rows = k.items / kernels::Fp8BlockCodec::items_of(1, k.plain.view.columns);
  return static_cast<double>(rows * k.plain.view.row_bytes()) * kMemory / kCodec;
}
template <class Other>
double bytes_of(const Other&) {
  throw std::logic_error("a kernel that no benchmark has");
}

/// What commands take on the made device.
tests::FakeCosts costs() {
  return {.kernel =
              [](const kernels::KernelCall& call) {
                return std::visit([](const auto& k) { return kLaunch + bytes_of(k) / kMemory; }, call);
              },
          .products =
              [](const Products& all) {
                double flops = 0;
                for (const MatrixProduct& p : all.products) flops += 2.0 * static_cast<double>(p.m * p.n * p.k);
                return kLaunch + flops / rate(all.dtype);
              },
          .copy = [](std::size_t bytes) { return kCopyCall + 2 * static_cast<double>(bytes) / kMemory; },
          .slowdown = kSlowdown};
}

/// As the worker of GPUs runs it, with a GPU whose clock rises from look to look. `fp8`: how many ranks say that theirs
/// multiplies in it.
Answer profiled(std::int64_t ranks, bool captures, std::int64_t fp8, std::optional<BytesPerSecond> link = {}) {
  tests::FakeDevice device(costs());
  Answer out;
  {
    LoadClocks clocks([clock = std::int64_t{1500}]() mutable { return GpuClocks{++clock, 1980, 2619, 2619}; });
    LoopbackSession session(device, ranks,
                            {.captures = captures, .cold_bytes = 1 << 20, .link = link, .clocks = &clocks});
    const ExecuteJob job{.limits = {}, .cases = {}, .measure = MeasureJob{ranks, Seconds(200), BenchmarkScale::Gpus}};
    session.run([&](Peers& peers) {
      RankMachine machine{"machine",
                          {"GPU of a test", link ? ranks : 1, 80e9, 132, peers.rank().value() < fp8},
                          [&](const CodecOptions& codecs) { return session.make_backend(peers.rank(), codecs); }};
      if (peers.rank().value() == 0) machine.clocks = [&] { return clocks.seen(); };
      const Answer mine = answer(job, peers, machine);
      if (peers.rank().value() == 0) out = mine;
    });
  }
  CHECK(device.is_clean());
  return read_answer(answer_text(out));
}

MeasuredMachine machine_of(const Answer& a) {
  return {.has_gpus = true,
          .processor = a.processor.name,
          .processors = a.processor.count,
          .memory = a.processor.memory,
          .multiprocessors = a.processor.multiprocessors,
          .ranks = std::ssize(a.hosts),
          .nodes = machines_of(a.hosts),
          .clocks = a.clocks.text(),
          .multiplies_fp8 = a.processor.multiplies_fp8};
}

}  // namespace

TEST_CASE("Profiling a GPU finds the rates that it has") {
  struct Way {
    std::int64_t ranks;
    bool captures;
    std::int64_t fp8;  // ranks whose GPU multiplies in it
  };
  const Way way = GENERATE(Way{1, false, 1}, Way{2, true, 1}, Way{4, false, 4});
  CAPTURE(way.ranks, way.captures);
  const Answer a = profiled(way.ranks, way.captures, way.fp8);
  const MeasuredMachine machine = machine_of(a);
  const std::vector<Benchmark> all = benchmarks(BenchmarkScale::Gpus, machine.measured_ranks());
  REQUIRE(a.measured.size() == all.size());
  // The budget is wall time, so that a busy machine may stop a measurement before it is precise.
  for (const Measured& m : a.measured) CHECK((m.stopped_by == "precise" || m.stopped_by == "budget"));
  CHECK(a.clocks.looks > 0);
  CHECK(a.clocks.low.multiprocessors > 1500);
  const MachineFit fit = fit_machine(all, a.measured, machine);
  // One of the five kinds of kernels, decode's gradient, is two launches.
  CHECK(fit.launch.value() == Approx(kLaunch * 6 / 5).epsilon(0.01));
  CHECK(fit.kernel_rate == Approx(kMemory).epsilon(0.01));
  CHECK(fit.copy_rate == Approx(kMemory).epsilon(0.01));
  for (const Dtype dtype : {Dtype::Bf16, Dtype::Fp16, Dtype::Tf32, Dtype::Fp32}) {
    CHECK(fit.peaks.at(dtype) == Approx(rate(dtype)).epsilon(0.005));
  }
  CHECK(fit.peaks.contains(Dtype::Fp8) == (way.fp8 == way.ranks));  // measured if all can
  if (way.fp8 == way.ranks) CHECK(fit.peaks.at(Dtype::Fp8) == Approx(rate(Dtype::Fp8)).epsilon(0.005));
  CHECK(fit.sustained == Approx(rate(Dtype::Bf16)).epsilon(0.005));  // the made device does not get warm
  CHECK(fit.codecs.size() == codecs().size());
  for (const auto& [name, codec] : fit.codecs) CHECK(codec == Approx(kCodec).epsilon(0.02));
  CHECK(fit.slowdown.has_value() == (way.ranks > 1));
  REQUIRE(fit.exchange_slowdown.has_value() == (way.ranks > 1));
  if (way.ranks > 1) CHECK(*fit.exchange_slowdown == Approx(kSlowdown).epsilon(0.005));

  // The cost model gives the times again, of one product and of several at once.
  const Node document = parse_yaml(to_yaml(machine_profile(fit, machine)), "profile.yaml");
  const ClusterSpec spec = read_cluster(document);
  const Cluster cluster = build_cluster(spec, way.ranks);
  CHECK(spec.ranks_per_gpu == way.ranks);
  CHECK(cluster.gpus() == 1);
  CHECK(cluster.gpu.memory.value() == 80e9);
  CHECK(cluster.gpu.num_sms == 132);
  CHECK(cluster.gpu.slowdown_beside_computation == Approx(way.ranks > 1 ? kSlowdown : 1).epsilon(0.005));
  const std::int64_t bytes = 2 * (1024 * 2048 + 2048 * 4096 + 1024 * 4096);
  const double flops = 2.0 * 1024 * 4096 * 2048;
  CHECK(gemm_time(cluster.gpu, Dtype::Bf16, {1024, 4096, 2048}, bytes).value() ==
        Approx(kLaunch + flops / rate(Dtype::Bf16)).epsilon(0.05));
  const std::vector<GemmShape> several(8, {1024, 4096, 2048});
  CHECK(grouped_gemm_time(cluster.gpu, Dtype::Bf16, several, 8 * bytes).value() ==
        Approx(kLaunch + 8 * flops / rate(Dtype::Bf16)).epsilon(0.05));

  // So do the copies that ranks' exchanges are made of: a rank's own part is a kernel, each of the others' a copy.
  if (way.ranks == 1) {
    CHECK(cluster.collectives.empty());
  } else {
    const auto p = static_cast<double>(way.ranks);
    const auto cost = [&](Collective c) { return *measured_cost(cluster.collectives, c, {way.ranks, 1}, Bytes(1e6)); };
    CHECK(cost(Collective::AllToAll).alpha.value() == Approx(kLaunch + (p - 1) * kCopyCall).epsilon(0.01));
    CHECK(cost(Collective::AllToAll).beta.value() == Approx(2 / kMemory).epsilon(0.01));
    CHECK(cost(Collective::AllGather).alpha.value() == Approx(p * kCopyCall).epsilon(0.01));
    CHECK(cost(Collective::SendReceive).beta.value() == Approx(2 / kMemory).epsilon(0.01));
    // Both at once take as long as the longer one: streams of the made device do not slow each other down.
    CHECK(fit.pairs.pieces.front().cost.beta.value() == Approx(2 / kMemory).epsilon(0.01));
  }

  // The file of the GPU alone says at which clocks it was.
  const Node gpu = parse_yaml(to_yaml(processor_profile(fit, machine)), "gpu.yaml");
  Diagnostics wrong;
  CHECK(read_gpu(MapReader(gpu, "", wrong)).name == "GPU of a test");
  wrong.throw_if_any();
  CHECK(gpu.find("origins")->find("")->scalar.find("of at most 1980 MHz") != std::string::npos);
  CHECK(gpu.find("origins")->find("peak")->scalar ==
        "measured: single products, at the clocks of short bursts; 200 products in a row run at 6.987e+14 FLOP/s");
}

TEST_CASE("Profiling parts of a GPU finds the bandwidth of the links that join them") {
  constexpr double kLink = 50e9;
  const Answer a = profiled(4, false, 0, BytesPerSecond(kLink));
  const MeasuredMachine machine = machine_of(a);
  const MachineFit fit = fit_machine(benchmarks(BenchmarkScale::Gpus, machine.measured_ranks()), a.measured, machine);
  const ClusterSpec spec = read_cluster(parse_yaml(to_yaml(machine_profile(fit, machine)), "profile.yaml"));
  const Cluster cluster = build_cluster(spec, 4);
  CHECK(spec.ranks_per_gpu == 1);
  CHECK(cluster.gpus() == 4);  // each part is one
  CHECK(cluster.gpu.slowdown_beside_computation == Approx(kSlowdown).epsilon(0.005));
  const auto beta = [&](Collective c) {
    return measured_cost(cluster.collectives, c, {4, 1}, Bytes(1e6))->beta.value();
  };
  CHECK(beta(Collective::SendReceive) == Approx(1 / kLink).epsilon(0.01));
  // Three quarters of the data cross the links; the rank's own quarter is copied, and a reduce-scatter adds what
  // arrives, at the speed of memory.
  for (const Collective c : {Collective::AllToAll, Collective::AllGather, Collective::ReduceScatter}) {
    CAPTURE(static_cast<int>(c));
    CHECK(beta(c) * kLink > 0.74);
    CHECK(beta(c) * kLink < 0.76 + 10 / kMemory * kLink);
  }
}

TEST_CASE("Machines of a profile have as many ranks each") {
  CHECK(machines_of({"a"}) == 1);
  CHECK(machines_of({"a", "a", "b", "b", "c", "c"}) == 3);
  for (const std::vector<std::string>& hosts : {std::vector<std::string>{"a", "b", "b"}, {"a", "b", "a", "b"}}) {
    CHECK(tests::error_of([&] { (void)machines_of(hosts); }) ==
          "profile: needs as many ranks on each machine, one after the other");
  }
}

namespace {

constexpr double kInside = 300e9, kBetween = 40e9;  // bytes a second of collectives in a machine, and between machines

/// The profile, as a file, of machines whose times are these rates'.
std::string profile_of(const MeasuredMachine& machine) {
  const std::vector<Benchmark> all = benchmarks(BenchmarkScale::Gpus, machine.measured_ranks());
  std::vector<Measured> measured;
  for (const Benchmark& b : all) {
    double time = kLaunch + b.bytes / kMemory;
    if (b.flops > 0) time = kLaunch + b.flops / rate(b.dtype);
    if (b.kind == Benchmark::Kind::Collective) time = 20e-6 + b.bytes / (b.nodes > 1 ? kBetween : kInside);
    measured.push_back({time, time, time, 8, "precise"});
  }
  return to_yaml(machine_profile(fit_machine(all, measured, machine), machine));
}

}  // namespace

TEST_CASE("A profile with a peak in fp8 prices plans whose products are in fp8") {
  MeasuredMachine machine{
      .has_gpus = true, .processor = "GPU", .processors = 4, .memory = 80e9, .multiprocessors = 132, .ranks = 4};
  const tests::TemporaryDirectory dir;
  const auto job = [&](const std::string& precision) {
    const auto file = dir.write("p.yaml", profile_of(machine));
    return load_job({.cluster = file.string(), .model = "gpt2_moe", .precision = precision, .tp = 1, .ep = 4, .pp = 1});
  };
  CHECK_THAT(tests::error_of([&] { (void)job("fp8_current"); }),
             Catch::EndsWith("GPU has no measured products in fp8_current"));
  machine.multiplies_fp8 = true;
  const PlanJob eight = job("fp8_current");
  CHECK(eight.cluster.gpu.peak.at(Dtype::Fp8).value() == Approx(rate(Dtype::Fp8)).epsilon(0.01));
  const PlanAnswer found = planner::answer(eight, 1);
  REQUIRE(!found.predictions.empty());
  const Program& program = found.predictions.front().program;
  double fastest = 0;  // product in fp8, in FLOP/s
  for (const Block& block : program.blocks) {
    for (const Operation& o : block.operations) {
      const auto* gemm = std::get_if<Gemm>(&o.work);
      if (gemm == nullptr || gemm->format != MathFormat::Fp8) continue;
      const Seconds math = compute_parts(program, o, RankId(0), eight.cluster.gpu).math;
      fastest = std::max(fastest, compute_load(program, o, RankId(0)).flops / math.value());
    }
  }
  // Whole waves of tiles leave the largest ones less than the peak, but more than bf16 has.
  CHECK(fastest > rate(Dtype::Bf16));
  CHECK(fastest < 1.001 * rate(Dtype::Fp8));
}

TEST_CASE("A profile of several machines is a cluster of them") {
  constexpr std::int64_t kRanks = 8, kNodes = 2;
  const MeasuredMachine machine{.has_gpus = true,
                                .processor = "GPU",
                                .processors = 4,
                                .memory = 80e9,
                                .multiprocessors = 132,
                                .ranks = kRanks,
                                .nodes = kNodes,
                                .clocks = "not known"};
  const Cluster cluster = build_cluster(read_cluster(parse_yaml(profile_of(machine), "p.yaml")), kRanks);
  CHECK(cluster.gpus() == kRanks);
  CHECK(cluster.ranks_per_node() == kRanks / kNodes);
  const auto beta = [&](GroupShape shape) {
    return measured_cost(cluster.collectives, Collective::AllGather, shape, Bytes(1e7))->beta.value();
  };
  CHECK(beta({4, 1}) == Approx(1 / kInside).epsilon(0.01));
  CHECK(beta({8, 2}) == Approx(1 / kBetween).epsilon(0.01));
  CHECK(beta({2, 2}) == Approx(1 / kBetween).epsilon(0.01));
}

}  // namespace moeplan::tests::profile_on_device_test
