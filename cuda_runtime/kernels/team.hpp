// What kernels are written with: the same functions run on a GPU, in blocks of threads, and on a CPU, where tests check
// their values. Everything in this folder is C++17, because older nvcc is no newer.
//
// A kernel works on items (rows, pieces, pairs of a token and an expert), each by a team of lanes. A team has
//   lane, size            which lane this is, of how many
//   sum(v), least(v), most(v), best(v)    of all lanes' values, known to all of them
//   sync()                what lanes wrote before is there for all of them after
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define MOEPLAN_BOTH __host__ __device__
#else
#define MOEPLAN_BOTH
#endif

namespace moeplan::kernels {

/// A logit and its place; place -1: none.
struct Best {
  float value = 0;
  std::int32_t index = -1;
};

/// The larger one, of equal ones that of the lower index; any rather than none.
MOEPLAN_BOTH inline bool is_better(const Best& a, const Best& b) {
  if (a.index < 0 || b.index < 0) return a.index >= 0;
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

/// A team of one.
struct Alone {
  int lane = 0;
  int size = 1;
  MOEPLAN_BOTH float sum(float v) { return v; }
  MOEPLAN_BOTH float least(float v) { return v; }
  MOEPLAN_BOTH float most(float v) { return v; }
  MOEPLAN_BOTH Best best(Best v) { return v; }
  MOEPLAN_BOTH void sync() {}
};

/// Calls f(first, count) for `columns` elements, shared among the lanes: eight at a time where that leaves none over,
/// else one at a time.
template <class Team, class F>
MOEPLAN_BOTH void each_chunk(const Team& team, std::int64_t columns, F f) {
  if (columns % 8 == 0) {
    for (std::int64_t c = 8 * static_cast<std::int64_t>(team.lane); c < columns; c += 8 * team.size) f(c, 8);
  } else {
    for (std::int64_t c = team.lane; c < columns; c += team.size) f(c, 1);
  }
}

}  // namespace moeplan::kernels
