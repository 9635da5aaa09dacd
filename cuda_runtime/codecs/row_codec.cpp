#include "cuda_runtime/codecs/row_codec.hpp"

#include <cassert>
#include <vector>

namespace moeplan::runtime {

void pass_through(const RowCodec& codec, std::size_t columns, std::span<float> values) {
  assert(codec.takes(columns) && values.size() % columns == 0 && "rows of another length");
  std::vector<std::byte> encoded(codec.value_bytes(columns));
  std::vector<float> numbers(codec.row_numbers(columns));
  for (std::size_t r = 0; r < values.size() / columns; ++r) {
    const std::span<float> row = values.subspan(r * columns, columns);
    codec.encode(row, encoded, numbers);
    codec.decode(encoded, numbers, row);
  }
}

}  // namespace moeplan::runtime
