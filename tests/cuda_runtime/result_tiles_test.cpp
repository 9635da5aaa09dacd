// Tiles of matrix products, and which blocks compute them.
#include "cuda_runtime/kernels/result_tiles.hpp"

#include <catch2/catch.hpp>
#include <set>
#include <utility>
#include <vector>

namespace moeplan::tests::result_tiles_test {

using namespace moeplan::kernels;

TEST_CASE("A matrix has as many tiles as cover it") {
  CHECK(tiles_along(1, 128) == 1);
  CHECK(tiles_along(128, 128) == 1);
  CHECK(tiles_along(129, 128) == 2);
}

TEST_CASE("Each tile of a matrix has a place of its own") {
  const int rows = GENERATE(1, 15, 16, 17, 33), columns = GENERATE(1, 2, 7);
  std::set<std::pair<int, int>> places;
  for (int i = 0; i < rows * columns; ++i) {
    const TilePlace place = tile_place(i, rows, columns);
    REQUIRE((place.row >= 0 && place.row < rows && place.column >= 0 && place.column < columns));
    places.emplace(place.row, place.column);
  }
  CHECK(std::ssize(places) == rows * columns);
}

TEST_CASE("Tiles that follow one another share a column of B, up to sixteen of them") {
  for (int i = 0; i < 16; ++i) CHECK(tile_place(i, 40, 5).column == 0);
  CHECK(tile_place(16, 40, 5).column == 1);
}

TEST_CASE("Each tile is computed by one block, and a block has no more than its share of a round") {
  const int tiles = GENERATE(1, 2, 11, 12, 13, 131, 132, 133, 1000), blocks = GENERATE(1, 2, 12, 132);
  const int most = GENERATE(1, 3, 8);
  if (blocks > tiles) return;
  const TileRounds rounds{tiles, blocks, most};
  std::vector<int> computed(static_cast<std::size_t>(tiles));
  for (int b = 0; b < rounds.all_blocks(); ++b) {
    int own = 0;
    for (int t = rounds.first(b); t < rounds.end(b); t += blocks, ++own) ++computed[static_cast<std::size_t>(t)];
    CHECK((own >= 1 && own <= most));
  }
  CHECK(computed == std::vector(computed.size(), 1));
}

}  // namespace moeplan::tests::result_tiles_test
