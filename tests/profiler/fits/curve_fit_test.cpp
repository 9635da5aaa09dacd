#include "profiler/fits/curve_fit.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "model/base/random.hpp"

namespace moeplan::tests::curve_fit_test {

using namespace moeplan::profiler;

namespace {

/// Sizes 512 B, 1 KiB ... 512 MiB.
template <class Time>
std::vector<MeasuredPoint> points_of(Time time, double noise = 0) {
  Random random(1);
  std::vector<MeasuredPoint> points;
  for (double n = 512; n <= 0x1p29; n *= 2) {
    points.push_back({Bytes(n), Seconds(time(n) * (1 + noise * (random.uniform() - 0.5)))});
  }
  return points;
}

}  // namespace

TEST_CASE("a straight line is found again") {
  const auto line = [](double n) { return 9e-6 + n * 3e-12; };
  SECTION("exactly, and no second piece is added") {
    const CurveFit fit = fit_curve(points_of(line));
    REQUIRE(fit.pieces.size() == 1);
    CHECK(fit.pieces[0].cost.alpha.value() == Approx(9e-6));
    CHECK(fit.pieces[0].cost.beta.value() == Approx(3e-12));
    CHECK(fit.quality.r2 == Approx(1));
    CHECK_FALSE(fit.is_robust);
  }
  SECTION("within the noise, with residuals as large as the noise") {
    const CurveFit fit = fit_curve(points_of(line, 0.1));
    CHECK(fit.pieces[0].cost.alpha.value() == Approx(9e-6).epsilon(0.05));
    CHECK(fit.quality.median_error < 0.05);
    CHECK(fit.quality.worst_error < 0.08);
  }
  SECTION("in spite of outliers, which are weighted down: three of 21 are twice as slow") {
    auto points = points_of(line, 0.02);
    for (const std::size_t i : {2U, 6U, 17U}) points[i].time *= 2;
    const CurveFit fit = fit_line(points);
    CHECK(fit.is_robust);
    CHECK(fit.pieces[0].cost.alpha.value() == Approx(9e-6).epsilon(0.02));
    CHECK(fit.pieces[0].cost.beta.value() == Approx(3e-12).epsilon(0.02));
    CHECK(fit.quality.worst_error == Approx(0.5).margin(0.02));  // and shown
  }
}

TEST_CASE("a change of protocol is a knot") {
  // Slow growth up to 1 MiB, then a jump to a higher start and a better rate.
  const double knot = 0x1p20;
  const auto bent = [&](double n) { return n < knot ? 5e-6 + n * 40e-12 : 5e-6 + knot * 40e-12 + (n - knot) * 3e-12; };
  const CurveFit fit = fit_curve(points_of(bent));
  REQUIRE(fit.pieces.size() == 2);
  CHECK(fit.pieces[1].from.value() == knot);
  CHECK(fit.pieces[1].cost.beta.value() == Approx(3e-12).epsilon(1e-3));
  CHECK(fit.quality.worst_error < 1e-3);
  CHECK(fit_line(points_of(bent)).quality.median_error > 0.1);
}

TEST_CASE("few points") {
  SECTION("of one size: all time is beta's") {
    const CurveFit fit = fit_curve(std::vector<MeasuredPoint>{{Bytes(100), Seconds(2)}, {Bytes(100), Seconds(4)}});
    CHECK(fit.pieces[0].cost.alpha.value() == 0);
    CHECK(fit.pieces[0].cost.beta.value() == Approx(0.03));  // the median
  }
  SECTION("of two sizes: the line through both") {
    const CurveFit fit = fit_curve(std::vector<MeasuredPoint>{{Bytes(100), Seconds(2)}, {Bytes(300), Seconds(3)}});
    CHECK(fit.pieces[0].cost.alpha.value() == Approx(1.5));
    CHECK(fit.pieces[0].cost.beta.value() == Approx(0.005));
  }
}

TEST_CASE("any curve can be a cost") {
  rc::prop("starts are not negative, time grows, and pieces meet", [] {
    const auto times = *rc::gen::nonEmpty(rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 1000)));
    std::vector<MeasuredPoint> points;
    double n = 64;
    for (const int t : times) {
      points.push_back({Bytes(n), Seconds(t * 1e-6)});
      n *= 1.7;
    }
    const CurveFit fit = fit_curve(points);
    RC_ASSERT(fit.pieces.size() <= kMostPieces);
    for (std::size_t i = 0; i < fit.pieces.size(); ++i) {
      const CurvePiece& p = fit.pieces[i];
      RC_ASSERT(p.cost.alpha >= Seconds(0));
      RC_ASSERT(p.cost.beta > SecondsPerByte(0));
      if (i == 0) continue;
      const AlphaBeta& before = fit.pieces[i - 1].cost;
      const double meet = (before.alpha + p.from * before.beta).value();
      RC_ASSERT(std::abs((p.cost.alpha + p.from * p.cost.beta).value() / meet - 1) < 1e-6);
    }
  });
}

}  // namespace moeplan::tests::curve_fit_test
