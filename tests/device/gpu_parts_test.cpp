// A GPU that a driver divides, for which a library of the tests stands in.
#include "cuda_runtime/device/driver/gpu_parts.hpp"

#include <catch2/catch.hpp>
#include <set>

namespace moeplan::tests::gpu_parts_test {

using namespace moeplan::runtime;

TEST_CASE("A GPU is divided into equal parts of as many multiprocessors as its driver allows") {
  SECTION("rounded down to what makes so many, because the driver rounds up and then makes fewer") {
    CHECK(GpuParts(0, 4, MOEPLAN_FAKE_DRIVER).multiprocessors() == 32);  // of 132, not 33 rounded up to 40
    CHECK(GpuParts(0, 2, MOEPLAN_FAKE_DRIVER).multiprocessors() == 64);
    CHECK(GpuParts(0, 16, MOEPLAN_FAKE_DRIVER).multiprocessors() == 8);
  }
  SECTION("with streams of their own") {
    const GpuParts parts(0, 4, MOEPLAN_FAKE_DRIVER);
    CHECK(parts.problem().empty());
    std::set<CUstream_st*> streams;
    for (std::size_t part = 0; part < 4; ++part) streams.insert(parts.make_stream(part));
    CHECK(streams.size() == 4);
    CHECK_FALSE(streams.contains(nullptr));
  }
}

TEST_CASE("A GPU that is not divided says why") {
  const auto problem = [](int device, std::int64_t parts, const char* driver) {
    const GpuParts all(device, parts, driver);
    CHECK(all.multiprocessors() == 0);
    return all.problem();
  };
  CHECK(problem(0, 4, "libno_such.so") == "there is no libno_such.so");
  CHECK(problem(0, 4, "libm.so.6") == "the driver has no cuDeviceGet: green contexts need CUDA 12.4");
  CHECK(problem(0, 17, MOEPLAN_FAKE_DRIVER) == "132 multiprocessors are not divided into 17 parts by the driver");
  CHECK(problem(1, 4, MOEPLAN_FAKE_DRIVER) == "cuDeviceGet: error 1");
}

}  // namespace moeplan::tests::gpu_parts_test
