#include "model/program/stream_ends.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "model/base/random.hpp"

namespace moeplan::tests::stream_ends_test {

namespace {

/// Blocks as they run one after another: each gives the replicas' stream work some time after it began, or waits for
/// that stream at its beginning.
struct Work {
  double joined = 0, given_at = 0, replicas = 0;
  bool waits = false;

  [[nodiscard]] StreamEnds ends() const {
    StreamEnds e{.joined = joined, .replicas_after_joined = given_at + replicas, .replicas = replicas};
    if (waits) e.joined_after_replicas = joined;
    if (waits) e.replicas = given_at + replicas;
    return e;
  }
  void run(double& time, double& free) const {
    const double begin = waits ? std::max(time, free) : time;
    free = std::max(begin + given_at, free) + replicas;
    time = begin + joined;
  }
};

}  // namespace

TEST_CASE("Streams end when blocks that run one after another do") {
  Random random(11);
  for (int round = 0; round < 200; ++round) {
    std::vector<Work> blocks(1 + random.below(4));
    for (Work& w : blocks) {
      w.joined = static_cast<double>(random.below(10));
      w.given_at = static_cast<double>(random.below(10));
      w.replicas = static_cast<double>(random.below(12));
      w.waits = random.below(4) == 0;
    }
    const auto count = static_cast<std::int64_t>(1 + random.below(9));
    double time = 0, free = 0;
    StreamEnds body;
    for (const Work& w : blocks) body = body.then(w.ends());
    for (std::int64_t i = 0; i < count; ++i) {
      for (const Work& w : blocks) w.run(time, free);
    }
    CHECK(body.repeated(count).longest() == std::max(time, free));
    if (count == 1) CHECK(body.repeated(1) == body);
  }
}

TEST_CASE("What a late block leaves to the replicas' stream is added, what an early one leaves is hidden") {
  const StreamEnds computes{.joined = 5}, gives{.joined = 1, .replicas_after_joined = 4, .replicas = 3};
  CHECK(computes.then(gives).longest() == 9);
  CHECK(gives.then(computes).longest() == 6);
  CHECK(gives.repeated(3).longest() == 10);
}

}  // namespace moeplan::tests::stream_ends_test
