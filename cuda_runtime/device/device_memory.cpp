#include "cuda_runtime/device/device_memory.hpp"

#include <algorithm>

#include "cuda_runtime/host/element_format.hpp"

namespace moeplan::runtime {

namespace {

std::size_t bytes_of(const BufferShape& shape) {
  return static_cast<std::size_t>(shape.rows * shape.columns * size_of(shape.dtype));
}

}  // namespace

DeviceBuffer::DeviceBuffer(const BufferShape& shape, Device& device, DevicePool& pool, std::vector<DeviceBuffer>& all)
    : shape_(shape), device_(device), all_(all), data_(shape.part ? nullptr : pool.allocate(bytes_of(shape))) {}

kernels::View DeviceBuffer::view() const { return {at(0), shape_.columns, format_of(shape_.dtype)}; }

void DeviceBuffer::write(std::int64_t first, std::span<const float> values) {
  if (shape_.part) return whole().write(shape_.part->first + first, values);
  take();
  store(shape_.dtype, values, mirror_.at(first));
}

void DeviceBuffer::read(std::int64_t first, std::span<float> values) {
  if (shape_.part) return whole().read(shape_.part->first + first, values);
  if (newest_ == Newest::Zeros) return std::fill(values.begin(), values.end(), 0.0F);
  if (newest_ == Newest::Host) return load(shape_.dtype, mirror_.at(first), values);
  const std::int64_t count = std::ssize(values);
  if (first < window_.first || first + count > window_.first + window_.count) {
    const std::int64_t left = shape_.rows * shape_.columns - first;
    window_.first = first;
    window_.count = std::min(left, std::max(count, kWindow / element_bytes()));
    window_.bytes.resize(static_cast<std::size_t>(window_.count * element_bytes()));
    device_.copy_out(window_.bytes, at(first));
  }
  load(shape_.dtype, window_.bytes.data() + (first - window_.first) * element_bytes(), values);
}

void DeviceBuffer::write_row(std::int64_t row, std::span<const double> values) {
  const std::vector<float> floats(values.begin(), values.end());
  write(row * shape_.columns, floats);
}

std::vector<double> DeviceBuffer::read_row(std::int64_t row) {
  std::vector<float> floats(static_cast<std::size_t>(shape_.columns));
  read(row * shape_.columns, floats);
  return {floats.begin(), floats.end()};
}

void DeviceBuffer::clear() {
  if (shape_.part) {
    const std::vector<float> zeros(static_cast<std::size_t>(shape_.rows * shape_.columns), 0.0F);
    return write(0, zeros);
  }
  mirror_ = HostBuffer();
  window_ = {};
  newest_ = Newest::Zeros;
}

kernels::View DeviceBuffer::writable(DeviceStream stream) {
  DeviceBuffer& memory = shape_.part ? whole() : *this;
  memory.give();
  memory.fill_zeros(stream);
  return view();
}

void DeviceBuffer::give() {
  if (shape_.part || newest_ == Newest::Zeros) return;
  const std::size_t bytes = bytes_of(shape_);
  if (newest_ == Newest::Host && bytes > 0) device_.copy_in(data_, {mirror_.at(0), bytes});
  mirror_ = HostBuffer();
  window_ = {};
  newest_ = Newest::Device;
}

void DeviceBuffer::fill_zeros(DeviceStream stream) {
  if (shape_.part || newest_ != Newest::Zeros) return;
  const std::size_t bytes = bytes_of(shape_);
  if (bytes > 0) device_.clear(stream, data_, bytes);
  newest_ = Newest::Device;
}

/// Makes the mirror the newest.
void DeviceBuffer::take() {
  if (newest_ == Newest::Host) return;
  mirror_ = HostBuffer(shape_);
  const std::size_t bytes = bytes_of(shape_);
  if (newest_ == Newest::Device && bytes > 0) device_.copy_out({mirror_.at(0), bytes}, data_);
  window_ = {};
  newest_ = Newest::Host;
}

}  // namespace moeplan::runtime
