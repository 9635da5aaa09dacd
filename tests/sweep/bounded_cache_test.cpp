#include "planner/sweep/bounded_cache.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>
#include <thread>
#include <vector>

namespace moeplan::tests::bounded_cache_test {

using namespace moeplan::sweep;

TEST_CASE("A value is made once, whoever asks and however many") {
  BoundedCache<int> cache(10);
  std::atomic<int> made = 0;
  std::vector<std::thread> threads;
  std::atomic<int> sum = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      sum += *cache.get("a", [&] {
        ++made;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        return 7;
      });
    });
  }
  for (std::thread& t : threads) t.join();
  CHECK(made == 1);
  CHECK(sum == 8 * 7);
}

TEST_CASE("The oldest goes first, and what threw is tried again") {
  BoundedCache<int> cache(2);
  int made = 0;
  const auto get = [&](const char* key) { return *cache.get(key, [&] { return ++made; }); };
  CHECK(get("a") == 1);
  CHECK(get("b") == 2);
  CHECK(get("c") == 3);
  CHECK(get("b") == 2);
  CHECK(get("a") == 4);  // was dropped
  CHECK_THROWS_AS(cache.get("d", []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
  CHECK(get("d") == 5);
}

}  // namespace moeplan::tests::bounded_cache_test
