// The few calls to a GPU that executing needs. Behind them stand CUDA (cuda/cuda_device.hpp) and, in tests, a CPU that
// runs what was asked for in any order that streams and events allow.
//
// Calls return before the device has done anything, the copies to and from the host apart. Any thread may call, one at
// a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cuda_runtime/kernels/kernel_call.hpp"
#include "model/program/program.hpp"

namespace moeplan::runtime {

using DeviceStream = Id<struct DeviceStreamTag>;
using DeviceEvent = Id<struct DeviceEventTag>;
using DeviceGraph = Id<struct DeviceGraphTag>;

/// C = A B, or C += A B, row by row, without gaps: C has m rows of n elements, k products are added up for each; none
/// of them is 0.
struct MatrixProduct {
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t m = 0, n = 0, k = 0;
  bool accumulates = false;
};

/// Products of one form and number format, none of which writes to another's C. fp32 and 16-bit formats add up in fp32,
/// tf32 multiplies in tf32.
struct Products {
  Gemm::Form form = Gemm::Form::NN;
  Dtype dtype = Dtype::Fp32;
  std::span<const MatrixProduct> products;
  const void* const* addresses = nullptr;  // in device memory: of every A, then of every B, then of every C
};

/// Raises ExecutionError, from any call: with the call's text, the error's name and where it was called.
class Device {
 public:
  virtual ~Device() = default;

  /// At a multiple of 256 bytes; at least one byte.
  [[nodiscard]] virtual std::byte* allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* data) = 0;
  /// Once over. Not while anything runs on the memory.
  virtual void copy_in(std::byte* to, std::span<const std::byte> from) = 0;
  virtual void copy_out(std::span<std::byte> to, const std::byte* from) = 0;

  /// Streams do not wait for each other.
  [[nodiscard]] virtual DeviceStream make_stream() = 0;
  /// Timed ones can be asked for the time between them; the others cost less.
  [[nodiscard]] virtual DeviceEvent make_event(bool is_timed) = 0;
  /// Streams and events that nothing runs on any more, for others to have, and graphs (device_handles.hpp).
  virtual void release(DeviceStream stream) = 0;
  virtual void release(DeviceEvent event) = 0;
  virtual void release(DeviceGraph graph) = 0;
  virtual void record(DeviceEvent event, DeviceStream stream) = 0;
  /// The stream goes on once the event's latest record is over.
  virtual void wait(DeviceStream stream, DeviceEvent event) = 0;
  /// Whether the latest record is over.
  [[nodiscard]] virtual bool is_over(DeviceEvent event) = 0;
  /// Whether all streams have done what they were asked for.
  [[nodiscard]] virtual bool is_idle() = 0;
  /// Of two timed events that are over.
  [[nodiscard]] virtual Seconds between(DeviceEvent from, DeviceEvent to) = 0;

  virtual void clear(DeviceStream stream, std::byte* data, std::size_t bytes) = 0;
  virtual void copy(DeviceStream stream, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void launch(DeviceStream stream, const kernels::KernelCall& call) = 0;
  virtual void multiply(DeviceStream stream, const Products& products) = 0;

  /// What is asked for from here on, of this stream and of those that wait for it, is kept in a graph instead of run.
  virtual void begin_capture(DeviceStream stream) = 0;
  [[nodiscard]] virtual DeviceGraph end_capture(DeviceStream stream) = 0;
  virtual void launch(DeviceStream stream, DeviceGraph graph) = 0;
};

}  // namespace moeplan::runtime
