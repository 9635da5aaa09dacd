// The kernels that copy, add, pack and unpack rows and elements of buffers.
#pragma once

#include "cuda_runtime/kernels/formats.hpp"

namespace moeplan::kernels {

/// A buffer, aligned to 256 bytes.
struct View {
  void* data = nullptr;
  std::int64_t columns = 0;
  Format format = Format::Fp32;

  [[nodiscard]] MOEPLAN_BOTH std::int64_t row_bytes() const { return columns * size_of(format); }
  [[nodiscard]] MOEPLAN_BOTH char* row(std::int64_t r) const { return static_cast<char*>(data) + r * row_bytes(); }
};

/// Rows of a buffer in the order in which a kernel accesses them; -1 denotes a row of zeros.
struct RowView {
  View view;
  const std::int32_t* index = nullptr;  // null: contiguous rows starting at `first`
  std::int32_t first = 0;

  [[nodiscard]] MOEPLAN_BOTH std::int32_t place(std::int64_t i) const {
    return index != nullptr ? index[i] : first + static_cast<std::int32_t>(i);
  }
  [[nodiscard]] MOEPLAN_BOTH char* row(std::int64_t i) const { return view.row(place(i)); }
};

/// Copies bytes with the widest accesses that the alignment of both addresses allows. If `from` is null, zero-fills.
template <class Team>
MOEPLAN_BOTH void copy_bytes(const Team& team, char* to, const char* from, std::int64_t bytes) {
  const auto together = reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from);
  std::int64_t done = 0;
  if (together % 16 == 0) {
    const std::int64_t words = bytes / 16;
    for (std::int64_t i = team.lane; i < words; i += team.size) {
      reinterpret_cast<Word16*>(to)[i] = from != nullptr ? reinterpret_cast<const Word16*>(from)[i] : Word16{};
    }
    done = 16 * words;
  } else if (together % 2 == 0) {
    const std::int64_t words = bytes / 2;
    for (std::int64_t i = team.lane; i < words; i += team.size) {
      reinterpret_cast<Word2*>(to)[i] = from != nullptr ? reinterpret_cast<const Word2*>(from)[i] : Word2{0};
    }
    done = 2 * words;
  }
  for (std::int64_t i = done + team.lane; i < bytes; i += team.size) to[i] = from != nullptr ? from[i] : '\0';
}

/// Row i of `out` becomes row i of `in`.
struct CopyRows {
  RowView in, out;
  std::int64_t items = 0;
  [[nodiscard]] std::int64_t width() const { return out.view.row_bytes() / 2; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    copy_bytes(team, out.row(item), in.place(item) < 0 ? nullptr : in.row(item), out.view.row_bytes());
  }
};

/// Row i of `out` becomes the sum of rows i of `a` and `b`.
struct AddRows {
  RowView a, b, out;
  std::int64_t items = 0;
  [[nodiscard]] std::int64_t width() const { return out.view.columns; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Format f = a.view.format, g = b.view.format, h = out.view.format;
    const char *const x_row = a.place(item) < 0 ? nullptr : a.row(item), *const y_row =
                                                                             b.place(item) < 0 ? nullptr : b.row(item);
    char* const z_row = out.row(item);
    const std::int64_t columns = out.view.columns;
    with_format(h, f == h && g == h, [&](auto format) {
      each_chunk(team, columns, [&](std::int64_t c, int n) {
        float x[8] = {}, y[8] = {};
        if (x_row != nullptr) load(format(f), x_row, c, n, x);
        if (y_row != nullptr) load(format(g), y_row, c, n, y);
        for (int j = 0; j < n; ++j) x[j] += y[j];
        store(format(h), z_row, c, n, x);
      });
    });
  }
};

/// Consecutive elements of a buffer and their position in the packed data.
struct Piece {
  std::int64_t first = 0;
  std::int64_t packed = 0;
  std::int64_t count = 0;
};

/// Largest number of elements of a piece. assumed: as much as a block of threads moves in a few rounds.
constexpr std::int64_t kLongestPiece = 8192;

enum class Move : std::int32_t { Pack, Unpack, Clear };

/// Packs pieces of a buffer, unpacks them, or zero-fills them.
struct MovePieces {
  void* buffer = nullptr;
  void* packed = nullptr;
  const Piece* pieces = nullptr;
  std::int64_t items = 0;
  std::int32_t element_bytes = 1;
  Move move = Move::Pack;
  std::int64_t longest = kLongestPiece;
  [[nodiscard]] std::int64_t width() const { return longest * element_bytes / 2; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Piece p = pieces[item];
    char* there = static_cast<char*>(buffer) + p.first * element_bytes;
    char* here = packed != nullptr ? static_cast<char*>(packed) + p.packed * element_bytes : nullptr;
    copy_bytes(team, move == Move::Pack ? here : there,
               move == Move::Pack     ? there
               : move == Move::Unpack ? here
                                      : nullptr,
               p.count * element_bytes);
  }
};

/// Adds packed elements to pieces of a buffer.
struct AddPieces {
  void* buffer = nullptr;
  const void* packed = nullptr;
  const Piece* pieces = nullptr;
  std::int64_t items = 0;
  Format format = Format::Fp32;
  std::int64_t longest = kLongestPiece;
  [[nodiscard]] std::int64_t width() const { return longest; }

  template <class Team>
  MOEPLAN_BOTH void run(std::int64_t item, Team& team) const {
    const Piece p = pieces[item];
    char* to = static_cast<char*>(buffer) + p.first * size_of(format);
    const char* from = static_cast<const char*>(packed) + p.packed * size_of(format);
    const bool is_aligned = (reinterpret_cast<std::uintptr_t>(to) | reinterpret_cast<std::uintptr_t>(from)) % 16 == 0;
    const std::int64_t in_eights = is_aligned ? p.count / 8 * 8 : 0;
    const Format f = format;
    const auto add = [&](std::int64_t c, int n) {
      float x[8], y[8];
      load(f, to, c, n, x);
      load(f, from, c, n, y);
      for (int j = 0; j < n; ++j) x[j] += y[j];
      store(f, to, c, n, x);
    };
    each_chunk(team, in_eights, add);
    for (std::int64_t c = in_eights + team.lane; c < p.count; c += team.size) add(c, 1);
  }
};

}  // namespace moeplan::kernels
