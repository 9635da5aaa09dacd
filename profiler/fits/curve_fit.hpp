// Least-squares fits of the measured times of one collective: a straight line alpha + n beta, or a curve of such
// pieces.
//
// The fit minimises the relative error, the sum of ((predicted - measured) / measured)^2, so that a microsecond matters
// at 4 KiB but not at 1 GiB. alpha and beta are never negative. If residuals have outliers (one beyond four standard
// deviations, estimated from the median absolute deviation), the fit is repeated with Huber's weights [Huber,
// Ronchetti: Robust Statistics, 2nd ed., sec. 7.8: 1.345 standard deviations] until it converges.
#pragma once

#include <span>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/machine/cluster.hpp"

namespace moeplan::profiler {

/// One measured time for message size n.
struct MeasuredPoint {
  Bytes n;
  Seconds time;
};

/// Goodness of fit over a set of points.
struct FitQuality {
  std::size_t points = 0;
  double r2 = 0;            // of the logarithms of the times; 0 if all times are equal
  double median_error = 0;  // of |predicted / measured - 1|
  double worst_error = 0;   // largest |predicted / measured - 1|
  Bytes worst_at{};         // the size with the largest error
};

/// One straight piece of a curve.
struct CurvePiece {
  Bytes from;  // the smallest n of the piece; 0 for the first
  AlphaBeta cost;
};

/// A fitted curve and its quality.
struct CurveFit {
  std::vector<CurvePiece> pieces;  // ascending
  FitQuality quality;
  bool is_robust = false;  // outliers were down-weighted

  [[nodiscard]] Seconds time(Bytes n) const;
};

/// The largest number of pieces of a curve.
inline constexpr std::size_t kMostPieces = 6;

/// Fits a continuous piecewise linear curve, since libraries change protocol with size. Each piece has alpha >= 0 and
/// beta > 0. Knots lie at measured sizes and are added greedily, the best one first, as long as the Bayesian
/// information criterion of the absolute relative residuals decreases. Points of equal size are replaced by their
/// median. Requires at least one point, with positive n and time; from a single size, all time is attributed to beta.
[[nodiscard]] CurveFit fit_curve(std::span<const MeasuredPoint> points, std::size_t most_pieces = kMostPieces);

/// Fits one straight line: fit_curve with one piece.
[[nodiscard]] inline CurveFit fit_line(std::span<const MeasuredPoint> points) { return fit_curve(points, 1); }

/// The quality with which a curve predicts `points`, which may differ from those it was fitted to.
[[nodiscard]] FitQuality quality_of(const CurveFit& curve, std::span<const MeasuredPoint> points);

}  // namespace moeplan::profiler
