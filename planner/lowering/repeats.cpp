#include "planner/lowering/repeats.hpp"

#include <algorithm>

namespace moeplan::planner {

void append_repeat(Sequence& sequence, std::int64_t count, const Sequence& body) {
  if (count <= 0) return;
  if (count == 1) {
    sequence.insert(sequence.end(), body.begin(), body.end());
  } else {
    sequence.push_back({.block = {}, .count = count, .body = body});
  }
}

void append_folded(Sequence& sequence, const Sequence& steps, std::size_t longest) {
  const auto at = [&](std::size_t i) { return steps.begin() + static_cast<std::ptrdiff_t>(i); };
  for (std::size_t i = 0; i < steps.size();) {
    std::size_t best_length = 1, best_count = 1;
    for (std::size_t length = 1; length <= longest; ++length) {
      std::size_t count = 1;
      while (i + (count + 1) * length <= steps.size() && std::equal(at(i), at(i + length), at(i + count * length))) {
        ++count;
      }
      if (count > 1 && count * length > best_count * best_length) {
        best_length = length;
        best_count = count;
      }
    }
    append_repeat(sequence, static_cast<std::int64_t>(best_count), Sequence(at(i), at(i + best_length)));
    i += best_length * best_count;
  }
}

}  // namespace moeplan::planner
