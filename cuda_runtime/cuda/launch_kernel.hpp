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

/// A message between ranks that share a GPU, of at least one byte, and the ports of sender and receiver in device
/// memory: for each the time, in nanoseconds of the GPU's clock, until which it is taken.
struct MessageCopy {
  void* to;
  const void* from;
  std::int64_t bytes;
  unsigned long long *out, *in;
};
/// Kernels that copy messages at the rate of their ports, which other messages share.
[[nodiscard]] int launch_message_copies(const MessageCopy* messages, int count, double ns_per_byte,
                                        CUstream_st* stream);

}  // namespace moeplan::runtime
