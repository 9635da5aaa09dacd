// The team of lanes, the execution model of the kernels. The same functions execute on a GPU, in blocks of threads, and
// on a CPU, where tests check their values. Everything in this folder is C++17, the newest standard of older nvcc
// versions.
//
// A kernel processes items (rows, pieces, pairs of token and expert), each by a team of lanes. A team has
//   lane, size                            the index of this lane, and the number of lanes
//   sum(v), least(v), most(v), best(v)    reductions over the values of all lanes; every lane gets the result
//   sync()                                a barrier: earlier writes of any lane are visible to all lanes afterwards
//   scratch                               kScratchBytes of memory that all lanes share, aligned to 16 bytes
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define MOEPLAN_BOTH __host__ __device__
#else
#define MOEPLAN_BOTH
#endif
#if defined(__CUDA_ARCH__)
#define MOEPLAN_UNROLL _Pragma("unroll")
#define MOEPLAN_KEEP_LOOP _Pragma("unroll 1")
#else
#define MOEPLAN_UNROLL
#define MOEPLAN_KEEP_LOOP
#endif

namespace moeplan::kernels {

constexpr int kScratchBytes = 512;

/// A logit and its index; -1: none.
struct Best {
  float value = 0;
  std::int32_t index = -1;
};

/// Whether `a` is larger, or equal with the lower index. Any candidate is better than none.
MOEPLAN_BOTH inline bool is_better(const Best& a, const Best& b) {
  if (a.index < 0 || b.index < 0) return a.index >= 0;
  return a.value > b.value || (a.value == b.value && a.index < b.index);
}

/// Calls f(first, count) for chunks of the columns from `begin` to before `end` of a row of `columns` elements,
/// distributed over the lanes: chunks of eight elements if `columns`, and thus `begin` and `end`, are multiples of
/// eight, single elements otherwise. The counts are literals, so that what f has of each element is in registers.
template <class Team, class F>
MOEPLAN_BOTH void each_chunk(const Team& team, std::int64_t begin, std::int64_t end, std::int64_t columns, F f) {
  if (columns % 8 == 0) {
    for (std::int64_t c = begin + 8 * static_cast<std::int64_t>(team.lane); c < end; c += 8 * team.size) f(c, 8);
  } else {
    for (std::int64_t c = begin + team.lane; c < end; c += team.size) f(c, 1);
  }
}

/// The same for all columns of a row.
template <class Team, class F>
MOEPLAN_BOTH void each_chunk(const Team& team, std::int64_t columns, F f) {
  each_chunk(team, 0, columns, columns, f);
}

}  // namespace moeplan::kernels
