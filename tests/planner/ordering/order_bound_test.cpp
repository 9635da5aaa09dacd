#include "planner/ordering/order_bound.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/order_cases.hpp"

namespace moeplan::tests::order_bound_test {

using namespace moeplan::planner;

TEST_CASE("One machine by itself has a preemptive bound") {
  SECTION("expect 1 + 10 + 10: the long tail interrupts what has begun") {
    std::vector<OneMachineJob> jobs{{0, 4, 0}, {1, 10, 10}};
    CHECK(one_machine_bound(jobs) == 1 + 10 + 10);
  }
  SECTION("expect the head, all work and the shortest tail") {
    std::vector<OneMachineJob> jobs{{5, 4, 3}, {5, 6, 3}};
    CHECK(one_machine_bound(jobs) == 5 + 4 + 6 + 3);
  }
  rc::prop("never below one task's path or all work, never above the best order without interruption", [] {
    std::vector<OneMachineJob> jobs;
    OrderProblem problem;  // heads and tails are tasks on streams of their own
    std::int64_t least_head = 100, work = 0, least_tail = 100, path = 0;
    const std::int64_t n = in_range(1, 6);
    for (std::int64_t i = 0; i < n; ++i) {
      const OneMachineJob job{in_range(0, 12), in_range(0, 6), in_range(0, 12)};
      jobs.push_back(job);
      const auto first = static_cast<std::int32_t>(problem.size());
      problem.push_back({SimTime(job.head), first + 1, {}});
      problem.push_back({SimTime(job.duration), 0, {first}});
      problem.push_back({SimTime(job.tail), first + 2, {first + 1}});
      least_head = std::min(least_head, job.head);
      least_tail = std::min(least_tail, job.tail);
      work += job.duration;
      path = std::max(path, job.head + job.duration + job.tail);
    }
    const std::int64_t bound = one_machine_bound(jobs);
    RC_ASSERT(bound >= path);
    RC_ASSERT(bound >= least_head + work + least_tail);
    RC_ASSERT(SimTime(bound) <= exact_order(problem).makespan);
  });
}

TEST_CASE("A task's tail is what must follow it") {
  SECTION("expect all work of a stream behind it, and the shortest tail there") {
    // 0 before 1, 2, 3 on another stream, each before a task of its own.
    const auto t = [](std::int64_t time, std::int32_t stream, std::vector<std::int32_t> after) {
      return OrderTask{SimTime(time), stream, std::move(after)};
    };
    const OrderProblem problem{t(1, 0, {}),  t(2, 1, {0}), t(3, 1, {0}), t(4, 1, {0}),
                               t(7, 2, {1}), t(7, 3, {2}), t(7, 4, {3})};
    const OrderGraph graph = order_graph(problem);
    CHECK(graph.task.front() == 0);
    CHECK(graph.tail.front() == 2 + 3 + 4 + 7);
  }
  SECTION("added precedences count, and tasks are numbered along them") {
    const OrderProblem problem{{SimTime(5), 0, {}}, {SimTime(3), 1, {}}};
    const OrderGraph graph = order_graph(problem, {{1, 0}});
    CHECK(graph.task == std::vector<std::int32_t>{1, 0});
    CHECK(graph.tail == std::vector<std::int64_t>{5, 0});
  }
}

}  // namespace moeplan::tests::order_bound_test
