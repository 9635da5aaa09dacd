// The buffers of a rank in host memory: elements in the buffer's format, computed with in fp32.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cuda_runtime/backend.hpp"

namespace moeplan::runtime {

/// Whether CPU ranks support buffers of this format, for computation or at least for copying and encoding (fp8: no).
[[nodiscard]] bool has_host_format(Dtype dtype);

/// Conversion between memory and fp32. `bytes` has size_of(dtype) bytes per value. Not for int8, whose bytes are
/// interpreted by codecs only.
void load(Dtype dtype, const std::byte* bytes, std::span<float> values);
void store(Dtype dtype, std::span<const float> values, std::byte* bytes);
/// Adds values to those at `bytes`, in fp32, and rounds the sums to `dtype`.
void add_to(Dtype dtype, const std::byte* values, std::size_t count, std::byte* bytes);

class HostBuffer {
 public:
  HostBuffer() = default;
  HostBuffer(HostBuffer&&) = default;
  HostBuffer& operator=(HostBuffer&&) = default;
  HostBuffer(const HostBuffer&) = delete;
  HostBuffer& operator=(const HostBuffer&) = delete;
  ~HostBuffer() = default;
  explicit HostBuffer(const BufferShape& shape) : shape_(shape), own_(bytes_of(shape)), data_(own_) {}
  /// A buffer in the memory of another one, from this element of it.
  HostBuffer(const BufferShape& shape, HostBuffer& whole, std::int64_t first)
      : shape_(shape), data_(whole.at(first), bytes_of(shape)) {}

  [[nodiscard]] const BufferShape& shape() const { return shape_; }
  [[nodiscard]] std::size_t columns() const { return static_cast<std::size_t>(shape_.columns); }
  [[nodiscard]] std::size_t element_bytes() const { return static_cast<std::size_t>(size_of(shape_.dtype)); }
  [[nodiscard]] std::size_t row_bytes() const { return columns() * element_bytes(); }
  [[nodiscard]] std::byte* at(std::int64_t element) {
    return data_.data() + static_cast<std::size_t>(element) * element_bytes();
  }
  [[nodiscard]] std::byte* row(std::int64_t row) { return data_.data() + static_cast<std::size_t>(row) * row_bytes(); }
  [[nodiscard]] bool is_fp32() const { return shape_.dtype == Dtype::Fp32 || shape_.dtype == Dtype::Tf32; }
  /// The elements from a row on; requires an fp32 buffer.
  [[nodiscard]] float* floats(std::int64_t first_row) { return reinterpret_cast<float*>(row(first_row)); }

  /// Loads and stores one row. Row -1 loads zeros.
  void load_row(std::int64_t r, std::span<float> values);
  void store_row(std::int64_t r, std::span<const float> values) { store(shape_.dtype, values, row(r)); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return data_; }
  void clear() { std::fill(data_.begin(), data_.end(), std::byte{}); }

 private:
  [[nodiscard]] static std::size_t bytes_of(const BufferShape& shape) {
    return static_cast<std::size_t>(shape.rows * shape.columns * size_of(shape.dtype));
  }

  BufferShape shape_{};
  std::vector<std::byte> own_;
  std::span<std::byte> data_;
};

/// Buffers of these shapes, zero-filled.
[[nodiscard]] std::vector<HostBuffer> host_buffers(std::span<const BufferShape> shapes);

}  // namespace moeplan::runtime
