#include "cuda_runtime/device/device_memory.hpp"

#include "cuda_runtime/device/device_formats.hpp"

namespace moeplan {

namespace {

std::size_t bytes_of(const BufferShape& shape) {
  return static_cast<std::size_t>(shape.rows * shape.columns * size_of(shape.dtype));
}

}  // namespace

DeviceBuffer::DeviceBuffer(const BufferShape& shape, Device& device, DevicePool& pool)
    : shape_(shape), device_(device), data_(pool.allocate(bytes_of(shape))), mirror_(shape) {}

kernels::View DeviceBuffer::view() const { return {data_, shape_.columns, format_of(shape_.dtype)}; }

void DeviceBuffer::write_row(std::int64_t row, std::span<const double> values) {
  take();
  const std::vector<float> floats(values.begin(), values.end());
  mirror_.store_row(row, floats);
  newer_ = Newer::Host;
}

std::vector<double> DeviceBuffer::read_row(std::int64_t row) {
  take();
  std::vector<float> floats(mirror_.columns());
  mirror_.load_row(row, floats);
  return {floats.begin(), floats.end()};
}

void DeviceBuffer::clear() {
  if (newer_ == Newer::Device) mirror_ = HostBuffer(shape_);
  mirror_.clear();
  newer_ = Newer::Host;
}

void DeviceBuffer::give() {
  const std::size_t bytes = bytes_of(shape_);
  if (newer_ == Newer::Host && bytes > 0) device_.copy_in(data_, {mirror_.at(0), bytes});
  mirror_ = HostBuffer();
  newer_ = Newer::Device;
}

void DeviceBuffer::take() {
  if (newer_ != Newer::Device) return;
  mirror_ = HostBuffer(shape_);
  const std::size_t bytes = bytes_of(shape_);
  if (bytes > 0) device_.copy_out({mirror_.at(0), bytes}, data_);
  newer_ = Newer::Neither;
}

}  // namespace moeplan
