// Kernel launches on a GPU. All code that needs nvcc is in the .cu files of this folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_runtime/kernels/kernel_call.hpp"

struct CUstream_st;

namespace moeplan::runtime {

// All launches return the CUDA runtime's error code, 0 on success.

[[nodiscard]] int launch_kernel(const kernels::KernelCall& call, CUstream_st* stream);

/// Words in host memory that the GPU can access.
struct HoldWords {
  std::uint32_t resumed;  // number of the latest hold that was resumed
  std::uint32_t expired;  // number of the latest hold that ended by its limit
};
/// A kernel that ends once hold `number` is resumed, or after its limit.
[[nodiscard]] int launch_hold(HoldWords* words, std::uint32_t number, std::uint64_t limit_ns, CUstream_st* stream);

/// A kernel that reads all of this memory, whose size and address are multiples of 16 bytes.
[[nodiscard]] int launch_read(const void* data, std::size_t bytes, CUstream_st* stream);

/// The ports of a message in device memory: the time, in nanoseconds of the GPU's clock, until which each is taken.
struct MessagePorts {
  unsigned long long *out, *in;  // of the sender and the receiver
  double ns_per_byte;
};
/// A kernel that copies at the rate of the ports, which it shares with concurrent messages. `bytes` is not 0.
[[nodiscard]] int launch_message_copy(void* to, const void* from, std::size_t bytes, const MessagePorts& ports,
                                      CUstream_st* stream);

}  // namespace moeplan::runtime
