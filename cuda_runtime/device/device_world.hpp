// The back end on a device: the ranks of this process (one over NCCL, all of them on the loopback transport), each
// behind a Backend of its own.
//
// Ranks enqueue from a thread each. Nothing is asked of the device before all of them wait in finish(): the last one to
// come then asks for everything, operation by operation, for all ranks. So no order among threads matters, and a run
// can be captured as a graph.
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/device/device_transport.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

struct DeviceOptions {
  CodecOptions codecs = {};
  Seconds time_out{60};                       // of a run, and of ranks that meet
  bool captures = false;                      // the first run as a graph, which later ones launch as a whole
  std::size_t slab = std::size_t{64} << 20U;  // bytes of memory at once (DevicePool)
  /// Written before each run, so that the run finds none of its data in the cache, as a layer among others does; and
  /// while that is written, the host asks for the run.
  std::size_t cold_bytes = 0;
};

class DeviceWorld {
 public:
  /// `ranks`: those of this process. Device and transport outlive this.
  DeviceWorld(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options);
  ~DeviceWorld();

  [[nodiscard]] std::size_t size() const;
  [[nodiscard]] RankId rank(std::size_t i) const;
  /// Of the i-th rank of this process; calls from one thread each.
  [[nodiscard]] Backend& backend(std::size_t i);

  /// Runs `job` for each rank of this process, in threads where they are several, and waits. A failure of one ends the
  /// others' waiting; the first one is raised.
  void run(const std::function<void(RankId, Backend&)>& job);
  /// Ends the waiting of all ranks.
  void give_up(std::exception_ptr why);

 private:
  class Rank;
  struct Run;
  std::unique_ptr<Run> run_;
};

}  // namespace moeplan::runtime
