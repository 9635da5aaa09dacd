#include "cuda_runtime/launch/rank_gpus.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/base/diagnostics.hpp"

namespace moeplan::runtime {

namespace {

constexpr char kBetween = '\n';

}  // namespace

std::string shared_gpu(std::span<const RankGpu> gpus) {
  for (std::size_t r = 0; r < gpus.size(); ++r) {
    const auto first = std::find(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(r), gpus[r]) - gpus.begin();
    if (first == static_cast<std::ptrdiff_t>(r)) continue;
    return fmt::format(
        "ranks {} and {} both have the GPU {} of {}, and NCCL needs a GPU for each rank: start at most as many ranks "
        "on "
        "a machine as it has GPUs; or start moeplan itself, without srun, torchrun or mpirun: its ranks then share a "
        "GPU as threads of one process",
        first, r, gpus[r].bus, gpus[r].host);
  }
  return "";
}

void require_own_gpus(Peers& peers, const RankGpu& mine) {
  std::vector<RankGpu> gpus;
  for (const std::string& text : peers.gather(mine.host + kBetween + mine.bus)) {
    const std::size_t at = text.find(kBetween);
    gpus.push_back({text.substr(0, at), text.substr(at + 1)});
  }
  const std::string problem = peers.broadcast(shared_gpu(gpus));
  if (!problem.empty()) throw InputError(Diagnostic{{"--backend"}, "", problem});
}

}  // namespace moeplan::runtime
