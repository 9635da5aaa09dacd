// A GPU through the CUDA runtime, whose calls a CPU stands in for.
#include "cuda_runtime/cuda/cuda_device.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "cuda_runtime/cuda/environment.hpp"
#include "tests/device/cudart_on_cpu.hpp"
#include "tests/device/library_calls.hpp"
#include "tests/device/loopback_values.hpp"

namespace moeplan::tests::cuda_device_test {

using namespace moeplan::planner;
using namespace moeplan::runtime;

namespace {

/// Which goes after each test.
struct OneGpu {
  explicit OneGpu(std::uint64_t seed) { tests::the_gpu() = std::make_unique<tests::FakeDevice>(seed); }
  ~OneGpu() { tests::the_gpu().reset(); }
  OneGpu(const OneGpu&) = delete;
  OneGpu& operator=(const OneGpu&) = delete;
};

}  // namespace

TEST_CASE("Layers by the calls of the CUDA runtime and cuBLAS have the values of the reference") {
  const bool captures = GENERATE(false, true);
  const std::int64_t ranks = GENERATE(1, 2);
  bool are_clean = true;
  auto& calls = tests::library_calls();
  calls.clear();
  {
    const OneGpu first(0);
    const std::int64_t wrong = tests::wrong_loopback_values(
        {.ranks = ranks, .every = 17, .times = 3}, {.captures = captures, .slab = 0, .cold_bytes = 1 << 12},
        [&](std::uint64_t seed) {
          are_clean &= tests::the_gpu()->is_clean();
          tests::the_gpu() = std::make_unique<tests::FakeDevice>(seed);
          return make_cuda_device(0, RankId(0));
        },
        [](const Device&) { return ""; });
    CHECK(wrong == 0);
    CHECK((are_clean && tests::the_gpu()->is_clean()));
    CHECK((tests::the_gpu()->calls("launch graph") > 0) == captures);
  }
  CHECK(calls["cublasLtMatmul"] > 0);
  CHECK(calls["cublasGemmGroupedBatchedEx"] == 0);
}

TEST_CASE("Streams and events that are given back are used again, with a stream's workspace") {
  const OneGpu gpu(1);
  const auto device = make_cuda_device(0, RankId(0));
  const DeviceStream stream = device->make_stream();
  const DeviceEvent timed = device->make_event(true), plain = device->make_event(false);
  device->release(stream);
  device->release(timed);
  device->release(plain);
  CHECK(device->make_event(false) == plain);
  CHECK(device->make_event(true) == timed);
  CHECK(device->make_event(true) != timed);
  CHECK(device->make_stream() == stream);
  CHECK(device->make_stream() != stream);
}

TEST_CASE("CUDA and NCCL get the environment that times need, except for what a user has set") {
  ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  ::setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  prepare_cuda_environment();
  CHECK(std::string(std::getenv("CUDA_DEVICE_MAX_CONNECTIONS")) == "32");
  CHECK(std::string(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT")) == "0");
  ::unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
  ::unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT");
}

TEST_CASE("A hold lasts until it is resumed, or until its limit") {
  const OneGpu gpu(1);
  const auto device = make_cuda_device(0, RankId(0));
  const DeviceStream stream = device->make_stream();
  const DeviceEvent event = device->make_event(false);
  const auto hold = [&] {
    device->hold(stream, Seconds(0.1));
    device->record(event, stream);
  };
  hold();
  device->resume();
  CHECK(device->is_over(event));
  CHECK_FALSE(device->has_expired());
  tests::the_gpu()->expire_holds();
  hold();
  CHECK(device->is_over(event));
  CHECK(device->has_expired());
  device->resume();
  device->release(event);
  device->release(stream);
}

TEST_CASE("What fails on a GPU is told by its call, the error and the rank") {
  const OneGpu gpu(1);
  const auto device = make_cuda_device(0, RankId(3));
  CHECK_THROWS_WITH(device->allocate(std::size_t{1} << 40U),
                    Catch::StartsWith("rank 3: cudaMalloc of 1099511627776 bytes: cudaErrorMemoryAllocation: of CUDA "
                                      "(cuda_device.cpp:"));
}

TEST_CASE("The GPUs that a process sees are listed with what a profile needs of them") {
  CHECK(visible_gpus().gpus.empty());
  CHECK(visible_gpus().problem == "an error: of CUDA");
  const OneGpu gpu(1);
  const VisibleGpus seen = visible_gpus();
  REQUIRE(seen.gpus.size() == 1);
  CHECK(seen.gpus.front().name == "a CPU");
  CHECK(seen.gpus.front().cache_bytes == 1 << 20);
  CHECK(seen.gpus.front().bus == "0000:17:00.0");
}

TEST_CASE("GPUs multiply in fp8 from compute capability 8.9 on") {
  const auto multiplies = [](int major, int minor) {
    return GpuFacts{.name = "GPU", .major = major, .minor = minor}.multiplies_fp8();
  };
  CHECK_FALSE(multiplies(7, 9));
  CHECK_FALSE(multiplies(8, 0));
  CHECK_FALSE(multiplies(8, 6));
  CHECK(multiplies(8, 9));
  CHECK(multiplies(9, 0));
  CHECK(multiplies(10, 3));
}

}  // namespace moeplan::tests::cuda_device_test
