#include "cuda_runtime/device/driver/gpu_clocks.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::gpu_clocks_test {

using namespace moeplan::runtime;

TEST_CASE("A GPU's clocks are read from the management library where there is one") {
  const ClockReader reader("0000:17:00.0", MOEPLAN_FAKE_NVML);
  const GpuClocks first{1500, 1980, 2619, 2619}, second{1515, 1980, 2619, 2619};
  CHECK(reader.read() == first);
  SeenClocks seen;
  CHECK(seen.text() == "not known");
  seen.add(first);
  CHECK(seen.text() == "multiprocessors at 1500 of at most 1980 MHz, memory at 2619 of at most 2619 MHz");
  CHECK(reader.read() == second);
  seen.add(second);
  SeenClocks others{{1200, 1755, 2619, 2619}, {1400, 1755, 2619, 2619}, 3};
  others.add(SeenClocks{});  // a rank that could not read any
  seen.add(others);
  CHECK(seen.looks == 5);
  CHECK(seen.text() == "multiprocessors at 1200 to 1515 of at most 1980 MHz, memory at 2619 of at most 2619 MHz");
  SECTION("and not known of another GPU, or without it") {
    CHECK_FALSE(ClockReader("0000:99:00.0", MOEPLAN_FAKE_NVML).read());
    CHECK_FALSE(ClockReader("0000:17:00.0", "libnothing-of-the-kind.so.1").read());
  }
}

TEST_CASE("Clocks count if the device still executes after they were read: one that rests has others") {
  std::int64_t clock = 1000;
  LoadClocks clocks([&] { return GpuClocks{++clock, 1980, 2619, 2619}; });
  clocks.look([] { return false; });
  CHECK(clocks.seen().looks == 0);
  clocks.look([] { return true; });
  CHECK(clocks.seen().looks == 1);
  CHECK(clocks.seen().low.multiprocessors == 1002);
}

}  // namespace moeplan::tests::gpu_clocks_test
