// The interface by which ranks exchange data in device memory, ordered by streams.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda_runtime/device/device.hpp"

namespace moeplan::runtime {

/// The contiguous data sent to or received from one peer.
struct DeviceMessage {
  RankId peer;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
/// The simultaneous sends and receives of one rank.
struct DeviceExchange {
  std::vector<DeviceMessage> sends, receives;
  std::int64_t messages = 1;  // messages per peer
};

/// A collective over contiguous elements. `blocks`: elements in each member's block; one block for a broadcast.
/// All-gather: `send` is the rank's own block, `receive` all blocks. Reduce-scatter: the reverse. All-reduce: both are
/// all blocks. Broadcast: `send` is used at position 0 only. If one of `send` and `receive` lies within the other, it
/// does so at the offset of its block.
struct DeviceCollective {
  Collective collective = Collective::AllGather;
  std::vector<RankId> members;
  std::int64_t position = 0;
  Dtype dtype = Dtype::Fp32;
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::vector<std::int64_t> blocks;

  [[nodiscard]] std::int64_t elements() const;
  /// The first element of a member's block.
  [[nodiscard]] std::int64_t first_of(std::int64_t position) const;
};

using DeviceTransfer = std::variant<DeviceExchange, DeviceCollective>;

/// One rank's part of a communication.
struct DevicePart {
  RankId rank;
  DeviceStream stream;
  const DeviceTransfer* transfer = nullptr;
};

class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;
  /// Called once per communication, in order, before the first transfer(): creates communicators and allocates memory.
  virtual void prepare(std::size_t operation, Stream stream, std::span<const DevicePart> parts) = 0;
  /// Enqueues the parts of all ranks of this process, each on its stream.
  virtual void transfer(std::size_t operation, std::span<const DevicePart> parts) = 0;
  /// Waits for all ranks; raises ExecutionError if that exceeds the time-out.
  virtual void meet(Seconds time_out) = 0;
  /// Barrier on the device: the commands that follow on the stream begin on all ranks together.
  virtual void align(DeviceStream stream) = 0;
  /// Raises ExecutionError if a rank has terminated or a communication has failed.
  virtual void check() = 0;
  /// Aborts the communications in progress, on this rank and in consequence on all.
  virtual void abort() noexcept = 0;
};

}  // namespace moeplan::runtime
