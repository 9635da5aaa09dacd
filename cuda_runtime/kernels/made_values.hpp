// Made values: numbers of a counter-based generator. Value i depends on i alone and has the same bits on a GPU and on a
// CPU, so that any rank can make any part of a layer's weights where it needs them.
#pragma once

#include "cuda_runtime/kernels/rows.hpp"

namespace moeplan::kernels {

/// Four uniform numbers of 16 bits have a sum of mean 2 (2^16 - 1) and variance 4 (2^32 - 1) / 12.
constexpr std::int32_t kMadeMean = 2 * 0xffff;
constexpr double kMadeVariance = 4294967295.0 / 3;

/// Value `i`, before it is scaled: the sum of four uniform numbers, whose distribution is close to normal, less its
/// mean. The bits are those of SplitMix64 (model/base/random.hpp) after i steps from zero.
MOEPLAN_BOTH inline float made_value(std::uint64_t i) {
  std::uint64_t z = i * 0x9e3779b97f4a7c15ULL;
  z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27U)) * 0x94d049bb133111ebULL;
  z ^= z >> 31U;
  const std::uint64_t sum = (z & 0xffffU) + (z >> 16U & 0xffffU) + (z >> 32U & 0xffffU) + (z >> 48U);
  return static_cast<float>(static_cast<std::int32_t>(sum) - kMadeMean);
}

/// Consecutive elements that become consecutive made values.
struct MadeRun {
  std::int64_t to = 0;  // the first element
  std::int64_t count = 0;
  std::uint64_t first = 0;  // the number of its value
  std::int64_t one = -1;    // the element of the run that becomes 1 instead; outside of it: none
};

/// Elements become mean + scale x made value. The sum is exact, and so the bits are the same with and without fused
/// multiply-add, if `mean` or `scale` is 0, or if `mean` is 1 and `scale` a power of two from 2^-23 to 2^-18, as must
/// be: made values are whole numbers below 2^17.
struct MakeValues {
  View buffer;
  const MadeRun* runs = nullptr;
  std::int64_t items = 0;
  float mean = 0, scale = 1;
  std::int64_t columns = 0, first_column = 0;  // elements are those of these columns of each row; 0 columns: all
  [[nodiscard]] std::int64_t width() const { return kLongestPiece; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const MadeRun r = runs[item];
    const MakeValues& k = *this;
    const auto make = [&](std::int64_t c, int n) {
      float x[8] = {};
      for (int j = 0; j < n; ++j) {
        x[j] = k.mean + k.scale * made_value(r.first + static_cast<std::uint64_t>(c + j));
        if (c + j == r.one) x[j] = 1;
      }
      store(k.buffer.format, k.buffer.data, k.place(r.to + c), n, x);
    };
    const std::int64_t in_eights = has_eights(r) ? r.count / 8 * 8 : 0;
    each_chunk(team, in_eights, make);
    for (std::int64_t c = in_eights + team.lane; c < r.count; c += team.size) make(c, 1);
  }

 private:
  [[nodiscard]] MOEPLAN_BOTH std::int64_t place(std::int64_t element) const {
    return columns == 0 ? element : element / columns * buffer.columns + first_column + element % columns;
  }
  /// Whether eight elements of a run are next to each other, from an address on that is a multiple of 16 bytes.
  [[nodiscard]] MOEPLAN_BOTH bool has_eights(const MadeRun& r) const {
    const std::int64_t together = r.to | columns | first_column | (columns == 0 ? 0 : buffer.columns);
    return together % 8 == 0 && reinterpret_cast<std::uintptr_t>(buffer.data) % 16 == 0;
  }
};

}  // namespace moeplan::kernels
