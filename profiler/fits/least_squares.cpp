#include "profiler/fits/least_squares.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cassert>

namespace moeplan::profiler {

namespace {

/// The unconstrained solution over the free columns; 0 in the others.
Eigen::VectorXd solved(const Eigen::MatrixXd& a, const Eigen::VectorXd& b, const std::vector<bool>& is_free) {
  std::vector<Eigen::Index> columns;
  for (std::size_t i = 0; i < is_free.size(); ++i) {
    if (is_free[i]) columns.push_back(static_cast<Eigen::Index>(i));
  }
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  if (columns.empty()) return x;
  const Eigen::MatrixXd part = a(Eigen::all, columns);
  const Eigen::VectorXd y = part.colPivHouseholderQr().solve(b);
  for (std::size_t i = 0; i < columns.size(); ++i) x(columns[i]) = y(static_cast<Eigen::Index>(i));
  return x;
}

}  // namespace

std::vector<double> non_negative_least_squares(std::span<const double> rows, std::size_t unknowns,
                                               std::span<const double> right) {
  assert(rows.size() == right.size() * unknowns && "a matrix of other size");
  using RowMajor = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  const Eigen::MatrixXd matrix =
      Eigen::Map<const RowMajor>(rows.data(), std::ssize(right), static_cast<Eigen::Index>(unknowns));
  const Eigen::VectorXd b = Eigen::Map<const Eigen::VectorXd>(right.data(), std::ssize(right));
  // Columns are normalised to length one, so that one tolerance suits all.
  Eigen::VectorXd length = matrix.colwise().norm();
  for (double& l : length) l = l > 0 ? l : 1;
  const Eigen::MatrixXd a = matrix * length.cwiseInverse().asDiagonal();
  const auto n = static_cast<std::size_t>(a.cols());
  std::vector<bool> is_free(n, false);
  Eigen::VectorXd x = Eigen::VectorXd::Zero(a.cols());
  const double tolerance = 1e-12 * (1 + b.norm());
  for (std::size_t step = 0; step < 4 * n; ++step) {
    const Eigen::VectorXd gradient = a.transpose() * (b - a * x);
    Eigen::Index best = -1;
    for (Eigen::Index i = 0; i < a.cols(); ++i) {
      if (!is_free[static_cast<std::size_t>(i)] && gradient(i) > tolerance &&
          (best < 0 || gradient(i) > gradient(best)))
        best = i;
    }
    if (best < 0) break;
    is_free[static_cast<std::size_t>(best)] = true;
    Eigen::VectorXd y = solved(a, b, is_free);
    for (std::size_t inner = 0; inner < n && y.minCoeff() < 0; ++inner) {
      // Step towards y until the first unknown would become negative; that one is fixed at 0.
      double share = 1;
      for (Eigen::Index i = 0; i < a.cols(); ++i) {
        if (y(i) < 0) share = std::min(share, x(i) / (x(i) - y(i)));
      }
      x += share * (y - x);
      for (Eigen::Index i = 0; i < a.cols(); ++i) {
        if (is_free[static_cast<std::size_t>(i)] && y(i) < 0 && x(i) <= 1e-15) {
          is_free[static_cast<std::size_t>(i)] = false;
          x(i) = 0;
        }
      }
      y = solved(a, b, is_free);
    }
    x = y.cwiseMax(0);
  }
  x = x.cwiseQuotient(length);
  return {x.begin(), x.end()};
}

}  // namespace moeplan::profiler
