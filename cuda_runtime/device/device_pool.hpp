// A memory pool of large slabs in device memory, released together on destruction.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "cuda_runtime/device/device.hpp"

namespace moeplan::runtime {

class DevicePool {
 public:
  /// Bytes per slab. assumed: 64 MiB, so that small index lists do not need a call each. Larger requests get a slab of
  /// their own.
  static constexpr std::size_t kSlab = std::size_t{64} << 20U;

  explicit DevicePool(Device& device, std::size_t slab = kSlab) : device_(device), slab_(slab) {}
  ~DevicePool();
  DevicePool(const DevicePool&) = delete;
  DevicePool& operator=(const DevicePool&) = delete;

  /// Memory aligned to 256 bytes, uninitialised.
  [[nodiscard]] std::byte* allocate(std::size_t bytes);
  /// Memory that holds a copy of these values.
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
