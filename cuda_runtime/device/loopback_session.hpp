// A session of ranks that share one device as threads of one process: their control communication, and a back end per
// case.
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

  /// Calls `job` for each rank, in a thread each, and waits for all. A failure of one rank ends the waits of the
  /// others; the first failure is raised.
  void run(const std::function<void(Peers&)>& job);

  /// The back end of a rank. Collective: every rank calls it for the same case. Valid until the next call.
  [[nodiscard]] std::unique_ptr<Backend> make_backend(RankId rank, const CodecOptions& codecs);

 private:
  class ThreadPeers;

  Device& device_;
  std::int64_t ranks_;
  DeviceOptions options_;
  Barrier meeting_;
  std::vector<std::string> texts_;  // by rank, of the current gather or broadcast
  std::optional<LoopbackTransport> transport_;
  std::optional<DeviceWorld> world_;
};

}  // namespace moeplan::runtime
