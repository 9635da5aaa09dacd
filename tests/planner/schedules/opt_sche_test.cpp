#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "planner/layer/chunk_order.hpp"
#include "tests/support/order_cases.hpp"

namespace moeplan::tests::opt_sche_test {

using namespace moeplan::planner;

TEST_CASE("OptSche lists the tasks of chunks") {
  SECTION("of two chunks: all C1, all A1, D1 E C2 chunk by chunk, all A2, all D2") {
    using enum ChunkTask;
    const std::vector<ChunkStep> expected{{0, Encode},        {1, Encode},        {0, Dispatch},      {1, Dispatch},
                                          {0, Decode},        {0, Expert},        {0, EncodeCombine}, {1, Decode},
                                          {1, Expert},        {1, EncodeCombine}, {0, Combine},       {1, Combine},
                                          {0, DecodeCombine}, {1, DecodeCombine}};
    CHECK(opt_sche(2) == expected);
    CHECK(opt_sche_first_chunk_last(1) == opt_sche(1));
    std::vector<std::int64_t> dispatched, computed;
    for (const ChunkStep& step : opt_sche_first_chunk_last(3)) {
      if (step.task == ChunkTask::Dispatch) dispatched.push_back(step.chunk);
      if (step.task == ChunkTask::Expert) computed.push_back(step.chunk);
    }
    CHECK(dispatched == std::vector<std::int64_t>{0, 1, 2});
    CHECK(computed == std::vector<std::int64_t>{1, 2, 0});
  }
  SECTION("numbers are those of the problem, where each task comes after the one before it in its chunk") {
    const OrderProblem problem = opt_sche_problem(2, picoseconds({1, 2, 3, 4, 5, 6, 7}));
    CHECK(problem.size() == 2 * kChunkTasks);
    for (const ChunkStep& step : opt_sche(2)) {
      const OrderTask& task = problem[static_cast<std::size_t>(chunk_task(step.chunk, step.task))];
      CHECK(task.duration == SimTime(1 + static_cast<std::int64_t>(step.task)));
      CHECK(task.stream == (communicates(step.task) ? 1 : 0));
      CHECK(task.after.size() == (step.task == ChunkTask::Encode ? 0 : 1));
    }
  }
}

TEST_CASE("OptSche is the best order where dispatch and combine take as long") {
  for (std::int64_t chunks = 1; chunks <= 4; ++chunks) {
    rc::prop("no order of " + std::to_string(chunks) + " chunks is better", [chunks] {
      const std::int64_t encode = in_range(0, 30), exchange = in_range(0, 60), decode = in_range(0, 30);
      const OrderProblem problem =
          opt_sche_problem(chunks, picoseconds({encode, exchange, decode, in_range(0, 90), encode, exchange, decode}));
      const OrderResult result = exact_order(problem);
      RC_ASSERT(result.proved);
      RC_ASSERT(result.makespan == order_makespan(problem, opt_sche_order(chunks)));
    });
  }
}

TEST_CASE("OptSche is not the best order in general") {
  // C1 18, A1 0, D1 0, E 3, C2 0, A2 14, D2 11.
  const OrderProblem problem = opt_sche_problem(2, picoseconds({18, 0, 0, 3, 0, 14, 11}));
  SECTION("expect both C1, the first E, both A2 and the second D2: 78") {
    CHECK(order_makespan(problem, opt_sche_order(2)) == SimTime(18 + 18 + 3 + 14 + 14 + 11));
  }
  SECTION(
      "expect 67, because the first chunk's A2 runs beside the second's C1, and then the second chunk is the path") {
    const OrderResult result = exact_order(problem);
    CHECK(result.makespan == SimTime(18 + 3 + 18 + 3 + 14 + 11));
    CHECK(result.proved);
    CHECK(answered_by(result) == "exact");
  }
}

}  // namespace moeplan::tests::opt_sche_test
