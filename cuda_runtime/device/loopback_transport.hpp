// The transport between ranks of one process on one device: data is copied from buffer to buffer.
//
// With a link, ranks are joined by ports of this bandwidth, one each way, and copies take the time of messages over
// them, also those of collectives.
//
// A transfer between two ranks starts once both have reached it: the receiver's stream waits for the sender's and
// copies, and the sender's stream continues once all its receivers have copied.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "cuda_runtime/device/device_handles.hpp"
#include "cuda_runtime/device/device_pool.hpp"
#include "cuda_runtime/device/device_transport.hpp"

namespace moeplan::runtime {

class LoopbackTransport final : public DeviceTransport {
 public:
  explicit LoopbackTransport(Device& device, std::size_t slab = DevicePool::kSlab,
                             std::optional<BytesPerSecond> link = {})
      : device_(device), pool_(device, slab), handles_(device), link_(link) {}

  void prepare(std::size_t operation, Stream stream, std::span<const DevicePart> parts) override;
  void transfer(std::size_t operation, std::span<const DevicePart> parts) override;
  void meet(Seconds) override {}
  void align(DeviceStream) override {}
  void check() override {}
  void abort() noexcept override {}

 private:
  /// Events and memory of one rank for one operation.
  struct Rendezvous {
    DeviceEvent ready, added, done;
    std::byte* sums = nullptr;               // for reduce-scatter and all-reduce: the rank's own block
    std::byte* arriving = nullptr;           // with a link: the same block of another rank
    const kernels::Piece* pieces = nullptr;  // that block
    std::int64_t piece_count = 0;
  };
  using ByRank = std::map<RankId, Rendezvous>;

  void exchange(const DevicePart& part, std::span<const DevicePart> parts, ByRank& all);
  void sum(const DevicePart& part, std::span<const DevicePart> parts, const Rendezvous& own);
  void collect(const DevicePart& part, std::span<const DevicePart> parts, ByRank& all);
  /// Data of a rank.
  struct Message {
    RankId source;
    std::byte* to;
    const std::byte* from;
    std::size_t bytes;
  };
  /// Copies data to the part's rank: over a link all messages at once, otherwise one after the other.
  void receive(const DevicePart& part, std::span<const Message> messages);
  void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes);
  /// The ports of a rank, made at its first message.
  struct Ports {
    std::byte *out, *in;
  };
  const Ports& ports(RankId rank);

  Device& device_;
  DevicePool pool_;
  DeviceHandles handles_;
  std::optional<BytesPerSecond> link_;
  std::map<RankId, Ports> ports_;
  std::map<std::size_t, ByRank> operations_;
};

}  // namespace moeplan::runtime
