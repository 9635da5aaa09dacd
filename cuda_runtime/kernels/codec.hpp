// The codec kernels: rows encoded into wire formats and decoded, with the same bytes as codecs/row_codec.hpp.
#pragma once

#include <cmath>

#include "cuda_runtime/kernels/held_row.hpp"
#include "cuda_runtime/kernels/rows.hpp"
#include "cuda_runtime/kernels/zfp_block.hpp"

namespace moeplan::kernels {

/// The fp16 codec: IEEE 754 binary16.
struct Fp16Codec {
  RowView plain, values;
  std::int64_t items = 0;
  bool decodes = false;
  [[nodiscard]] std::int64_t width() const { return plain.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format format = plain.view.format;
    char *const plain_row = plain.row(item), *const encoded_row = values.row(item);
    const std::int64_t columns = plain.view.columns;
    const bool is_decoded = decodes;
    with_format(format, true, [&](auto known) {
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8];
        if (is_decoded) {
          load(Format::Fp16, encoded_row, c, n, x);
          store(known(format), plain_row, c, n, x);
        } else {
          load(known(format), plain_row, c, n, x);
          store(Format::Fp16, encoded_row, c, n, x);
        }
      });
    });
  }
};

/// The steps of one of a scale: 1 / scale, which is finite; 0 for scales that are no normal numbers, whose values
/// become 0.
MOEPLAN_BOTH inline float inverse_of(float scale) { return scale < 0x1p-126F ? 0.0F : 1.0F / scale; }

/// The int8 codec: one byte per value, one scale per row and, if `zeros` has data, one zero point per row.
struct Int8Codec {
  RowView plain, values, scales, zeros;
  std::int64_t items = 0;
  bool decodes = false;
  [[nodiscard]] std::int64_t width() const { return plain.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    decodes ? decode(item, team) : encode(item, team);
  }

 private:
  template <class Team>
  MOEPLAN_BOTH void encode(std::int64_t item, Team& team) const {
    constexpr float kSteps = 127;
    const Format format = plain.view.format;
    const std::int64_t columns = plain.view.columns;
    const char* const row = plain.row(item);
    char* const out_row = values.row(item);
    const bool has_zero = zeros.view.data != nullptr;
    const Int8Codec& k = *this;
    with_format(format, true, [&](auto known) {
      const HeldRow held_row(team, known, format, row, 0, columns, columns);
      float least = INFINITY, most = -INFINITY;
      held_row.each(team, [&](int held, std::int64_t c, int n) {
        float x[8];
        held_row.get(held, c, n, x);
        for (int j = 0; j < n; ++j) {
          least = fminf(least, x[j]);
          most = fmaxf(most, x[j]);
        }
      });
      least = team.least(least);
      most = team.most(most);
      const float zero = has_zero ? least / 2 + most / 2 : 0.0F;
      const float reach = has_zero ? most / 2 - least / 2 : fmaxf(fabsf(least), fabsf(most));
      const float scale = reach / kSteps, steps_each = inverse_of(scale);
      held_row.each(team, [&](int held, std::int64_t c, int n) {
        float x[8];
        held_row.get(held, c, n, x);
        std::uint8_t out[8];
        for (int j = 0; j < n; ++j) {
          const float steps = fminf(fmaxf(rintf((x[j] - zero) * steps_each), -kSteps), kSteps);
          out[j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(steps));
        }
        store_bytes(out_row, c, n, out);
      });
      if (team.lane != 0) return;
      store1(Format::Fp32, k.scales.row(item), 0, scale);
      if (has_zero) store1(Format::Fp32, k.zeros.row(item), 0, zero);
    });
  }

