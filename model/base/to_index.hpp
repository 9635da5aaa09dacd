// Numbers as indices of containers.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>

namespace moeplan {

/// `i`, which is not negative, as an index.
[[nodiscard]] constexpr std::size_t to_index(std::int64_t i) {
  assert(i >= 0 && "an index is not negative");
  return static_cast<std::size_t>(i);
}

}  // namespace moeplan
