// Device memory in few large pieces, all given back at once.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cuda_runtime/device/device.hpp"

namespace moeplan::runtime {

class DevicePool {
 public:
  /// assumed: 64 MiB at once, so that index lists do not cost a call each; larger requests have a piece of their own.
  static constexpr std::size_t kSlab = std::size_t{64} << 20U;

  explicit DevicePool(Device& device, std::size_t slab = kSlab) : device_(device), slab_(slab) {}
  ~DevicePool();
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  /// At a multiple of 256 bytes; nothing is written there.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// With a copy of these values.
  template <class T>
  [[nodiscard]] const T* copy_of(std::span<const T> values) {
    std::byte* data = allocate(values.size_bytes());
    if (!values.empty()) device_.copy_in(data, std::as_bytes(values));
    return reinterpret_cast<const T*>(data);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  Device& device_;
  std::size_t slab_;
  std::vector<std::byte*> slabs_;
  std::byte* free_ = nullptr;
  std::size_t left_ = 0;
  std::size_t bytes_ = 0;  // of all slabs
};

}  // namespace moeplan::runtime
