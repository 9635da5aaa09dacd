// A CPU implementation of the CUDA runtime calls that the back end makes, for tests: a FakeDevice is the only GPU.
#pragma once

#include <functional>
#include <memory>

#include "tests/device/fake_device.hpp"

struct CUstream_st;

namespace moeplan::tests {

using namespace runtime;

/// The device. If null, device memory is host memory, and work submitted to a stream is executed immediately.
[[nodiscard]] std::unique_ptr<FakeDevice>& the_gpu();

/// Enqueues `what` on a stream of the GPU.
void on_stream(CUstream_st* stream, std::function<void()> what);

}  // namespace moeplan::tests
