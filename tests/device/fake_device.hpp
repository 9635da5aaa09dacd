// A device for tests: a CPU that queues commands in streams and executes them, when it is asked whether an event or the
// device has finished, in a random order among those that streams and events allow. A missing synchronisation therefore
// produces wrong values.
//
// It detects misuse: memory freed twice or never, copies beyond an allocation or while commands are pending, waits for
// events that were never recorded, streams in a capture that are not part of it, queries for commands that can never
// run. Fresh memory is filled with 0xff, a NaN in every floating-point format, so that reads of uninitialised memory
// are detected. Addresses inside kernels are checked where tests run under the address sanitizer, for which separate
// allocations are requested (slab 0).
//
// With costs, it only models time and computes nothing: the commands of a stream take the times that the costs give,
// one after the other, and streams run concurrently as if each had a device of its own.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/cuda/cuda_device.hpp"
#include "cuda_runtime/device/device.hpp"
#include "model/base/random.hpp"

namespace moeplan::tests {

using namespace runtime;

/// The durations of commands in seconds.
struct FakeCosts {
  std::function<double(const kernels::KernelCall&)> kernel;
  std::function<double(const Products&)> products;
  std::function<double(std::size_t bytes)> copy;
  double slowdown = 1;  // of kernels, copies and messages that are enqueued while other streams have products to do
};

/// The device. It has native streams for code that requires them (nccl_on_cpu.hpp), but does not link CUDA.
class FakeDevice final : public CudaDevice {
 public:
  explicit FakeDevice(std::uint64_t seed) : random_(seed) {}
  explicit FakeDevice(FakeCosts costs) : random_(1), costs_(std::move(costs)) {}
  /// Whether all resources were released and all commands were executed.
  [[nodiscard]] bool is_clean() const;

  /// Makes the n-th call of this name (from 0) and all later ones raise ExecutionError.
  void fail(const std::string& call, std::size_t n) { failing_[call] = n; }
  /// Stops executing commands, as on a device whose kernel does not terminate.
  void hang() { hangs_ = true; }
  /// Ends holds by their limits, at once.
  void expire_holds() { expires_ = true; }
  [[nodiscard]] std::size_t calls(const std::string& name) const;
  /// The names of all calls so far, in order.
  [[nodiscard]] const std::vector<std::string>& log() const { return log_; }

  /// Bytes that the host has copied to the device, and the largest of all copies to it or from it.
  [[nodiscard]] std::size_t copied_in() const { return copied_in_; }
  [[nodiscard]] std::size_t largest_copy() const { return largest_copy_; }

  /// Holds a stream back until this is true.
  void hold(DeviceStream stream, std::function<bool()> is_over);
  /// Enqueues any function on a stream.
  void run(DeviceStream stream, std::function<void()> what) { add(stream, {Kind::Run, {}, 0, std::move(what)}); }
  /// The device to which a native stream belongs.
  [[nodiscard]] static FakeDevice& of(CUstream_st* native);
  CUstream_st* native(DeviceStream stream) const override;

  std::byte* allocate(std::size_t bytes) override;
  void release(std::byte* data) override;
  void copy_in(std::byte* to, std::span<const std::byte> from) override;
  void copy_out(std::span<std::byte> to, const std::byte* from) override;
  DeviceStream make_stream(std::optional<std::size_t> rank = {}, bool is_urgent = false) override;
  DeviceEvent make_event(bool is_timed) override;
  void release(DeviceStream stream) override;
  void release(DeviceEvent event) override;
  void release(DeviceGraph graph) override;
  void record(DeviceEvent event, DeviceStream stream) override;
  void wait(DeviceStream stream, DeviceEvent event) override;
  bool is_over(DeviceEvent event) override;
  bool is_idle() override;
  Seconds between(DeviceEvent from, DeviceEvent to) override;
  void clear(DeviceStream stream, std::byte* data, std::size_t bytes) override;
  void read(DeviceStream stream, const std::byte* data, std::size_t bytes) override;
  void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) override;
  void send(DeviceStream stream, std::span<const LinkMessage> messages, BytesPerSecond bandwidth) override;
  void launch(DeviceStream stream, const kernels::KernelCall& call) override;
  void multiply(DeviceStream stream, const Products& products) override;
  void begin_capture(DeviceStream stream) override;
  DeviceGraph end_capture(DeviceStream stream) override;
  void abandon_capture(DeviceStream stream) noexcept override;
  void launch(DeviceStream stream, DeviceGraph graph) override;
  void hold(DeviceStream stream, Seconds limit) override;
  void resume() noexcept override;
  bool has_expired() override { return has_expired_; }

 private:
  enum class Kind { Run, Record, Wait, Hold };
  struct Command {
    Kind kind;
    DeviceEvent event{};
    std::int64_t record = 0;  // the number of the record of the event, for Record and Wait
    std::function<void()> run{};
    double cost = 0;
    std::function<bool()> is_over{};  // of a Hold
    bool multiplies = false;
  };
  struct Event {
    bool is_timed;
    std::int64_t asked = 0, over = 0;  // records enqueued and completed
    double when = 0;
    bool is_captured = false;  // last recorded in the current capture
    bool is_free = false;      // released
  };
  struct Graph {
    DeviceStream origin;
    std::vector<std::pair<DeviceStream, Command>> commands;
    bool is_free = false;
  };
  struct Queue {
    std::deque<Command> commands{};
    double time = 0;  // completion time of the last command
    bool is_free = false;
  };
  void count(const std::string& call);
  void add(DeviceStream stream, Command command);
  void enqueue(DeviceStream stream, Command command);
  [[nodiscard]] bool can_run(const Command& command) const;
  bool step();
  [[nodiscard]] bool has_nothing_to_do() const;
  [[nodiscard]] double slowed(DeviceStream stream, double cost) const;
  void check_range(const std::byte* data, std::size_t bytes) const;
  void check_products(std::span<const MatrixProduct> list, Dtype result) const;

  Random random_;
  std::map<std::byte*, std::size_t> memory_;
  std::vector<Queue> streams_;
  std::vector<Event> events_;
  std::vector<Graph> graphs_;
  std::optional<Graph> capture_;
  std::vector<bool> is_in_capture_;  // by stream
  std::map<std::string, std::size_t> calls_, failing_;
  std::vector<std::string> log_;
  std::size_t copied_in_ = 0, largest_copy_ = 0;
  std::size_t holds_ = 0, resumed_ = 0;  // the number of the latest hold, and of the latest that was resumed
  bool expires_ = false, has_expired_ = false;
  double clock_ = 0;
  bool hangs_ = false;
  std::optional<FakeCosts> costs_{};
};

}  // namespace moeplan::tests
