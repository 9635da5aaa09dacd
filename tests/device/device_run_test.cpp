// What a run asks of a device: when, how often, and what remains if it fails.
#include "cuda_runtime/device/device_run.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/device/two_ranks.hpp"

namespace moeplan::tests::device_run_test {

using namespace moeplan::runtime;
using namespace moeplan::tests::two_ranks;

TEST_CASE("Before each run the cache is filled with what no rank asks for, outside of the graph") {
  const bool captures = GENERATE(false, true);
  FakeDevice device(2);
  const std::string error =
      error_of(device, {.captures = captures, .slab = 0, .cold_bytes = 4096}, [](RankId rank, Backend& backend) {
        prepare(rank, backend);
        backend.write_row(BufferId(0), 0, std::vector<double>(8, 1.0));
        for (int i = 0; i < 3; ++i) run(backend);
        if (backend.read_row(BufferId(1), 0) != std::vector<double>(8, 2.0)) throw std::logic_error("not added");
      });
  CHECK(error.empty());
  CHECK(device.calls("read") == 3);   // not written: what is written would have to be written back during the run
  CHECK(device.calls("clear") == 2);  // each rank's buffer that the host has not written to
  CHECK(device.is_clean());
}

namespace {

/// Three runs of two ranks; each must have the values of its own.
std::string error_of_three(FakeDevice& device, const DeviceOptions& options) {
  return error_of(device, options, [](RankId rank, Backend& backend) {
    prepare(rank, backend);
    for (int i = 0; i < 3; ++i) {
      backend.write_row(BufferId(0), 0, std::vector<double>(8, i + rank.value()));
      run(backend);
      if (backend.read_row(BufferId(1), 0) != std::vector<double>(8, 2 * i + 1)) throw std::logic_error("not added");
    }
  });
}

/// The calls from the last hold to the end of its run.
std::vector<std::string> last_run_of(const FakeDevice& device) {
  const auto& log = device.log();
  const auto hold = std::find(log.rbegin(), log.rend(), "hold").base() - 1;
  return {hold, std::find(hold, log.end(), "copy_out")};
}

std::ptrdiff_t count_of(const std::vector<std::string>& calls, const std::string& name) {
  return std::count(calls.begin(), calls.end(), name);
}

}  // namespace

TEST_CASE("A run is held until all of it is asked for, so that its times are the device's and not the host's") {
  const bool captures = GENERATE(false, true);
  FakeDevice device(2);
  CHECK(error_of_three(device, {.captures = captures, .slab = 0, .cold_bytes = 4096}) == "");
  CHECK(device.calls("hold") == 2);  // not the first: it loads kernels, for which the host may wait
  const std::vector<std::string> calls = last_run_of(device);
  const auto resume = std::find(calls.begin(), calls.end(), "resume");
  REQUIRE(resume != calls.end());
  CHECK(std::all_of(resume + 1, calls.end(), [](const auto& call) { return call == "is_over"; }));
  CHECK(std::count(calls.begin(), resume, "is_over") == 0);
  CHECK(count_of(calls, "launch graph") == (captures ? 1 : 0));
  CHECK(count_of(calls, "read") == 0);  // the cache is cold before
}

TEST_CASE("A run has no more events than its times and its order need") {
  FakeDevice device(3);
  CHECK(error_of_three(device, {.slab = 0}) == "");
  const std::vector<std::string> calls = last_run_of(device);
  // Each rank: four ends, and the starts of the two operations that wait for another stream; begin and end of the run;
  // of the loopback transport: ready and done of the exchange and of the sum, and that it is added up.
  CHECK(count_of(calls, "record") == 2 * (4 + 2) + 2 + 2 * (2 + 3));
  // Each rank: three streams wait for the begin, which waits for them at the end; two operations for one before; of the
  // loopback transport: the other rank's ready and done, twice, and that it has added up.
  CHECK(count_of(calls, "wait") == 2 * (3 + 3 + 2) + 2 * (2 * 2 + 1));
}

TEST_CASE("Communication is on streams whose kernels go first") {
  FakeDevice device(4);
  CHECK(error_of_three(device, {.slab = 0, .link = BytesPerSecond(1e9)}) == "");
  CHECK(device.calls("make an urgent stream") == 2 * 2);  // of each rank, the exchange's and the sum's
  CHECK(device.calls("make_stream") > device.calls("make an urgent stream"));
}

TEST_CASE("Where a device's queues are full before a run is asked for, later runs are one graph") {
  FakeDevice device(3);
  device.expire_holds();
  CHECK(error_of_three(device, {.slab = 0}) == "");
  CHECK(device.calls("hold") == 2);
  CHECK(device.calls("launch graph") == 1);  // the first is not held, the second was not held for long enough
  CHECK(device.is_clean());
}

TEST_CASE("A failure within a capture ends the capture") {
  FakeDevice device(3);
  device.fail("launch", 2 * 3);  // the first run: of each rank two copies of rows, and a sum
  CHECK(error_of_three(device, {.captures = true, .slab = 0}) == "launch: made to fail");
  CHECK(device.calls("begin_capture") == 1);
  CHECK(device.calls("end_capture") == 0);
  CHECK(device.is_clean());  // also: no capture is under way
}

TEST_CASE("An exchange packs and unpacks the rows of all its peers in one launch each") {
  const DeviceOptions options{.slab = 0};
  FakeDevice device(3);
  {
    const std::vector<RankId> ranks{RankId(0), RankId(1), RankId(2)};
    LoopbackTransport transport(device, 0);
    DeviceWorld world(device, transport, ranks, options);
    world.run([](RankId rank, Backend& backend) {
      // Two rows apart from each other for each peer, of rows 0 to 5; they arrive in rows 0 to 5 of the other buffer.
      const BufferId from(0), to(1);
      backend.allocate(std::vector<BufferShape>{{6, 8, Dtype::Bf16}, {6, 8, Dtype::Bf16}});
      const auto rows = [](std::int64_t peer) { return Packed{{{8 * peer, 8}, {8 * (peer + 3), 8}}}; };
      ExchangeWork work{from, to, {}, {}, rows(rank.value()), rows(rank.value()), false, {}, 1};
      for (std::int32_t peer = 0; peer < 3; ++peer) {
        if (peer == rank.value()) continue;
        work.sends.push_back({RankId(peer), rows(peer)});
        work.receives.push_back({RankId(peer), rows(peer)});
      }
      backend.prepare(work, "exchange");
      for (std::int64_t r = 0; r < 6; ++r) {
        backend.write_row(from, r, std::vector<double>(8, static_cast<double>(10 * r + rank.value())));
      }
      backend.begin();
      backend.enqueue(0, Stream::Inter, {});
      (void)backend.finish();
      for (std::int64_t r = 0; r < 6; ++r) {  // row r comes from rank r % 3, where it was row `rank` or `rank` + 3
        const double expected = 10.0 * (rank.value() + (r < 3 ? 0 : 3)) + static_cast<double>(r % 3);
        if (backend.read_row(to, r) != std::vector<double>(8, expected)) throw std::logic_error("not exchanged");
      }
    });
  }
  CHECK(device.calls("launch") == 3 * 3);  // each rank packs, keeps its own part, unpacks
  CHECK(device.calls("copy") == 3 * 2);
  CHECK(device.is_clean());
}

}  // namespace moeplan::tests::device_run_test
