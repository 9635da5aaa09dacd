// The transport between ranks of one process on one device: data is copied from buffer to buffer.
//
// A transfer between two ranks starts once both have reached it: the receiver's stream waits for the sender's and
// copies, and the sender's stream continues once all its receivers have copied.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "cuda_runtime/device/device_handles.hpp"
#include "cuda_runtime/device/device_pool.hpp"
#include "cuda_runtime/device/device_transport.hpp"

namespace moeplan::runtime {

class LoopbackTransport final : public DeviceTransport {
 public:
  explicit LoopbackTransport(Device& device, std::size_t slab = DevicePool::kSlab)
      : device_(device), pool_(device, slab), handles_(device) {}

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
    const kernels::Piece* pieces = nullptr;  // that block
    std::int64_t piece_count = 0;
  };
  using ByRank = std::map<RankId, Rendezvous>;

  void exchange(const DevicePart& part, std::span<const DevicePart> parts, ByRank& all);
  void sum(const DevicePart& part, std::span<const DevicePart> parts, const Rendezvous& own);
  void collect(const DevicePart& part, std::span<const DevicePart> parts, ByRank& all);
  void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes);

  Device& device_;
  DevicePool pool_;
  DeviceHandles handles_;
  std::map<std::size_t, ByRank> operations_;
};

}  // namespace moeplan::runtime
