// Measured times of one collective as alpha + n beta, and as a curve of such pieces.
//
// Least squares in relative error: sum of ((predicted - measured) / measured)^2, so that a microsecond counts at 4 KiB
// and does not at 1 GiB. alpha and beta are never negative. Where residuals have outliers (one beyond four standard
// deviations, by the median absolute deviation), the fit is repeated with Huber's weights [Huber, Ronchetti: Robust
// Statistics, 2nd ed., sec. 7.8: 1.345 standard deviations], until it settles.
#pragma once

#include <span>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/machine/cluster.hpp"

namespace moeplan::profiler {

struct MeasuredPoint {
  Bytes n;
  Seconds time;
};

struct FitQuality {
  std::size_t points = 0;
  double r2 = 0;            // of the logarithms of the times; 0 where all times are equal
  double median_error = 0;  // |predicted / measured - 1|
  double worst_error = 0;
  Bytes worst_at{};
};

/// From this n on; the first piece begins at 0.
struct CurvePiece {
  Bytes from;
  AlphaBeta cost;
};

struct CurveFit {
  std::vector<CurvePiece> pieces;  // ascending
  FitQuality quality;
  bool is_robust = false;  // outliers were weighted down

  [[nodiscard]] Seconds time(Bytes n) const;
};

/// The most pieces of a curve.
inline constexpr std::size_t kMostPieces = 6;

/// A continuous curve of straight pieces, each with a start-up (alpha >= 0) and a growth (beta > 0), since libraries
/// change protocol with size. Knots stand at measured sizes, and are added one by one where they gain most, as long as
/// the Bayesian information criterion of the absolute relative residuals falls. Points of one size count as their
/// median. At least one point; of one size alone, all time is beta's. n and time must be positive.
[[nodiscard]] CurveFit fit_curve(std::span<const MeasuredPoint> points, std::size_t most_pieces = kMostPieces);

/// One straight line: fit_curve with one piece.
[[nodiscard]] inline CurveFit fit_line(std::span<const MeasuredPoint> points) { return fit_curve(points, 1); }

/// How well a curve predicts points, those it was fitted to or others.
[[nodiscard]] FitQuality quality_of(const CurveFit& curve, std::span<const MeasuredPoint> points);

}  // namespace moeplan::profiler
