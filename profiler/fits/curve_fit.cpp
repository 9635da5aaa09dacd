#include "profiler/fits/curve_fit.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <map>
#include <optional>

#include "profiler/fits/least_squares.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::profiler {

namespace {

constexpr std::size_t kMostSizes = 256;  // distinct sizes in a fit; more are thinned evenly

/// The median time of each size.
std::vector<MeasuredPoint> by_size(std::span<const MeasuredPoint> points) {
  std::map<double, std::vector<double>> times;
  for (const MeasuredPoint& p : points) times[p.n.value()].push_back(p.time.value());
  std::vector<MeasuredPoint> all;
  for (auto& [n, t] : times) all.push_back({Bytes(n), Seconds(median(std::move(t)))});
  if (all.size() <= kMostSizes) return all;
  std::vector<MeasuredPoint> thinned;
  for (std::size_t i = 0; i < kMostSizes; ++i) thinned.push_back(all[i * (all.size() - 1) / (kMostSizes - 1)]);
  return thinned;
}

/// A piecewise linear curve: time(0), the knots (the first is 0), and the slope from each knot to the next.
struct Knots {
  std::vector<double> at;
  double start = 0;
  std::vector<double> slope;
  bool is_robust = false;

  [[nodiscard]] double time(double n) const {
    double t = start;
    for (std::size_t i = 0; i < at.size(); ++i) t += slope[i] * length(i, n);
    return t;
  }
  /// The length of the part of [0, n] inside piece i.
  [[nodiscard]] double length(std::size_t i, double n) const {
    const double end = i + 1 < at.size() ? std::min(n, at[i + 1]) : n;
    return std::max(0.0, end - at[i]);
  }
  [[nodiscard]] double alpha(std::size_t i) const { return time(at[i]) - slope[i] * at[i]; }
};

class CurveFitter {
 public:
  explicit CurveFitter(std::vector<MeasuredPoint> points) : points_(std::move(points)) {
    // Every piece is increasing: its slope is at least a thousandth of the shortest time per byte.
    least_slope_ = points_.front().time.value() / points_.front().n.value();
    for (const MeasuredPoint& p : points_) least_slope_ = std::min(least_slope_, p.time.value() / p.n.value());
    least_slope_ *= 1e-3;
  }

  [[nodiscard]] Knots best(std::size_t most_pieces) const {
    Knots best = fitted({0});
    double best_score = score(best);
    while (best.at.size() < most_pieces) {
      std::optional<Knots> next;
      double next_score = best_score;
      for (std::size_t i = 1; i + 1 < points_.size(); ++i) {
        std::vector<double> at = best.at;
        at.push_back(points_[i].n.value());
        std::sort(at.begin(), at.end());
        if (!has_enough_points(at)) continue;
        Knots with = fitted(at);
        const double s = score(with);
        if (s >= next_score || !starts_are_positive(with)) continue;
        next_score = s;
        next = std::move(with);
      }
      if (!next) break;
      best = std::move(*next);
      best_score = next_score;
    }
    return best;
  }

 private:
  [[nodiscard]] Knots fitted(const std::vector<double>& at) const {
    std::vector<double> weights(points_.size(), 1.0);
    Knots knots = weighted_fit(at, weights);
    constexpr int kMostRounds = 20;
    for (int round = 0; round < kMostRounds; ++round) {
      const std::vector<double> r = residuals(knots);
      const double sigma = std::max(1.4826 * median(r), 1e-3);  // at least 0.1 %, the resolution of clocks and tables
      if (round == 0 && *std::max_element(r.begin(), r.end()) <= 4 * sigma) break;
      double change = 0;
      for (std::size_t i = 0; i < r.size(); ++i) {
        const double w = std::min(1.0, 1.345 * sigma / std::max(r[i], 1e-300));
        change = std::max(change, std::abs(w - weights[i]));
        weights[i] = w;
      }
      knots = weighted_fit(at, weights);
      knots.is_robust = true;
      if (change < 1e-3) break;
    }
    return knots;
  }

