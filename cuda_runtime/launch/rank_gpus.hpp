// The GPUs of ranks in several processes: NCCL needs one for each rank.
#pragma once

#include <span>
#include <string>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

struct RankGpu {
  std::string host;  // the node's name
  std::string bus;   // the GPU's PCI address, which is the same in all processes, whatever GPUs they see
  bool operator==(const RankGpu&) const = default;
};

/// Names two ranks with the same GPU and what to do; "" if there are none. `gpus`: by rank.
[[nodiscard]] std::string shared_gpu(std::span<const RankGpu> gpus);

/// Collective. Raises InputError on all ranks if two of them have the same GPU.
void require_own_gpus(Peers& peers, const RankGpu& mine);

}  // namespace moeplan::runtime
