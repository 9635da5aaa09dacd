#include "cuda_runtime/device/device_memory.hpp"

#include "cuda_runtime/device/device_formats.hpp"

namespace moeplan::runtime {

namespace {

std::size_t bytes_of(const BufferShape& shape) {
  return static_cast<std::size_t>(shape.rows * shape.columns * size_of(shape.dtype));
}

}  // namespace

DeviceBuffer::DeviceBuffer(const BufferShape& shape, Device& device, DevicePool& pool)
    : shape_(shape), device_(device), data_(pool.allocate(bytes_of(shape))) {}

kernels::View DeviceBuffer::view() const { return {data_, shape_.columns, format_of(shape_.dtype)}; }

void DeviceBuffer::write_row(std::int64_t row, std::span<const double> values) {
  take();
  const std::vector<float> floats(values.begin(), values.end());
  mirror_.store_row(row, floats);
  newest_ = Newest::Host;
}

std::vector<double> DeviceBuffer::read_row(std::int64_t row) {
  take();
  std::vector<float> floats(mirror_.columns());
  mirror_.load_row(row, floats);
  return {floats.begin(), floats.end()};
}

void DeviceBuffer::clear() {
  mirror_ = HostBuffer();
  newest_ = Newest::Zeros;
}

void DeviceBuffer::give() {
  if (newest_ == Newest::Zeros) return;
  const std::size_t bytes = bytes_of(shape_);
  if (newest_ == Newest::Host && bytes > 0) device_.copy_in(data_, {mirror_.at(0), bytes});
  mirror_ = HostBuffer();
  newest_ = Newest::Device;
}

void DeviceBuffer::fill_zeros(DeviceStream stream) {
  if (newest_ != Newest::Zeros) return;
  const std::size_t bytes = bytes_of(shape_);
  if (bytes > 0) device_.clear(stream, data_, bytes);
  clear();
  newest_ = Newest::Device;
}

/// Downloads the rows to the mirror if the device is newer.
void DeviceBuffer::take() {
  if (newest_ == Newest::Zeros) {
    mirror_ = HostBuffer(shape_);
    newest_ = Newest::Host;
  }
  if (newest_ != Newest::Device) return;
  mirror_ = HostBuffer(shape_);
  const std::size_t bytes = bytes_of(shape_);
  if (bytes > 0) device_.copy_out({mirror_.at(0), bytes}, data_);
  newest_ = Newest::Both;
}

}  // namespace moeplan::runtime
