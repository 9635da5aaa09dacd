// Ranks of several processes, one on each GPU, through NCCL: a communicator for each group of ranks and stream.
#pragma once

#include <memory>

#include "cuda_runtime/cuda/cuda_device.hpp"
#include "cuda_runtime/device/device_transport.hpp"
#include "cuda_runtime/launch/rank_store.hpp"

namespace moeplan::runtime {

/// Of all ranks of `place`. Device and store outlive it. Communicators are made when operations are prepared, by all of
/// a group together. Errors that NCCL finds while it works, ranks that are gone, and what takes longer than the
/// time-out are ExecutionErrors.
[[nodiscard]] std::unique_ptr<DeviceTransport> make_nccl_transport(CudaDevice& device, RankStore& store,
                                                                   const RankPlace& place, Seconds time_out);

/// "2.28.9", of the library that is loaded.
[[nodiscard]] std::string nccl_version();

}  // namespace moeplan::runtime
