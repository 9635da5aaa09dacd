// The implementation of DeviceTransport over NCCL: one process and GPU per rank, one communicator per stream and group
// of ranks.
#pragma once

#include <chrono>
#include <memory>

#include "cuda_runtime/cuda/cuda_device.hpp"
#include "cuda_runtime/device/device_transport.hpp"
#include "cuda_runtime/launch/rank_store.hpp"

namespace moeplan::runtime {

/// A transport between all ranks of `place`. Device and store must outlive it. Communicators are created when
/// operations are prepared, collectively by the ranks of a group. Raises ExecutionError on asynchronous NCCL errors, if
/// a rank has terminated, and if a call exceeds the time-out.
[[nodiscard]] std::unique_ptr<DeviceTransport> make_nccl_transport(CudaDevice& device, RankStore& store,
                                                                   const RankPlace& place, Seconds time_out);

/// The pause before the next look at an NCCL call in progress that the host has waited for this long. None at first: a
/// call takes its thread some 10 us, and a sleep, of at least 50 us more than asked for, would delay all that follows.
[[nodiscard]] constexpr std::chrono::microseconds pause_after(std::chrono::steady_clock::duration waited) {
  constexpr std::chrono::milliseconds kSpin(2);  // assumed: longer than any call whose peers have come
  constexpr std::chrono::microseconds kSleep(100);
  return waited < kSpin ? std::chrono::microseconds(0) : kSleep;
}

/// The version of the loaded library, e.g. "2.28.9".
[[nodiscard]] std::string nccl_version();

}  // namespace moeplan::runtime
