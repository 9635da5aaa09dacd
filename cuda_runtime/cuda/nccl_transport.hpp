// The implementation of DeviceTransport over NCCL: one process and GPU per rank, one communicator per stream and group
// of ranks.
#pragma once

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

/// The version of the loaded library, e.g. "2.28.9".
[[nodiscard]] std::string nccl_version();

}  // namespace moeplan::runtime
