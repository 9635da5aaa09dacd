// Ranks that are proved to do the same at the same times.
#pragma once

#include <vector>

#include "model/program/program.hpp"
#include "model/specs/cluster.hpp"

namespace moeplan {

/// Ranks of one class. Their slices, products, and the bytes that they send and receive are equal operation by
/// operation, and simulated, their operations start and end at equal times (but for the rounding of sums in another
/// order).
struct RankClass {
  RankId representative;        // the lowest of the members
  std::vector<RankId> members;  // ascending
  bool operator==(const RankClass&) const = default;
};

/// The coarsest equitable partition of ranks, transfers and links, by colour refinement; classes by representative.
///
/// Notation. A transfer is an ordered pair of ranks with its list of (communication, bytes). Colours of ranks,
/// transfers and links are equitable if
///   - ranks of one colour have equal slices and products in every operation, equal start-up and rate cap in every
///   communication, and
///     equally many transfers of each colour out, and in;
///   - transfers of one colour have equal lists, equal latency, ends of equal colours, and cross equally many links of
///   each colour
///     with equal shares;
///   - links of one colour have equal bandwidth and are crossed by equally many transfers of each colour and share.
/// Why that is enough: as long as the state depends on colours alone, so do the max-min rates (progressive filling sees
/// the same sums on links of one colour, thus freezes whole colours), so do the times at which transfers and
/// computations end, and with them the next state. At the start all ranks are alike. Refinement starts from what is
/// equal in itself and splits until nothing changes, thus gives the coarsest such partition (C. Godsil, G. Royle,
/// "Algebraic Graph Theory", sec. 9.3). Colours are compared, not hashed.
///
/// A program with more than kMostTransfers possible transfers, or whose routes have more than kMostCrossings links in
/// all, or on GPUs that ranks share, is not examined: every rank is then a class of its own. The Program's world_size
/// must not exceed the cluster's.
[[nodiscard]] std::vector<RankClass> rank_classes(const Program& program, const Cluster& cluster);

inline constexpr std::int64_t kMostTransfers = std::int64_t{1} << 19;  // assumed: a few seconds
inline constexpr std::int64_t kMostCrossings = std::int64_t{1} << 23;  // assumed: 128 MiB

}  // namespace moeplan