  template <class Team>
  MOEPLAN_BOTH void decode(std::int64_t item, Team& team) const {
    const float scale = load1(Format::Fp32, scales.row(item), 0);
    const float zero = zeros.view.data != nullptr ? load1(Format::Fp32, zeros.row(item), 0) : 0.0F;
    const Format format = plain.view.format;
    const std::int64_t columns = plain.view.columns;
    const char* const in_row = values.row(item);
    char* const row = plain.row(item);
    with_format(format, true, [&](auto known) {
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        std::uint8_t in[8];
        load_bytes(in_row, c, n, in);
        float x[8];
        for (int j = 0; j < n; ++j) x[j] = zero + scale * static_cast<float>(static_cast<std::int8_t>(in[j]));
        store(known(format), row, c, n, x);
      });
    });
  }
};

/// The fp8 codec: a byte of E4M3 per value, a scale per block of consecutive values. An item is some blocks of a row.
struct Fp8BlockCodec {
  static constexpr std::int64_t kBlock = 128, kColumns = 8 * kBlock;

  RowView plain, values, scales;
  std::int64_t items = 0;  // items_of() the rows
  bool decodes = false;
  [[nodiscard]] std::int64_t width() const { return plain.view.columns < kColumns ? plain.view.columns : kColumns; }

  [[nodiscard]] static std::int64_t items_of(std::int64_t rows, std::int64_t columns) {
    return rows * ((columns + kColumns - 1) / kColumns);
  }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const std::int64_t columns = plain.view.columns, parts = (columns + kColumns - 1) / kColumns;
    const std::int64_t row = item / parts, begin = item % parts * kColumns;
    const std::int64_t end = begin + kColumns < columns ? begin + kColumns : columns;
    const Format format = plain.view.format;
    const Fp8BlockCodec& k = *this;
    with_format(format, true, [&](auto known) {
      k.decodes ? k.decode(team, known, row, begin, end) : k.encode(team, known, row, begin, end);
    });
  }

 private:
  static constexpr std::int64_t kEights = kColumns / 8, kEightsOfBlock = kBlock / 8;
  static_assert(kEights * sizeof(float) <= kScratchBytes);

  template <class Team, class FormatOf>
  MOEPLAN_BOTH void encode(Team& team, FormatOf known, std::int64_t row, std::int64_t begin, std::int64_t end) const {
    const std::int64_t columns = plain.view.columns, eights = (end - begin + 7) / 8;
    const HeldRow held_row(team, known, plain.view.format, plain.row(row), begin, end, columns);
    auto* const most = reinterpret_cast<float*>(team.scratch);  // of each eight elements
    team.sync();                                                // lanes may still read those of another item
    for (std::int64_t i = eights + team.lane; i < kEights; i += team.size) most[i] = 0;
    if (columns % 8 != 0) {
      for (std::int64_t i = team.lane; i < eights; i += team.size) most[i] = most_of(row, begin + 8 * i, end);
    }
    held_row.each(team, [&](int held, std::int64_t c, int n) {
      if (n == 1) return;
      float x[8], largest = 0;
      held_row.get(held, c, n, x);
      for (int j = 0; j < 8; ++j) largest = fmaxf(largest, fabsf(x[j]));
      most[(c - begin) / 8] = largest;
    });
    team.sync();
    char* const scales_row = scales.row(row);
    for (std::int64_t b = team.lane; begin + b * kBlock < end; b += team.size) {
      float largest = 0;
      MOEPLAN_UNROLL
      for (int i = 0; i < kEightsOfBlock; ++i) largest = fmaxf(largest, most[b * kEightsOfBlock + i]);
      const float scale = largest / 448.0F;
      store1(Format::Fp32, scales_row, begin / kBlock + b, scale);
      most[b * kEightsOfBlock] = inverse_of(scale);
    }
    team.sync();
    char* const out_row = values.row(row);
    held_row.each(team, [&](int held, std::int64_t c, int n) {
      float x[8];
      held_row.get(held, c, n, x);
      const float steps_each = most[(c - begin) / kBlock * kEightsOfBlock];
      for (int j = 0; j < n; ++j) x[j] *= steps_each;
      store_fp8(out_row, c, n, x);
    });
  }

  /// The largest magnitude of eight elements, or of those before `end`.
  MOEPLAN_BOTH float most_of(std::int64_t row, std::int64_t begin, std::int64_t end) const {
    float largest = 0;
    for (std::int64_t c = begin; c < end && c < begin + 8; ++c) {
      largest = fmaxf(largest, fabsf(load1(plain.view.format, plain.row(row), c)));
    }
    return largest;
  }

  template <class Team, class FormatOf>
  MOEPLAN_BOTH void decode(const Team& team, FormatOf known, std::int64_t row, std::int64_t begin,
                           std::int64_t end) const {
    const Format format = plain.view.format;
    const char *const in_row = values.row(row), *const scales_row = scales.row(row);
    char* const out_row = plain.row(row);
    each_chunk(team, begin, end, plain.view.columns, [&](std::int64_t c, int n) {
      const float scale = load1(Format::Fp32, scales_row, c / kBlock);
      float x[8];
      load_fp8(in_row, c, n, x);
      for (int j = 0; j < n; ++j) x[j] *= scale;
      store(known(format), out_row, c, n, x);
    });
  }
};

