// The execution of a process's ranks on one device: memory and operations are set up once, then executed repeatedly.
// Calls come one at a time.
#pragma once

#include <array>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/device/device_handles.hpp"
#include "cuda_runtime/device/device_operation.hpp"
#include "cuda_runtime/device/device_transport.hpp"
#include "cuda_runtime/device/driver/gpu_clocks.hpp"
#include "cuda_runtime/device/steps/step_order.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::runtime {

struct DeviceOptions {
  CodecOptions codecs = {};
  Seconds time_out{60};                       // of an execution, and of barriers between ranks
  bool captures = false;                      // captures the second execution as a graph, which later ones launch
  std::size_t slab = std::size_t{64} << 20U;  // bytes per slab (DevicePool)
  /// Bytes read before each execution, so that it finds none of its data in the cache, as for one layer among others,
  /// and no data of others to write back.
  std::size_t cold_bytes = 0;
  /// Of messages between ranks that share the device, each way; none: as fast as the device copies.
  std::optional<BytesPerSecond> link = {};
  LoadClocks* clocks = nullptr;  // read while executions last; outlives them
};

class DeviceExecution {
 public:
  DeviceExecution(Device& device, DeviceTransport& transport, std::vector<RankId> ranks, DeviceOptions options);
  ~DeviceExecution();

  [[nodiscard]] std::size_t size() const { return ranks_.size(); }
  [[nodiscard]] RankId rank(std::size_t i) const { return ranks_[i].id; }

  void allocate(std::size_t rank, std::span<const BufferShape> buffers);
  [[nodiscard]] DeviceBuffer& buffer(std::size_t rank, BufferId id) { return ranks_[rank].buffers[id.index()]; }
  /// Makes elements of a buffer, and waits for the end.
  void make(std::size_t rank, BufferId id, const MadeElements& elements);
  void prepare(std::size_t rank, const Work& work, const std::string& name);
  void set_steps(std::size_t rank, const std::vector<DeviceStep>& steps) { ranks_[rank].steps = steps; }

  /// Executes the steps of all ranks, which are the same on each rank or empty, and waits for their end. Raises
  /// ExecutionError.
  void execute();
  /// The times of the last execution, by operation.
  [[nodiscard]] const std::vector<OperationTime>& times(std::size_t rank) const { return ranks_[rank].times; }

 private:
  /// The end of an operation. In a graph, an event that keeps its time is not one that others can wait for.
  struct Mark {
    DeviceEvent timed, plain;
  };
  struct Events {
    DeviceEvent start;  // timed
    Mark end;
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

  /// The ranks with steps. A measurement may leave some ranks idle.
  [[nodiscard]] std::vector<Rank*> busy_ranks();
  void make_ready();
  void upload();
  void capture();
  void start();
  void issue_all();
  void issue(std::size_t step);
  void record(const Mark& mark, DeviceStream stream, bool is_awaited);
  void wait(DeviceStream stream, const Mark& mark);
  [[nodiscard]] DeviceStream stream_of(const Rank& rank, std::size_t step) const;
  /// The event at which a step starts: its own, or the end of what it follows without delay.
  [[nodiscard]] DeviceEvent start_of(const Rank& rank, std::size_t step) const;
  [[nodiscard]] std::vector<DevicePart> parts(std::size_t step);
  /// Waits for `over_`, with look(i) in between; `late` cleans up and says what is not over in time.
  template <class Look, class Late>
  void wait(Look look, Late late);
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
  DeviceStream origin_;  // forks into all other streams, and joins them at the end
  Mark begin_;
  DeviceEvent over_;
  std::vector<DeviceStep> ready_for_;  // the steps that have been prepared for execution
  std::vector<StepOrder> orders_;      // of ready_for_
  std::optional<DeviceGraph> graph_;   // of ready_for_
  std::byte* made_ = nullptr;          // the runs of make()
  std::byte* cold_ = nullptr;          // read before each execution, to evict the cache
  bool has_run_ = false;               // ready_for_ has executed once, so that libraries have allocated what they need
  bool is_running_ = false;
  bool is_capturing_ = false;
};

}  // namespace moeplan::runtime
