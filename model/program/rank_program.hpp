// A Program as one rank runs it: every symbol replaced by numbers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/program/resolve.hpp"

namespace moeplan {

/// What a rank exchanges with another in one communication.
struct PeerBytes {
  RankId peer;
  std::int64_t bytes = 0;
  bool operator==(const PeerBytes&) const = default;
};

/// A slice on this rank.
struct RankSlice {
  BufferId buffer;
  std::int64_t rows = 0;
  std::int64_t bytes = 0;
  bool operator==(const RankSlice&) const = default;
};

/// An operation on this rank. A computation has no peers, a communication no products or FLOPs.
struct RankOperation {
  std::int32_t operation = 0;  // index in the block
  std::vector<RankSlice> reads;
  std::vector<RankSlice> writes;
  double flops = 0;
  std::vector<GemmShape> products;
  std::vector<PeerBytes> sends;     // by peer, itself left out
  std::vector<PeerBytes> receives;  // by peer, itself left out
  bool operator==(const RankOperation&) const = default;
};

struct RankProgram {
  RankId rank;
  std::vector<std::vector<RankOperation>> blocks;  // by BlockId, in order; they are run as Program::sequence says
  bool operator==(const RankProgram&) const = default;
};

[[nodiscard]] RankProgram for_rank(const Program& program, RankId rank);

}  // namespace moeplan
