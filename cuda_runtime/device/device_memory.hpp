// The buffers of one rank in device memory.
#pragma once

#include <span>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/device/device_pool.hpp"
#include "cuda_runtime/host/host_memory.hpp"

namespace moeplan::runtime {

/// A buffer in device memory. Rows are written in a host mirror of it, which is copied before an execution, and read
/// from a window of at most kWindow bytes, so that large buffers that the host does not write need no mirror. A buffer
/// that is a part of another uses the memory, mirror and window of that one.
class DeviceBuffer {
 public:
  static constexpr std::int64_t kWindow = std::int64_t{16} << 20U;

  /// `all`: the rank's buffers, by BufferId, of which this is one.
  DeviceBuffer(const BufferShape& shape, Device& device, DevicePool& pool, std::vector<DeviceBuffer>& all);

  [[nodiscard]] const BufferShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t element_bytes() const { return size_of(shape_.dtype); }
  [[nodiscard]] kernels::View view() const;
  [[nodiscard]] std::byte* at(std::int64_t element) const {
    return shape_.part ? whole().at(shape_.part->first + element) : data_ + element * element_bytes();
  }

  void write_row(std::int64_t row, std::span<const double> values);
  [[nodiscard]] std::vector<double> read_row(std::int64_t row);
  void clear();
  /// The view of the buffer for a command of this stream that writes to it: the device has its contents.
  [[nodiscard]] kernels::View writable(DeviceStream stream);
  /// Called before an execution: uploads the mirror if it is newer, and discards it.
  void give();
  /// Called after give(): if the buffer was cleared, enqueues the zero-fill as the first command of a stream.
  void fill_zeros(DeviceStream stream);

 private:
  [[nodiscard]] DeviceBuffer& whole() const { return all_[shape_.part->of.index()]; }
  void take();
  void write(std::int64_t first, std::span<const float> values);
  void read(std::int64_t first, std::span<float> values);

  BufferShape shape_;
  Device& device_;
  std::vector<DeviceBuffer>& all_;
  std::byte* data_;    // null if it is a part
  HostBuffer mirror_;  // empty until it is needed
  /// Some elements as the device has them.
  struct Window {
    std::int64_t first = 0, count = 0;
    std::vector<std::byte> bytes = {};
  } window_;
  /// The location of the current contents: the host mirror, the device, or neither (all zeros).
  enum class Newest { Host, Device, Zeros } newest_ = Newest::Zeros;
};

}  // namespace moeplan::runtime
