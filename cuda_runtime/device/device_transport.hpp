// How the ranks of a run exchange data that lies in device memory, on their streams.
#pragma once

#include <span>
#include <string>
#include <variant>
#include <vector>

#include "cuda_runtime/device/device.hpp"

namespace moeplan::runtime {

/// Bytes of one peer, one behind the other.
struct DeviceMessage {
  RankId peer;
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};
/// Sends and receives of one rank, all at once.
struct DeviceExchange {
  std::vector<DeviceMessage> sends, receives;
  std::int64_t messages = 1;  // that the data of a peer is cut into
};

/// A collective over contiguous elements. `blocks`: how many elements each member's block has; of a broadcast, one.
/// All-gather: `send` is the own block, `receive` all of them; reduce-scatter the other way round; all-reduce: all on
/// both sides; broadcast: `send` counts at position 0 only. Where one of them lies in the other, it lies at its place.
struct DeviceCollective {
  Collective collective = Collective::AllGather;
  std::vector<RankId> members;
  std::int64_t position = 0;
  Dtype dtype = Dtype::Fp32;
  std::byte* send = nullptr;
  std::byte* receive = nullptr;
  std::vector<std::int64_t> blocks;

  [[nodiscard]] std::int64_t elements() const;
  /// Where a member's block begins.
  [[nodiscard]] std::int64_t first_of(std::int64_t position) const;
};

using DeviceTransfer = std::variant<DeviceExchange, DeviceCollective>;

/// A rank's part of an operation that communicates.
struct DevicePart {
  RankId rank;
  DeviceStream stream;
  const DeviceTransfer* transfer = nullptr;
};

class DeviceTransport {
 public:
  virtual ~DeviceTransport() = default;
  /// Once for each operation that communicates, in their order, before the first transfer(): communicators, memory.
  virtual void prepare(std::size_t operation, Stream stream, std::span<const DevicePart> parts) = 0;
  /// All ranks of this process, each on its stream.
  virtual void transfer(std::size_t operation, std::span<const DevicePart> parts) = 0;
  /// Until all ranks are here; raises ExecutionError where that takes longer.
  virtual void meet(Seconds time_out) = 0;
  /// On the device: what follows on the stream begins on all ranks together.
  virtual void align(DeviceStream stream) = 0;
  /// Raises ExecutionError where a rank is gone or something under way has failed.
  virtual void check() = 0;
  /// Gives up what is under way, on this rank and soon on all.
  virtual void abort() noexcept = 0;
};

}  // namespace moeplan::runtime
