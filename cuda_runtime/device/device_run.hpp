// What the ranks of a process ask of a device: memory and operations once, then runs. Calls come one at a time.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/device/device_handles.hpp"
#include "cuda_runtime/device/device_operation.hpp"
#include "cuda_runtime/device/device_world.hpp"

namespace moeplan::runtime {

struct DeviceStep {
  std::size_t operation;
  Stream stream;
  std::vector<std::size_t> after;
  bool operator==(const DeviceStep&) const = default;
};

class DeviceExecution {
 public:
  DeviceExecution(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options);
  ~DeviceExecution();

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] RankId rank(std::size_t i) const { return ranks_[i].id; }

  void allocate(std::size_t rank, std::span<const BufferShape> buffers);
  [[nodiscard]] DeviceBuffer& buffer(std::size_t rank, BufferId id) { return ranks_[rank].buffers[id.index()]; }
  void prepare(std::size_t rank, const Work& work, const std::string& name);
  void set_steps(std::size_t rank, const std::vector<DeviceStep>& steps) { ranks_[rank].steps = steps; }

  /// All steps of all ranks, which have the same ones or none, and waits for their end. Raises ExecutionError.
  void execute();
  /// Of the last run, by operation.
  [[nodiscard]] const std::vector<OperationTime>& times(std::size_t rank) const { return ranks_[rank].times; }

 private:
  struct Events {
    DeviceEvent start, end;  // timed
    DeviceEvent ended;       // what others wait for
  };
  struct Rank {
    RankId id;
    std::vector<DeviceBuffer> buffers{};
    std::int32_t* failure = nullptr;
    std::vector<DeviceOperation> operations{};
    std::vector<Events> events{};  // by operation
    std::array<std::optional<DeviceStream>, kStreamNames.size()> streams{};
    std::vector<DeviceStep> steps{};
    std::vector<OperationTime> times{};
  };

  /// Those with steps; a measurement may leave some out.
  [[nodiscard]] std::vector<Rank*> busy_ranks();
  void make_ready();
  void issue_all();
  void issue(std::size_t step);
  [[nodiscard]] std::vector<DevicePart> parts(std::size_t step);
  void wait_for_end();
  void give_up() noexcept;
  [[nodiscard]] std::string late_operation();
  void collect();

  Device& device_;
  DeviceTransport& transport_;
  DeviceOptions options_;
  DevicePool pool_;
  DeviceHandles handles_;
  std::vector<Rank> ranks_;
  DeviceStream origin_;                // from which all others begin, and which ends after all of them
  DeviceEvent begin_, fork_, over_;    // the first one timed
  std::vector<DeviceEvent> joins_;     // a stream's end, by rank and stream
  std::vector<DeviceStep> ready_for_;  // the steps that everything is made ready for
  std::optional<DeviceGraph> graph_;   // of these steps
  std::byte* cold_ = nullptr;          // what is written before a run
  bool has_run_ = false;               // these steps, so that all libraries have what they need
  bool is_running_ = false;
};

}  // namespace moeplan::runtime
