// Rows that a kernel passes over more than once: what a lane can hold in registers is loaded once.
#pragma once

#include <cstddef>

#include "cuda_runtime/kernels/formats.hpp"

namespace moeplan::kernels {

/// Chunks of a row that a lane holds: of bf16, in 16 registers. If a kernel held other formats too, the compiler would
/// give it twice the registers, for all of them.
template <class FormatOf>
constexpr int kHeldChunks = 0;
template <>
constexpr int kHeldChunks<KnownFormat<Format::Bf16>> = 4;

/// The columns from `begin` to before `end` of a row. `FormatOf`: KnownFormat or AnyFormat.
template <class FormatOf>
class HeldRow {
 public:
  template <class Team>
  MOEPLAN_BOTH HeldRow(const Team& team, FormatOf /*of*/, Format format, const char* row, std::int64_t begin,
                       std::int64_t end, std::int64_t columns)
      : format_(format), row_(in_memory(row)), begin_(begin), end_(end), columns_(columns) {
    each(team, [&](int held, std::int64_t c, int) {
      if (held >= 0) chunks_[held] = load8(FormatOf()(format_), row_, c);
    });
  }

  /// Calls f(held, first, count) as each_chunk() calls f(first, count). `held`: the chunk's number among those that the
  /// lane holds, which the compiler knows; -1 if it is none of them.
  template <class Team, class F>
  MOEPLAN_BOTH void each(const Team& team, F f) const {
    if (columns_ % 8 == 0) {
      const std::int64_t first = begin_ + 8 * static_cast<std::int64_t>(team.lane), step = 8 * team.size;
      MOEPLAN_UNROLL
      for (int i = 0; i < kHeld; ++i) {
        if (first + i * step < end_) f(i, first + i * step, 8);
      }
      MOEPLAN_KEEP_LOOP
      for (std::int64_t c = first + kHeld * step; c < end_; c += step) f(-1, c, 8);
    } else {
      MOEPLAN_KEEP_LOOP
      for (std::int64_t c = begin_ + team.lane; c < end_; c += team.size) f(-1, c, 1);
    }
  }

  /// The elements of such a chunk.
  MOEPLAN_BOTH void get(int held, std::int64_t c, int count, float (&values)[8]) const {
    if (held >= 0) return unpack(FormatOf()(format_), chunks_[held], values);
    load(FormatOf()(format_), row_, c, count, values);
  }

 private:
  static constexpr int kHeld = kHeldChunks<FormatOf>;

  Format format_;
  const char* row_;
  std::int64_t begin_, end_, columns_;
  Eight chunks_[static_cast<std::size_t>(kHeld > 0 ? kHeld : 1)];
};

}  // namespace moeplan::kernels
