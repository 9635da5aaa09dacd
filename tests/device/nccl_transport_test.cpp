// Layers over the NCCL transport, each rank with a device of its own that a CPU stands in for, and a CPU for NCCL.
#include "cuda_runtime/cuda/nccl_transport.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <functional>
#include <thread>

#include "cuda_runtime/device/device_world.hpp"
#include "cuda_runtime/device/forwarding_backend.hpp"
#include "cuda_runtime/launch/sockets.hpp"
#include "cuda_runtime/validate/execute.hpp"
#include "tests/device/fake_device.hpp"
#include "tests/device/library_calls.hpp"
#include "tests/device/nccl_values.hpp"

namespace moeplan::tests::nccl_transport_test {

using namespace moeplan::planner;
using namespace moeplan::profiler;
using namespace moeplan::runtime;
using namespace moeplan::validate;

namespace {

constexpr Seconds kTimeOut(30);

/// A rank's part, over NCCL and on a device; what it says is wrong.
using Part = std::function<std::string(const RankPlace&, tests::FakeDevice&, RankStore&, DeviceTransport&)>;

/// All ranks, a thread each; what is wrong, by rank.
std::vector<std::string> run_ranks(std::int64_t ranks, const std::function<tests::FakeDevice()>& make,
                                   const Part& part) {
  const std::uint16_t port = free_port();
  std::vector<std::string> wrong(static_cast<std::size_t>(ranks));
  std::vector<std::jthread> threads;
  for (std::size_t r = 0; r < wrong.size(); ++r) {
    threads.emplace_back([&, r] {
      const auto rank = static_cast<std::int64_t>(r);
      const RankPlace place{rank, ranks, rank, "127.0.0.1", port};
      tests::FakeDevice device = make();
      const auto store = make_rank_store(place, kTimeOut);
      try {
        const auto transport = make_nccl_transport(device, *store, place, kTimeOut);
        wrong[r] = part(place, device, *store, *transport);
        const auto peers = make_store_peers(*store, place, kTimeOut, "end");
        (void)peers->gather("");
        (void)peers->broadcast("");
      } catch (const std::exception& e) {
        store->give_up(e.what());
        wrong[r] += e.what();
      }
      if (!device.is_clean()) wrong[r] += "something is not given back";
    });
  }
  threads.clear();
  return wrong;
}

RankId id_of(const RankPlace& place) { return RankId(static_cast<std::size_t>(place.rank)); }

}  // namespace

TEST_CASE("Layers over NCCL have the values of the reference") {
  struct Ranks {
    std::int64_t ranks, every;
  };
  const Ranks ranks = GENERATE(Ranks{1, 3}, Ranks{2, 11}, Ranks{4, 29});
  std::atomic<std::int64_t> ways = 0;
  const Part part = [&](const RankPlace& place, tests::FakeDevice& device, RankStore&, DeviceTransport& transport) {
    std::int64_t mine = 0;
    const std::string wrong = tests::wrong_nccl_values(
        place, {.every = ranks.every}, {.time_out = kTimeOut, .slab = 0, .cold_bytes = 256}, device, transport, mine);
    ways += mine;
    return wrong;
  };
  for (const std::string& wrong : run_ranks(
           ranks.ranks, [] { return tests::FakeDevice(3); }, part))
    CHECK(wrong == "");
  CHECK(ways > 30 * ranks.ranks);
}

TEST_CASE("What NCCL says of a failure is told, with its cause") {
  tests::nccl_behaviour() = {.looks = 3, .failure = "Duplicate GPU detected : rank 0 and rank 1 both on CUDA device"};
  const Part part = [](const RankPlace&, tests::FakeDevice& device, RankStore&, DeviceTransport& transport) {
    transport.align(device.make_stream());
    return std::string("not raised");
  };
  const auto wrong = run_ranks(
      1, [] { return tests::FakeDevice(3); }, part);
  tests::nccl_behaviour() = {};
  CHECK_THAT(wrong.front(), Catch::StartsWith("rank 0: a communicator of ranks 0 to 0, 1 of them, on stream -1: an "
                                              "error of NCCL: Duplicate GPU detected : rank 0 and rank 1 both on CUDA "
                                              "device (nccl_transport.cpp:"));
}

TEST_CASE("Calls of NCCL that are in progress are looked at again, for some milliseconds without sleeping") {
  using namespace std::chrono_literals;
  CHECK(pause_after(0us) == 0us);
  CHECK(pause_after(1999us) == 0us);
  CHECK(pause_after(2ms) == 100us);
  tests::nccl_behaviour() = {.looks = 5};
  const Part part = [](const RankPlace&, tests::FakeDevice& device, RankStore&, DeviceTransport& transport) {
    const DeviceStream stream = device.make_stream();
    for (int i = 0; i < 20; ++i) transport.align(stream);
    device.release(stream);
    return std::string();
  };
  const auto begin = std::chrono::steady_clock::now();
  for (const std::string& wrong : run_ranks(
           1, [] { return tests::FakeDevice(3); }, part)) {
    CHECK(wrong == "");
  }
  CHECK(std::chrono::steady_clock::now() - begin < 20s);
  tests::nccl_behaviour() = {};
}

TEST_CASE("A profile over NCCL, of two machines: every communicator has all its ranks") {
  constexpr std::int64_t kRanks = 4;
  const ExecuteJob job{.limits = {}, .cases = {}, .measure = MeasureJob{0, Seconds(0.1), BenchmarkScale::Cores}};
  std::vector<Measured> measured;
  SeenClocks clocks;
  const Part part = [&](const RankPlace& place, tests::FakeDevice& device, RankStore& store,
                        DeviceTransport& transport) {
    const auto peers = make_store_peers(store, place, kTimeOut, "job");
    const RankMachine machine{
        place.rank < 2 ? "a" : "b",
        {"GPU", 2},
        [&](const CodecOptions& codecs) {
          return std::make_unique<ForwardingBackend>(std::make_unique<DeviceWorld>(
              device, transport, std::vector{id_of(place)}, DeviceOptions{.codecs = codecs, .time_out = kTimeOut}));
        },
        [&] {
          const GpuClocks now{1000 + place.rank, 1980, 2619, 2619};
          return SeenClocks{now, now, 1};
        }};
    const Answer all = answer(job, *peers, machine);
    if (place.rank == 0) {
      measured = all.measured;
      clocks = all.clocks;
    }
    return std::string();
  };
  const auto free_of_cost = [] {
    return tests::FakeDevice(tests::FakeCosts{[](const auto&) { return 1e-6; }, [](const auto&) { return 1e-6; },
                                              [](std::size_t) { return 1e-6; }});
  };
  for (const std::string& wrong : run_ranks(kRanks, free_of_cost, part)) CHECK(wrong == "");
  CHECK(measured.size() == benchmarks(BenchmarkScale::Cores, {kRanks, 2}).size());
  CHECK(std::all_of(measured.begin(), measured.end(), [](const Measured& m) { return m.runs > 0; }));
  CHECK(clocks.low.multiprocessors == 1000);
  CHECK(clocks.high.multiprocessors == 1003);
}

}  // namespace moeplan::tests::nccl_transport_test
