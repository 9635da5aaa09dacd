#include "model/program/stream_ends.hpp"

#include <algorithm>

namespace moeplan {

StreamEnds StreamEnds::then(const StreamEnds& next) const {
  const auto sum = [](double a, double b) { return a == kNever || b == kNever ? kNever : a + b; };  // also of infinity
  const auto end = [&](double to_joined, double from_joined, double to_replicas, double from_replicas) {
    return std::max(sum(to_joined, from_joined), sum(to_replicas, from_replicas));
  };
  return {.joined = end(joined, next.joined, replicas_after_joined, next.joined_after_replicas),
          .joined_after_replicas = end(joined_after_replicas, next.joined, replicas, next.joined_after_replicas),
          .replicas_after_joined = end(joined, next.replicas_after_joined, replicas_after_joined, next.replicas),
          .replicas = end(joined_after_replicas, next.replicas_after_joined, replicas, next.replicas)};
}

StreamEnds StreamEnds::repeated(std::int64_t count) const {
  StreamEnds all{}, power = *this;
  for (; count > 0; count /= 2) {
    if (count % 2 == 1) all = all.then(power);
    if (count > 1) power = power.then(power);
  }
  return all;
}

double StreamEnds::longest() const {
  return std::max({joined, joined_after_replicas, replicas_after_joined, replicas});
}

StreamEnds later(const StreamEnds& a, const StreamEnds& b) {
  return {.joined = std::max(a.joined, b.joined),
          .joined_after_replicas = std::max(a.joined_after_replicas, b.joined_after_replicas),
          .replicas_after_joined = std::max(a.replicas_after_joined, b.replicas_after_joined),
          .replicas = std::max(a.replicas, b.replicas)};
}

}  // namespace moeplan
