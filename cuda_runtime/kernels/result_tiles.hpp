// Tiles of the results of several matrix products, and the blocks of threads that compute them.
#pragma once

#include "cuda_runtime/kernels/team.hpp"

namespace moeplan::kernels {

/// How many tiles of this length a matrix has along a dimension.
MOEPLAN_BOTH constexpr int tiles_along(int length, int tile) { return length / tile + (length % tile > 0 ? 1 : 0); }

/// A tile of a matrix that is divided into rows and columns of tiles.
struct TilePlace {
  int row, column;
};

/// The place of tile `index`, in bands of 16 rows of tiles, and in these by columns: the tiles computed at one time
/// share rows of A and columns of B, which are then read from L2.
MOEPLAN_BOTH inline TilePlace tile_place(int index, int rows, int columns) {
  constexpr int kBand = 16;
  const int band = index / (kBand * columns);
  const int left = rows - band * kBand, height = left < kBand ? left : kBand;
  const int within = index - band * kBand * columns;
  return {band * kBand + within % height, within / height};
}

/// Tiles dealt to blocks in rounds: in a round each block takes every `blocks`-th tile, up to `tiles_of_block`. Blocks
/// of a later round start as earlier ones end, so that blocks of an urgent kernel find room after the time of one.
struct TileRounds {
  int tiles;           // at least one
  int blocks;          // of a round
  int tiles_of_block;  // at least one

  /// The blocks that have a tile, of all rounds.
  MOEPLAN_BOTH int all_blocks() const {
    const int of_round = blocks * tiles_of_block, whole = (tiles - 1) / of_round;
    const int left = tiles - whole * of_round;
    return whole * blocks + (left < blocks ? left : blocks);
  }
  MOEPLAN_BOTH int first(int block) const { return block / blocks * blocks * tiles_of_block + block % blocks; }
  /// The end of the block's tiles, first(block) + i * blocks.
  MOEPLAN_BOTH int end(int block) const {
    const int of_round = (block / blocks + 1) * blocks * tiles_of_block;
    return of_round < tiles ? of_round : tiles;
  }
};

}  // namespace moeplan::kernels
