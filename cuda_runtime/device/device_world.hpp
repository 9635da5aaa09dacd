// The back end on a device: the ranks of this process (one over NCCL, or all of them on the loopback transport), each
// behind its own Backend.
//
// Each rank enqueues from its own thread. Nothing is issued to the device until all ranks wait in finish(): the last
// one to arrive issues the operations of all ranks, one operation at a time. The order of threads therefore has no
// effect, and an execution can be captured as a graph.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/device/device_run.hpp"
#include "cuda_runtime/device/device_transport.hpp"

namespace moeplan::runtime {

class DeviceWorld {
 public:
  /// `ranks`: the ranks of this process. Device and transport must outlive this object.
  DeviceWorld(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options);
  ~DeviceWorld();

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] RankId rank(std::size_t i) const;
  /// The back end of the i-th rank of this process, to be called from one thread.
  [[nodiscard]] Backend& backend(std::size_t i);

  /// Calls `job` for each rank of this process, in one thread per rank if there are several, and waits. A failure of
  /// one rank ends the waits of the others; the first failure is raised.
  void run(const std::function<void(RankId, Backend&)>& job);
  /// Ends the waits of all ranks with this exception.
  void give_up(std::exception_ptr why);

 private:
  class Rank;
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace moeplan::runtime
