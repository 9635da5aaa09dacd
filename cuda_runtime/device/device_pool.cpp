#include "cuda_runtime/device/device_pool.hpp"

#include <algorithm>

namespace moeplan::runtime {

DevicePool::~DevicePool() {
  for (std::byte* slab : slabs_) {
    try {
      device_.release(slab);
    } catch (const std::exception&) {
      // Ignored: a failed device has nothing to release.
    }
  }
}

std::byte* DevicePool::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  const std::size_t rounded = std::max<std::size_t>(1, (bytes + kAlignment - 1) / kAlignment) * kAlignment;
  if (rounded > left_) {
    const std::size_t size = std::max(rounded, slab_);
    slabs_.push_back(device_.allocate(size));
    bytes_ += size;
    if (size == rounded) return slabs_.back();  // the previous slab's remainder stays in use
    free_ = slabs_.back();
    left_ = size;
  }
  std::byte* out = free_;
  free_ += rounded;
  left_ -= rounded;
  return out;
}

}  // namespace moeplan::runtime
