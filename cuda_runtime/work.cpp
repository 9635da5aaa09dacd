#include "cuda_runtime/work.hpp"

namespace moeplan::runtime {

bool RowList::is_contiguous() const {
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 0 || rows[i] != rows.front() + static_cast<std::int32_t>(i)) return false;
  }
  return true;
}

void Packed::append(Run run) {
  if (run.count == 0) return;
  if (!runs.empty() && runs.back().first + runs.back().count == run.first) {
    runs.back().count += run.count;
  } else {
    runs.push_back(run);
  }
}

std::int64_t Packed::elements() const {
  std::int64_t sum = 0;
  for (const Run& r : runs) sum += r.count;
  return sum;
}

}  // namespace moeplan::runtime
