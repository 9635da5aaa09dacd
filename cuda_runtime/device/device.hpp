// The interface of a device: the few GPU calls that an execution needs. It is implemented for CUDA
// (cuda/cuda_device.hpp) and, in tests, by a CPU that executes commands in any order that streams and events allow.
//
// Calls are asynchronous, except for the copies between host and device. They may come from any thread, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "cuda_runtime/kernels/kernel_call.hpp"
#include "model/program/program.hpp"

namespace moeplan::runtime {

using DeviceStream = Id<struct DeviceStreamTag>;
using DeviceEvent = Id<struct DeviceEventTag>;
using DeviceGraph = Id<struct DeviceGraphTag>;

/// A product C = A B, or C += A B, of dense row-major matrices: C has m rows of n elements, and k is the dimension of
/// the sum. None of m, n, k is 0.
struct MatrixProduct {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulates = false;
};

/// Products of one form and number format whose outputs do not overlap. fp32 and 16-bit formats accumulate in fp32;
/// tf32 multiplies in tf32. `result`: the format of C, which is `dtype` or fp32. Products of fp8 (E4M3, without scales)
/// have form NT and results in bf16; GPUs need compute capability 8.9 and multiples of 16 for m, n and k.
struct Products {
  Gemm::Form form = Gemm::Form::NN;
  Dtype dtype = Dtype::Fp32, result = Dtype::Fp32;
  std::span<const MatrixProduct> products;
  bool are_separate = false;  // whether each is a launch of its own, as in Transformer Engine
};

/// A message between ranks that share a device, of at least one byte, and the words of the sender's and the receiver's
/// port in device memory, 0 at first.
struct LinkMessage {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t bytes = 0;
  std::byte *out = nullptr, *in = nullptr;
};

/// Any call may raise ExecutionError, with the call's text, the error's name and the source location.
class Device {
 public:
  virtual ~Device() = default;

  /// Allocates at least one byte of memory, aligned to 256 bytes.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* data) = 0;
  /// Synchronous copies to and from the device. Not allowed while commands use the memory.
  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(std::span<std::byte> to, const std::byte* from) = 0;

  /// Streams have no implicit dependencies on each other. `rank`: of this process, whose part of the device the stream
  /// uses if the device is divided; none: all of it. Kernels of urgent streams start before waiting ones of others.
  [[nodiscard]] virtual DeviceStream make_stream(std::optional<std::size_t> rank = {}, bool is_urgent = false) = 0;
  /// An event. Timed events support between(); untimed ones cost less.
  [[nodiscard]] virtual DeviceEvent make_event(bool is_timed) = 0;
  /// Releases handles: idle streams and events, for reuse, and graphs (device_handles.hpp).
  virtual void release(DeviceStream stream) = 0;
  virtual void release(DeviceEvent event) = 0;
  virtual void release(DeviceGraph graph) = 0;
  virtual void record(DeviceEvent event, DeviceStream stream) = 0;
  /// Makes the stream wait for the event's latest record.
  virtual void wait(DeviceStream stream, DeviceEvent event) = 0;
  /// Whether the event's latest record is complete.
  [[nodiscard]] virtual bool is_over(DeviceEvent event) = 0;
  /// Whether all streams have completed their commands.
  [[nodiscard]] virtual bool is_idle() = 0;
  /// The time between two complete timed events.
  [[nodiscard]] virtual Seconds between(DeviceEvent from, DeviceEvent to) = 0;

  virtual void clear(DeviceStream stream, std::byte* data, std::size_t bytes) = 0;
  /// Reads all of this memory. If it exceeds the cache, nothing else remains cached, and nothing to be written back.
  virtual void read(DeviceStream stream, const std::byte* data, std::size_t bytes) = 0;
  virtual void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// Concurrent copies, which take as long as messages through ports of this bandwidth. All messages share the ports.
  virtual void send(DeviceStream stream, std::span<const LinkMessage> messages, BytesPerSecond bandwidth) = 0;
  virtual void launch(DeviceStream stream, const kernels::KernelCall& call) = 0;
  virtual void multiply(DeviceStream stream, const Products& products) = 0;

  /// Captures the subsequent commands of this stream, and of those that wait for it, into a graph instead of executing
  /// them.
  virtual void begin_capture(DeviceStream stream) = 0;
  [[nodiscard]] virtual DeviceGraph end_capture(DeviceStream stream) = 0;
  /// Ends a capture without a graph, also after an error.
  virtual void abandon_capture(DeviceStream stream) noexcept = 0;
  virtual void launch(DeviceStream stream, DeviceGraph graph) = 0;

  /// Holds the stream's subsequent commands back until resume(), at most for `limit`. One hold at a time; not captured.
  virtual void hold(DeviceStream stream, Seconds limit) = 0;
  virtual void resume() noexcept = 0;
  /// Whether the latest hold ended by its limit. Valid once its stream has passed it.
  [[nodiscard]] virtual bool has_expired() = 0;
};

}  // namespace moeplan::runtime
