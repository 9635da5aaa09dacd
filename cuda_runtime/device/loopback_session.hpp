// Ranks of one process that share a device, a thread each: what they say to each other, and a back end for each case.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/device/barrier.hpp"
#include "cuda_runtime/device/device_world.hpp"
#include "cuda_runtime/device/loopback_transport.hpp"

namespace moeplan::runtime {

class LoopbackSession {
 public:
  LoopbackSession(Device& device, std::int64_t ranks, DeviceOptions options);

  /// Runs a job for each rank and waits for all. Where one fails the others' waiting ends, and the first failure is
  /// raised.
  void run(const std::function<void(Peers&)>& job);

  /// Called by every rank in turn, for the same case. It is over once the rank asks for the next.
  [[nodiscard]] std::unique_ptr<Backend> make_backend(RankId rank, const CodecOptions& codecs);

 private:
  class ThreadPeers;

  Device& device_;
  std::int64_t ranks_;
  DeviceOptions options_;
  Barrier meeting_;
  std::vector<std::string> texts_;  // by rank, that are being said
  std::optional<LoopbackTransport> transport_;
  std::optional<DeviceWorld> world_;
};

}  // namespace moeplan::runtime
