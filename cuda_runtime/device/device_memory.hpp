// The buffers of one rank in device memory.
#pragma once

#include <span>
#include <vector>

#include "cuda_runtime/backend.hpp"
#include "cuda_runtime/device/device_pool.hpp"
#include "cuda_runtime/host/host_memory.hpp"

namespace moeplan::runtime {

/// Written and read by row on the host, and copied as a whole where either side has something new.
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
  /// Before the device runs: what the host wrote goes there, and what the host has is old from here on.
  void give();
  /// After that: zeros are written by the device itself, as the first thing on a stream.
  void fill_zeros(DeviceStream stream);

 private:
  void take();

  BufferShape shape_;
  Device& device_;
  std::byte* data_;
  HostBuffer mirror_;  // empty until it is needed
  /// Who has what is to be: the host's rows, the device's, both alike, or neither, where all is zero.
  enum class Newest { Host, Device, Both, Noughts } newest_ = Newest::Noughts;
};

}  // namespace moeplan::runtime
