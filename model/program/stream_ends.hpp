// The ends of a rank's streams after some work, as a function of the times at which they are free to begin it: matrices
// of the max-plus algebra.
#pragma once

#include <cstdint>
#include <limits>

namespace moeplan {

/// The streams that join at the end of every block, and the replicas' stream, which runs on beside the following
/// blocks. Each end is the maximum over two beginnings of the beginning plus a time in seconds; `kNever` says that an
/// end does not depend on that beginning.
struct StreamEnds {
  static constexpr double kNever = -std::numeric_limits<double>::infinity();

  double joined = 0;                      // of the joined streams, from their own beginning
  double joined_after_replicas = kNever;  // of the joined streams, from when the replicas' stream is free
  double replicas_after_joined = kNever;  // of the replicas' stream, from the beginning of the joined ones
  double replicas = 0;                    // of the replicas' stream, from when it is free

  bool operator==(const StreamEnds&) const = default;

  /// The ends of this work and then `next`.
  [[nodiscard]] StreamEnds then(const StreamEnds& next) const;
  /// The ends of this work done `count` > 0 times.
  [[nodiscard]] StreamEnds repeated(std::int64_t count) const;
  /// The time until all streams have ended, if they are free at the same time.
  [[nodiscard]] double longest() const;
};

/// The later of each two ends.
[[nodiscard]] StreamEnds later(const StreamEnds& a, const StreamEnds& b);

}  // namespace moeplan
