// Holding a stream's commands back until the host has enqueued what shall start together.
#pragma once

#include <cstdint>

#include "cuda_runtime/cuda/launch_kernel.hpp"
#include "model/base/ids.hpp"
#include "model/base/quantity.hpp"

namespace moeplan::runtime {

/// See Device::hold(). Belongs to the current GPU.
class StreamHold {
 public:
  explicit StreamHold(RankId rank);
  ~StreamHold();
  StreamHold(const StreamHold&) = delete;
  StreamHold& operator=(const StreamHold&) = delete;

  void hold(CUstream_st* stream, Seconds limit);
  void resume() noexcept;
  [[nodiscard]] bool has_expired() const;

 private:
  RankId rank_;
  std::uint32_t number_ = 0;           // of the latest hold
  HoldWords* words_ = nullptr;         // in page-locked host memory
  HoldWords* device_words_ = nullptr;  // the same, as the GPU addresses it
};

}  // namespace moeplan::runtime
