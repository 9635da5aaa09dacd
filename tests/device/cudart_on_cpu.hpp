// The calls of the CUDA runtime that the back end makes, by a FakeDevice that stands in for the only GPU.
#pragma once

#include <functional>
#include <memory>

#include "tests/device/fake_device.hpp"

struct CUstream_st;

namespace moeplan::tests {

using namespace runtime;

/// None: memory is the host's, and what is asked for on a stream is done at once.
[[nodiscard]] std::unique_ptr<FakeDevice>& the_gpu();

/// Takes its turn on a stream of the GPU.
void on_stream(CUstream_st* stream, std::function<void()> what);

}  // namespace moeplan::tests
