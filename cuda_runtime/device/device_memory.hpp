// The buffers of one rank in device memory.
#pragma once

#include <span>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/device/device_pool.hpp"
#include "cuda_runtime/host/host_memory.hpp"

namespace moeplan::runtime {

/// A buffer in device memory with a host mirror. Rows are written and read in the mirror; the whole buffer is copied
/// when the other side is newer.
class DeviceBuffer {
 public:
  DeviceBuffer(const BufferShape& shape, Device& device, DevicePool& pool);

  [[nodiscard]] const BufferShape& shape() const { return shape_; }
  [[nodiscard]] std::int64_t element_bytes() const { return size_of(shape_.dtype); }
  [[nodiscard]] kernels::View view() const;
  [[nodiscard]] std::byte* at(std::int64_t element) const { return data_ + element * element_bytes(); }

  void write_row(std::int64_t row, std::span<const double> values);
  [[nodiscard]] std::vector<double> read_row(std::int64_t row);
  void clear();
  /// Called before an execution: uploads the mirror if it is newer, and discards it.
  void give();
  /// Called after give(): if the buffer was cleared, enqueues the zero-fill as the first command of a stream.
  void fill_zeros(DeviceStream stream);

 private:
  void take();

  BufferShape shape_;
  Device& device_;
  std::byte* data_;
  HostBuffer mirror_;  // empty until it is needed
  /// The location of the current contents: the host mirror, the device, both, or neither (all zeros).
  enum class Newest { Host, Device, Both, Zeros } newest_ = Newest::Zeros;
};

}  // namespace moeplan::runtime
