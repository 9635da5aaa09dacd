// The codec kernels: rows encoded into wire formats and decoded, with the same bytes as codecs/row_codec.hpp.
#pragma once

#include <cmath>

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
    const Fp16Codec& k = *this;
    each_chunk(team, plain.view.columns, [&](std::int64_t c, int n) {
      float x[8];
      if (k.decodes) {
        load(Format::Fp16, k.values.row(item), c, n, x);
        store(k.plain.view.format, k.plain.row(item), c, n, x);
      } else {
        load(k.plain.view.format, k.plain.row(item), c, n, x);
        store(Format::Fp16, k.values.row(item), c, n, x);
      }
    });
  }
};

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
    float least = INFINITY, most = -INFINITY;
    with_format(format, true, [&](auto known) {
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8];
        load(known(format), row, c, n, x);
        for (int j = 0; j < n; ++j) {
          least = fminf(least, x[j]);
          most = fmaxf(most, x[j]);
        }
      });
    });
    least = team.least(least);
    most = team.most(most);
    const bool has_zero = zeros.view.data != nullptr;
    const float zero = has_zero ? least / 2 + most / 2 : 0.0F;
    const float reach = has_zero ? most / 2 - least / 2 : fmaxf(fabsf(least), fabsf(most));
    const float scale = reach / kSteps;
    with_format(format, true, [&](auto known) {
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8];
        load(known(format), row, c, n, x);
        std::uint8_t out[8];
        for (int j = 0; j < n; ++j) {
          const float steps = scale > 0 ? fminf(fmaxf(rintf((x[j] - zero) / scale), -kSteps), kSteps) : 0.0F;
          out[j] = static_cast<std::uint8_t>(static_cast<std::int8_t>(steps));
        }
        store_bytes(out_row, c, n, out);
      });
    });
    if (team.lane != 0) return;
    store1(Format::Fp32, scales.row(item), 0, scale);
    if (has_zero) store1(Format::Fp32, zeros.row(item), 0, zero);
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

/// The fp8 codec: a byte of E4M3 per value, a scale per block of consecutive values. An item is a block of a row.
struct Fp8BlockCodec {
  static constexpr std::int64_t kBlock = 128;

  RowView plain, values, scales;
  std::int64_t items = 0;  // items_of() the rows
  bool decodes = false;
  [[nodiscard]] std::int64_t width() const { return kBlock; }

  [[nodiscard]] static std::int64_t items_of(std::int64_t rows, std::int64_t columns) {
    return rows * ((columns + kBlock - 1) / kBlock);
  }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const std::int64_t blocks = scales.view.columns;
    decodes ? decode(team, item / blocks, item % blocks) : encode(team, item / blocks, item % blocks);
  }

 private:
  /// Calls f as each_chunk(), for the columns of a block.
  template <class Team, class F>
  MOEPLAN_BOTH void each_part(const Team& team, std::int64_t block, F f) const {
    const std::int64_t begin = block * kBlock, last = begin + kBlock, columns = plain.view.columns;
    each_chunk(team, begin, last < columns ? last : columns, columns, f);
  }

  template <class Team>
  MOEPLAN_BOTH void encode(Team& team, std::int64_t row, std::int64_t block) const {
    const Fp8BlockCodec& k = *this;
    const char* const in_row = plain.row(row);
    char* const out_row = values.row(row);
    float most = 0;
    each_part(team, block, [&](std::int64_t c, int n) {
      float x[8];
      load(k.plain.view.format, in_row, c, n, x);
      for (int j = 0; j < n; ++j) most = fmaxf(most, fabsf(x[j]));
    });
    const float scale = team.most(most) / 448.0F;
    each_part(team, block, [&](std::int64_t c, int n) {
      float x[8];
      load(k.plain.view.format, in_row, c, n, x);
      std::uint8_t out[8];
      for (int j = 0; j < n; ++j) out[j] = scale > 0 ? fp8_of(x[j] / scale) : std::uint8_t{0};
      store_bytes(out_row, c, n, out);
    });
    if (team.lane == 0) store1(Format::Fp32, scales.row(row), block, scale);
  }

  template <class Team>
  MOEPLAN_BOTH void decode(const Team& team, std::int64_t row, std::int64_t block) const {
    const Fp8BlockCodec& k = *this;
    const float scale = load1(Format::Fp32, scales.row(row), block);
    const char* const in_row = values.row(row);
    char* const out_row = plain.row(row);
    each_part(team, block, [&](std::int64_t c, int n) {
      std::uint8_t in[8];
      load_bytes(in_row, c, n, in);
      float x[8];
      for (int j = 0; j < n; ++j) x[j] = scale * from_fp8(in[j]);
      store(k.plain.view.format, out_row, c, n, x);
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
