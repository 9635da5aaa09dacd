#include "cuda_runtime/cuda/stream_hold.hpp"

#include <cuda_runtime_api.h>

#include <atomic>

#include "cuda_runtime/cuda/check.hpp"

namespace moeplan::runtime {

StreamHold::StreamHold(RankId rank) : rank_(rank) {
  void* memory = nullptr;
  check_cuda(cudaHostAlloc(&memory, sizeof(HoldWords), cudaHostAllocMapped), rank, "cudaHostAlloc");
  words_ = static_cast<HoldWords*>(memory);
  *words_ = {0, 0};
  check_cuda(cudaHostGetDevicePointer(&memory, words_, 0), rank, "cudaHostGetDevicePointer");
  device_words_ = static_cast<HoldWords*>(memory);
}

StreamHold::~StreamHold() {
  resume();
  (void)cudaFreeHost(words_);
}

void StreamHold::hold(CUstream_st* stream, Seconds limit) {
  constexpr double kNanoseconds = 1e9;
  const auto limit_ns = static_cast<std::uint64_t>(limit.value() * kNanoseconds);
  check_cuda(launch_hold(device_words_, number_ + 1, limit_ns, stream), rank_, "a kernel's launch");
  ++number_;
}

void StreamHold::resume() noexcept { std::atomic_ref(words_->resumed).store(number_); }

bool StreamHold::has_expired() const { return number_ > 0 && std::atomic_ref(words_->expired).load() == number_; }

}  // namespace moeplan::runtime
