// Parallel degrees as defined by Megatron-LM: world = pp cp dp tp for the dense part = pp edp ep esp for the experts.
#pragma once

#include <cstdint>

namespace moeplan {

struct Degrees {
  std::int64_t pp = 1;   // pipeline stages
  std::int64_t dp = 1;   // data-parallel replicas of the dense part
  std::int64_t cp = 1;   // context-parallel shards of a sequence
  std::int64_t tp = 1;   // tensor-parallel shards of the dense part (the papers' N_MP)
  std::int64_t edp = 1;  // data-parallel replicas of the experts
  std::int64_t ep = 1;   // expert-parallel ranks (N_EP)
  std::int64_t esp = 1;  // shards of one expert (N_ESP; Megatron's expert-tensor-parallel size)

  [[nodiscard]] std::int64_t world() const { return pp * dp * cp * tp; }
  [[nodiscard]] std::int64_t ranks_per_stage() const { return dp * cp * tp; }
  bool operator==(const Degrees&) const = default;
};

}  // namespace moeplan
