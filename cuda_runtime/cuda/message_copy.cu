// Copies that take the time of messages over a link, for ranks that share a GPU.
#include <cuda_runtime.h>

#include "cuda_runtime/cuda/launch_kernel.hpp"

namespace moeplan::runtime {

namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kPiece = 64 << 10;  // bytes. assumed: a microsecond or so, the resolution of the GPU's clock

struct Lane {
  int lane, size;
};

__device__ unsigned long long nanoseconds() {
  unsigned long long out;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(out));
  return out;
}

/// Takes a port for this long, once it is free. Returns the time at which it is free again.
__device__ unsigned long long taken_until(unsigned long long* port, unsigned long long duration) {
  unsigned long long known = *reinterpret_cast<volatile unsigned long long*>(port), seen, end;
  do {
    seen = known;
    const unsigned long long now = nanoseconds();
    end = (seen > now ? seen : now) + duration;
    known = atomicCAS(port, seen, end);
  } while (known != seen);
  return end;
}

/// A block a piece. The ports serve pieces of concurrent messages in the order in which they ask.
__global__ void __launch_bounds__(kThreads)
    message_copy(char* to, const char* from, std::int64_t bytes, MessagePorts p) {
  const Lane team{static_cast<int>(threadIdx.x), kThreads};
  for (std::int64_t first = blockIdx.x * kPiece; first < bytes; first += gridDim.x * kPiece) {
    const std::int64_t n = bytes - first < kPiece ? bytes - first : kPiece;
    unsigned long long end = 0;
    if (threadIdx.x == 0) {
      const auto duration = static_cast<unsigned long long>(p.ns_per_byte * static_cast<double>(n));
      const unsigned long long out = taken_until(p.out, duration), in = taken_until(p.in, duration);
      end = out > in ? out : in;
    }
    kernels::copy_bytes(team, to + first, from + first, n);
    if (threadIdx.x == 0) {
      while (nanoseconds() < end) __nanosleep(100);
    }
    __syncthreads();
  }
}

}  // namespace

int launch_message_copy(void* to, const void* from, std::size_t bytes, const MessagePorts& ports, CUstream_st* stream) {
  // assumed: a block copies 40 GB/s at least, so that ports, not blocks, limit the bandwidth.
  constexpr double kBytesPerNs = 40;
  const auto enough = static_cast<std::int64_t>(1 / (ports.ns_per_byte * kBytesPerNs)) + 1;
  const std::int64_t pieces = (static_cast<std::int64_t>(bytes) + kPiece - 1) / kPiece;
  const auto blocks = static_cast<unsigned>(enough < pieces ? enough : pieces);
  message_copy<<<blocks, kThreads, 0, stream>>>(static_cast<char*>(to), static_cast<const char*>(from),
                                                static_cast<std::int64_t>(bytes), ports);
  return static_cast<int>(cudaGetLastError());
}

}  // namespace moeplan::runtime