/// The zfp codec at a fixed rate of `bits` per value, 3 to 32. Two blocks together end at a byte boundary, so a lane
/// processes pairs of blocks.
struct ZfpCodec {
  RowView plain, values;
  std::int64_t items = 0;
  std::int32_t bits = 8;
  bool decodes = false;
  [[nodiscard]] std::int64_t width() const { return plain.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const std::int64_t blocks = plain.view.columns / kZfpBlock;
    auto* row = reinterpret_cast<std::uint8_t*>(values.row(item));
    for (std::int64_t pair = team.lane; 2 * pair < blocks; pair += team.size) {
      const bool has_second = 2 * pair + 1 < blocks;
      const int both = (has_second ? 2 : 1) * kZfpBlock * bits, bytes = (both + 7) / 8;
      std::uint8_t* at = row + pair * bits;
      decodes ? decode(item, 2 * pair, has_second, at, bytes) : encode(item, 2 * pair, has_second, at, bytes);
    }
  }

 private:
  MOEPLAN_BOTH void encode(std::int64_t item, std::int64_t block, bool has_second, std::uint8_t* out, int bytes) const {
    const int block_bits = kZfpBlock * bits;
    ZfpBits parts[2];
    for (int b = 0; b < (has_second ? 2 : 1); ++b) {
      float x[4];
      for (int j = 0; j < 4; ++j) x[j] = load1(plain.view.format, plain.row(item), (block + b) * kZfpBlock + j);
      parts[b] = zfp_encoded(x, block_bits);
      parts[b].place = 0;
    }
    for (int i = 0; i < bytes; ++i) {
      std::uint32_t byte = 0;
      for (int j = 0; j < 8; ++j) {
        const int bit = 8 * i + j;
        if (bit < block_bits)
          byte |= parts[0].read() << static_cast<unsigned>(j);
        else if (bit < 2 * block_bits && has_second)
          byte |= parts[1].read() << static_cast<unsigned>(j);
      }
      out[i] = static_cast<std::uint8_t>(byte);
    }
  }

  MOEPLAN_BOTH void decode(std::int64_t item, std::int64_t block, bool has_second, const std::uint8_t* in,
                           int bytes) const {
    const int block_bits = kZfpBlock * bits;
    ZfpBits parts[2];
    for (int i = 0; i < bytes; ++i) {
      for (int j = 0; j < 8; ++j) {
        const int bit = 8 * i + j;
        const std::uint32_t value = static_cast<std::uint32_t>(in[i]) >> static_cast<unsigned>(j) & 1U;
        if (bit < block_bits)
          parts[0].write(value);
        else if (bit < 2 * block_bits)
          parts[1].write(value);
      }
    }
    for (int b = 0; b < (has_second ? 2 : 1); ++b) {
      float x[4];
      parts[b].place = 0;
      zfp_decode(parts[b], block_bits, x);
      for (int j = 0; j < 4; ++j) store1(plain.view.format, plain.row(item), (block + b) * kZfpBlock + j, x[j]);
    }
  }
};

}  // namespace moeplan::kernels
