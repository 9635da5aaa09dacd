// Copies that take the time of messages over links, for ranks that share a GPU.
#include <cuda_runtime.h>

#include "cuda_runtime/cuda/launch_kernel.hpp"

namespace moeplan::runtime {

namespace {

constexpr int kThreads = 512;
constexpr std::int64_t kPiece = 64 << 10;  // bytes. assumed: some microseconds, longer than a port takes to be asked
constexpr int kMostMessages = 64;          // of a launch: its arguments have room for them

/// The messages of a launch, all over ports of one bandwidth.
struct Messages {
  MessageCopy of[kMostMessages];
  int count;
  double ns_per_byte;
};

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

/// Copies with four accesses of each thread in flight, where addresses and size allow.
__device__ void copy_piece(const Lane& team, char* to, const char* from, std::int64_t bytes) {
  constexpr int kInFlight = 4;
  const auto together = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  if (together % sizeof(uint4) != 0 || bytes != kPiece) return kernels::copy_bytes(team, to, from, bytes);
  for (int first = team.lane; first < kPiece / static_cast<int>(sizeof(uint4)); first += kInFlight * team.size) {
    uint4 words[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) words[i] = reinterpret_cast<const uint4*>(from)[first + i * team.size];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) reinterpret_cast<uint4*>(to)[first + i * team.size] = words[i];
  }
}
static_assert(kPiece % (4 * kThreads * sizeof(uint4)) == 0);

/// A block a piece, of each message in turn. Ports serve pieces in the order in which they ask.
__global__ void __launch_bounds__(kThreads) message_copies(const Messages messages) {
  const Lane team{static_cast<int>(threadIdx.x), kThreads};
  std::int64_t longest = 0;
  for (int m = 0; m < messages.count; ++m) longest = max(longest, messages.of[m].bytes);
  for (std::int64_t i = blockIdx.x;; i += gridDim.x) {
    const std::int64_t first = i / messages.count * kPiece;
    if (first >= longest) return;
    const MessageCopy& m = messages.of[i % messages.count];
    if (first >= m.bytes) continue;
    const std::int64_t n = min(m.bytes - first, kPiece);
    unsigned long long end = 0;
    if (threadIdx.x == 0) {
      const auto duration = static_cast<unsigned long long>(messages.ns_per_byte * static_cast<double>(n));
      end = max(taken_until(m.out, duration), taken_until(m.in, duration));
    }
    copy_piece(team, static_cast<char*>(m.to) + first, static_cast<const char*>(m.from) + first, n);
    if (threadIdx.x == 0) {
      while (nanoseconds() < end) __nanosleep(100);
    }
    __syncthreads();
  }
}

}  // namespace

int launch_message_copies(const MessageCopy* messages, int count, double ns_per_byte, CUstream_st* stream) {
  // Measured on parts of an H200: with a block for each 15 GB/s and two more, messages of 16 MiB take 1.00 (10 GB/s) to
  // 1.05 times (100 GB/s) the time of their ports, 1.4 times at 200 GB/s.
  constexpr double kBytesPerNs = 15;
  const auto enough = static_cast<std::int64_t>(1 / (ns_per_byte * kBytesPerNs)) + 2;
  for (int first = 0; first < count; first += kMostMessages) {
    Messages some{{}, min(count - first, kMostMessages), ns_per_byte};
    std::int64_t pieces = 0;
    for (int m = 0; m < some.count; ++m) {
      some.of[m] = messages[first + m];
      pieces += (some.of[m].bytes + kPiece - 1) / kPiece;
    }
    const auto blocks = static_cast<unsigned>(min(enough, pieces));
    message_copies<<<blocks, kThreads, 0, stream>>>(some);
    if (const cudaError_t code = cudaGetLastError(); code != cudaSuccess) return static_cast<int>(code);
  }
  return 0;
}

}  // namespace moeplan::runtime
