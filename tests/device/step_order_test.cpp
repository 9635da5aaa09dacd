// The waits between streams that an execution needs.
#include "cuda_runtime/device/steps/step_order.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::step_order_test {

using namespace moeplan::runtime;

namespace {

using Steps = std::vector<std::size_t>;

}  // namespace

TEST_CASE("A step waits for steps of other streams, unless its stream's order or another wait implies it") {
  const std::vector<DeviceStep> steps{
      {7, Stream::Compute, {}},      // 0
      {3, Stream::Inter, {7}},       // 1
      {5, Stream::Compute, {7}},     // 2: its own stream's order
      {2, Stream::Inter, {7, 5}},    // 3: after 2, which is after 0
      {4, Stream::Intra, {7, 2}},    // 4: after 3, which is after 0
      {9, Stream::Inter, {5, 3}},    // 5: 3 was after 2 already
      {8, Stream::Compute, {4, 2}},  // 6: after 4, which is after 3
  };
  const std::vector<StepOrder> orders = step_orders(steps);
  CHECK(orders[0].waits.empty());
  CHECK(orders[1].waits == Steps{0});
  CHECK(orders[2].waits.empty());
  CHECK(orders[3].waits == Steps{2});
  CHECK(orders[4].waits == Steps{3});
  CHECK(orders[5].waits.empty());
  CHECK(orders[6].waits == Steps{4});
  SECTION("each step knows the one before it on its stream") {
    CHECK_FALSE(orders[0].previous);
    CHECK_FALSE(orders[1].previous);
    CHECK(orders[2].previous == 0U);
    CHECK(orders[5].previous == 3U);
  }
  SECTION("steps are awaited by others, the last of each stream by the end") {
    Steps awaited;
    for (std::size_t s = 0; s < orders.size(); ++s) {
      if (orders[s].is_awaited) awaited.push_back(s);
    }
    CHECK(awaited == Steps{0, 2, 3, 4, 5, 6});
  }
}

}  // namespace moeplan::tests::step_order_test
