#include "model/base/in_parallel.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <numeric>
#include <stdexcept>
#include <vector>

namespace moeplan::tests::in_parallel_test {

namespace {

std::atomic<int> threads_seen{0};

/// Counts the threads that reach this.
void note_thread() {
  thread_local const int number = threads_seen++;
  (void)number;
}

void check_each_once(int threads) {
  std::vector<int> calls(100, 0);
  in_parallel(calls.size(), threads, [&](std::size_t i) { ++calls[i]; });
  CHECK(calls == std::vector<int>(100, 1));
}

}  // namespace

TEST_CASE("Work items are done once each, on new threads and on kept ones") {
  const int threads = GENERATE(1, 2, 7);
  CAPTURE(threads);
  SECTION("new threads") { check_each_once(threads); }
  SECTION("kept threads, call after call") {
    const KeptThreads kept(threads);
    for (int call = 0; call < 20; ++call) check_each_once(threads);
    check_each_once(2 * threads);
    in_parallel(0, threads, [](std::size_t) { FAIL("there is no item"); });
  }
  SECTION("calls within a work item") {
    const KeptThreads kept(threads);
    std::vector<std::vector<int>> calls(8, std::vector<int>(8, 0));
    in_parallel(calls.size(), threads,
                [&](std::size_t i) { in_parallel(calls[i].size(), threads, [&](std::size_t k) { ++calls[i][k]; }); });
    CHECK(calls == std::vector<std::vector<int>>(8, std::vector<int>(8, 1)));
  }
}

TEST_CASE("Kept threads stay from call to call, and an inner KeptThreads starts none") {
  constexpr int kThreads = 3;
  const int before = threads_seen;
  const KeptThreads kept(kThreads);
  for (int call = 0; call < 50; ++call) {
    const KeptThreads inner(2 * kThreads);
    in_parallel(20, kThreads, [](std::size_t) { note_thread(); });
  }
  CHECK(threads_seen - before >= 1);
  CHECK(threads_seen - before <= kThreads);
}

TEST_CASE("The first exception of a work item is rethrown, and further calls work") {
  const KeptThreads kept(2);
  const auto throwing = [](std::size_t i) {
    if (i == 5) throw std::runtime_error("item 5");
  };
  CHECK_THROWS_WITH(in_parallel(10, 2, throwing), "item 5");
  check_each_once(2);
}

}  // namespace moeplan::tests::in_parallel_test
