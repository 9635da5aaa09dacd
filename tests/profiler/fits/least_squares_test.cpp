#include "profiler/fits/least_squares.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

namespace moeplan::tests::least_squares_test {

using namespace moeplan::profiler;

TEST_CASE("least squares with no negative unknowns") {
  SECTION("what is positive anyway is the ordinary solution: the line 1 + 2 x") {
    const std::vector<double> a{1, 0, 1, 1, 1, 2}, b{1, 3, 5};
    const auto x = non_negative_least_squares(a, 2, b);
    CHECK(x[0] == Approx(1));
    CHECK(x[1] == Approx(2));
  }
  SECTION("a negative start is held at 0, and the slope is that of the best line through the origin: 13 / 14") {
    const std::vector<double> a{1, 1, 1, 2, 1, 3}, b{0, 2, 3};  // sum x y / sum x^2 = (0 + 4 + 9) / 14
    const auto x = non_negative_least_squares(a, 2, b);
    CHECK(x[0] == 0);
    CHECK(x[1] == Approx(13.0 / 14));
  }
  SECTION("a column of zeros has no say") {
    const std::vector<double> a{0, 1, 0, 2}, b{3, 6};
    const auto x = non_negative_least_squares(a, 2, b);
    CHECK(x[0] == 0);
    CHECK(x[1] == Approx(3));
  }
  rc::prop("no small step to another solution without negatives is better (first-order optimality)", [] {
    const auto rows = *rc::gen::inRange<std::size_t>(1, 8);
    const auto columns = *rc::gen::inRange<std::size_t>(1, 5);
    const auto numbers = [](std::size_t count) {
      const auto drawn = *rc::gen::container<std::vector<int>>(count, rc::gen::inRange(-9, 10));
      return std::vector<double>(drawn.begin(), drawn.end());
    };
    const std::vector<double> a = numbers(rows * columns), b = numbers(rows);
    const auto x = non_negative_least_squares(a, columns, b);
    std::vector<double> left = b;
    for (std::size_t r = 0; r < rows; ++r) {
      for (std::size_t c = 0; c < columns; ++c) left[r] -= a[r * columns + c] * x[c];
    }
    for (std::size_t c = 0; c < columns; ++c) {
      double gradient = 0;
      for (std::size_t r = 0; r < rows; ++r) gradient += a[r * columns + c] * left[r];
      RC_ASSERT(x[c] >= 0);
      RC_ASSERT(gradient < 1e-6);
      if (x[c] > 1e-9) RC_ASSERT(std::abs(gradient) < 1e-6);
    }
  });
}

}  // namespace moeplan::tests::least_squares_test
