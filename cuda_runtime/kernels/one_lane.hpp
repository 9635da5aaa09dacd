// Execution of kernels on a CPU: one item after the other, each by a team of one lane.
#pragma once

#include "cuda_runtime/kernels/team.hpp"

namespace moeplan::kernels {

/// A team of one lane.
struct Alone {
  int lane = 0;
  int size = 1;
  alignas(16) char scratch[kScratchBytes] = {};
  float sum(float v) { return v; }
  float least(float v) { return v; }
  float most(float v) { return v; }
  Best best(Best v) { return v; }
  void sync() {}
};

struct OneLane {
  template <class Kernel>
  static void run(const Kernel& kernel) {
    for (std::int64_t item = 0; item < kernel.items; ++item) {
      Alone team;
      kernel.run(item, team);
    }
  }
};

}  // namespace moeplan::kernels
