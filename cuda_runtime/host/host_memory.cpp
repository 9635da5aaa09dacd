#include "cuda_runtime/host/host_memory.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>

#include "cuda_runtime/reference/number_formats.hpp"

namespace moeplan::runtime {

bool has_host_format(Dtype dtype) { return dtype != Dtype::Fp8; }

void load(Dtype dtype, const std::byte* bytes, std::span<float> values) {
  if (size_of(dtype) == 4) {
    std::memcpy(values.data(), bytes, values.size_bytes());
    return;
  }
  if (dtype == Dtype::Fp8) {
    std::transform(bytes, bytes + values.size(), values.begin(),
                   [](std::byte b) { return from_fp8(std::to_integer<std::uint8_t>(b)); });
    return;
  }
  assert(size_of(dtype) == 2 && "a format that needs a scale");
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    values[i] = dtype == Dtype::Bf16 ? from_bf16(bits) : from_fp16(bits);
  }
}

void store(Dtype dtype, std::span<const float> values, std::byte* bytes) {
  if (size_of(dtype) == 4) {
    std::memcpy(bytes, values.data(), values.size_bytes());
    return;
  }
  if (dtype == Dtype::Fp8) {
    std::transform(values.begin(), values.end(), bytes, [](float v) { return std::byte{to_fp8(v)}; });
    return;
  }
  assert(size_of(dtype) == 2 && "a format that needs a scale");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t bits = dtype == Dtype::Bf16 ? to_bf16(values[i]) : to_fp16(values[i]);
    std::memcpy(bytes + 2 * i, &bits, sizeof bits);
  }
}

void add_to(Dtype dtype, const std::byte* values, std::size_t count, std::byte* bytes) {
  constexpr std::size_t kAtOnce = 256;
  std::array<float, kAtOnce> a, b;
  const auto element = static_cast<std::size_t>(size_of(dtype));
  for (std::size_t first = 0; first < count; first += kAtOnce) {
    const std::size_t n = std::min(kAtOnce, count - first);
    load(dtype, values + first * element, std::span(a).first(n));
    load(dtype, bytes + first * element, std::span(b).first(n));
    for (std::size_t i = 0; i < n; ++i) b[i] += a[i];
    store(dtype, std::span(b).first(n), bytes + first * element);
  }
}

std::vector<HostBuffer> host_buffers(std::span<const BufferShape> shapes) {
  std::vector<HostBuffer> out(shapes.size());
  for (std::size_t b = 0; b < shapes.size(); ++b) {
    if (!shapes[b].part) out[b] = HostBuffer(shapes[b]);
  }
  for (std::size_t b = 0; b < shapes.size(); ++b) {
    if (const auto& part = shapes[b].part) out[b] = HostBuffer(shapes[b], out[part->of.index()], part->first);
  }
  return out;
}

void HostBuffer::load_row(std::int64_t r, std::span<float> values) {
  if (r < 0) return std::fill(values.begin(), values.end(), 0.0F);
  load(shape_.dtype, row(r), values);
}

}  // namespace moeplan::runtime