  [[nodiscard]] Knots weighted_fit(const std::vector<double>& at, const std::vector<double>& weights) const {
    Knots knots{.at = at, .start = 0, .slope = std::vector<double>(at.size(), 0.0)};
    const bool has_start = points_.size() > 1;
    std::vector<double> a, b;
    for (std::size_t r = 0; r < points_.size(); ++r) {
      const double n = points_[r].n.value(), time = points_[r].time.value();
      const double w = std::sqrt(weights[r]) / time;
      a.push_back(has_start ? w : 0);
      for (std::size_t i = 0; i < at.size(); ++i) a.push_back(w * knots.length(i, n));
      b.push_back(w * (time - least_slope_ * n));
    }
    const std::vector<double> x = non_negative_least_squares(a, at.size() + 1, b);
    knots.start = x[0];
    for (std::size_t i = 0; i < at.size(); ++i) knots.slope[i] = x[i + 1] + least_slope_;
    return knots;
  }

  [[nodiscard]] std::vector<double> residuals(const Knots& knots) const {
    std::vector<double> r;
    for (const MeasuredPoint& p : points_) r.push_back(std::abs(knots.time(p.n.value()) / p.time.value() - 1));
    return r;
  }

  /// The Bayesian information criterion with Laplace-distributed residuals: -2 log likelihood + parameters log points.
  /// A mean residual below 0.3 % counts as 0.3 %, so that the rounding of a table's digits is not fitted.
  [[nodiscard]] double score(const Knots& knots) const {
    const std::vector<double> r = residuals(knots);
    double mean = 0;
    for (const double v : r) mean += v / static_cast<double>(r.size());
    const auto n = static_cast<double>(points_.size());
    const auto parameters = static_cast<double>(2 * knots.at.size());
    return 2 * n * std::log(std::max(mean, 3e-3)) + parameters * std::log(n);
  }

  [[nodiscard]] bool has_enough_points(const std::vector<double>& at) const {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const auto inside = std::count_if(points_.begin(), points_.end(), [&](const MeasuredPoint& p) {
        return p.n.value() >= at[i] && (i + 1 == at.size() || p.n.value() < at[i + 1]);
      });
      if (inside < (i + 1 == at.size() ? 3 : 2)) return false;
    }
    return true;
  }

  static bool starts_are_positive(const Knots& knots) {
    for (std::size_t i = 0; i < knots.at.size(); ++i) {
      if (knots.alpha(i) < 0) return false;
    }
    return true;
  }

  std::vector<MeasuredPoint> points_;
  double least_slope_;
};

}  // namespace

Seconds CurveFit::time(Bytes n) const {
  std::size_t i = pieces.size() - 1;
  while (i > 0 && pieces[i].from > n) --i;
  return pieces[i].cost.alpha + n * pieces[i].cost.beta;
}

FitQuality quality_of(const CurveFit& curve, std::span<const MeasuredPoint> points) {
  FitQuality q{.points = points.size()};
  std::vector<double> errors;
  double mean = 0;
  for (const MeasuredPoint& p : points) mean += std::log(p.time.value()) / static_cast<double>(points.size());
  double left = 0, all = 0;
  for (const MeasuredPoint& p : points) {
    const double ratio = curve.time(p.n) / p.time;
    errors.push_back(std::abs(ratio - 1));
    if (errors.back() > q.worst_error) {
      q.worst_error = errors.back();
      q.worst_at = p.n;
    }
    left += std::pow(std::log(ratio), 2);
    all += std::pow(std::log(p.time.value()) - mean, 2);
  }
  q.r2 = all > 0 ? 1 - left / all : 0;
  q.median_error = median(std::move(errors));
  return q;
}

CurveFit fit_curve(std::span<const MeasuredPoint> points, std::size_t most_pieces) {
  assert(!points.empty() && most_pieces > 0 && "nothing to fit");
  const Knots knots = CurveFitter(by_size(points)).best(most_pieces);
  CurveFit fit;
  for (std::size_t i = 0; i < knots.at.size(); ++i) {
    const Seconds alpha(std::max(0.0, knots.alpha(i)));
    fit.pieces.push_back({Bytes(knots.at[i]), {alpha, SecondsPerByte(knots.slope[i])}});
  }
  fit.is_robust = knots.is_robust;
  fit.quality = quality_of(fit, points);
  return fit;
}

}  // namespace moeplan::profiler
