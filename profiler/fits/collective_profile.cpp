#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "model/text/unit_text.hpp"
#include "profiler/fits/profile.hpp"
#include "profiler/statistics.hpp"

namespace moeplan::profiler {

namespace {

constexpr double kFastest = 1e14;         // B/s: see fit_collectives()
constexpr double kSameWithin = 0.02;      // relative difference up to which in-place and out-of-place count as equal
constexpr std::size_t kMostShapes = 256;  // group shapes; a profile is later read as a configuration

using Key = std::tuple<Collective, std::int64_t, std::int64_t, bool>;  // nodes before ranks
using Groups = std::map<Key, std::vector<MeasuredPoint>>;

Groups grouped(std::span<const CollectiveSample> samples) {
  Diagnostics wrong;
  Groups groups;
  for (const CollectiveSample& s : samples) {
    if (s.n / s.time > BytesPerSecond(kFastest)) {
      wrong.add(s.where, "",
                fmt::format("{} B in {} is impossible: {}", s.n.value(), human(s.time), human(s.n / s.time)));
    }
    groups[{s.collective, s.shape.nodes, s.shape.ranks, s.in_place}].push_back({s.n, s.time});
  }
  if (groups.size() > kMostShapes) {
    wrong.add(samples.front().where, "", fmt::format("and others: more than {} shapes of groups", kMostShapes));
  }
  wrong.throw_if_any();
  return groups;
}

/// The shortest time of each size.
std::vector<MeasuredPoint> fastest(std::span<const MeasuredPoint> points) {
  std::map<Bytes, Seconds> shortest;
  for (const MeasuredPoint& p : points) {
    const auto [it, is_new] = shortest.emplace(p.n, p.time);
    if (!is_new) it->second = std::min(it->second, p.time);
  }
  std::vector<MeasuredPoint> out;
  for (const auto& [n, time] : shortest) out.push_back({n, time});
  return out;
}

/// The median of |time of a / time of b - 1| over the sizes of `points`.
double difference(const CurveFit& a, const CurveFit& b, std::span<const MeasuredPoint> points) {
  std::vector<double> differences;
  for (const MeasuredPoint& p : points) differences.push_back(std::abs(a.time(p.n) / b.time(p.n) - 1));
  return median(std::move(differences));
}

std::string time_text(Seconds t) { return t > Seconds(0) ? fmt::format("{:.6g} us", t.value() * 1e6) : "0"; }

bool has_alpha(const CollectiveFit& fit, const CurvePiece& piece) {
  return piece.from > Bytes(0) || tells_startup(fit);
}

Node piece_node(const CollectiveFit& fit, const CurvePiece& piece) {
  Node entry = Node::map();
  const Span span = fit.shape.nodes == 1 ? Span::IntraNode : Span::InterNode;
  entry.set("collective", Node::text(std::string(name_of<Collective>(kCollectiveNames, fit.collective))));
  entry.set("span", Node::text(std::string(name_of<Span>(kSpanNames, span))));
  entry.set("ranks", Node::integer(fit.shape.ranks));
  if (fit.shape.nodes > 1) entry.set("nodes", Node::integer(fit.shape.nodes));
  if (fit.in_place) entry.set("in_place", Node::boolean(true));
  if (piece.from > Bytes(0)) entry.set("from", Node::text(exact(piece.from.value()) + " B"));
  if (has_alpha(fit, piece)) entry.set("alpha", Node::text(time_text(piece.cost.alpha)));
  entry.set("beta", Node::text(fmt::format("{:.6g} ps/B", piece.cost.beta.value() * 1e12)));
  return entry;
}

}  // namespace

std::vector<CollectiveFit> fit_collectives(std::span<const CollectiveSample> samples) {
  std::vector<CollectiveFit> fits;
  for (const auto& [key, all] : grouped(samples)) {
    const auto& [collective, nodes, ranks, in_place] = key;
    const bool has_other = in_place && !fits.empty() && fits.back().collective == collective &&
                           fits.back().shape == GroupShape{ranks, nodes};
    if (has_other) {
      if (collective != Collective::AllToAll) continue;
    }
    const std::vector<MeasuredPoint> points = has_other ? fastest(all) : all;
    CurveFit curve = fit_curve(points);
    if (has_other && difference(curve, fits.back().curve, points) <= kSameWithin) continue;
    const auto [least, most] = std::minmax_element(
        points.begin(), points.end(), [](const MeasuredPoint& a, const MeasuredPoint& b) { return a.n < b.n; });
    fits.push_back({.collective = collective,
                    .shape = {ranks, nodes},
                    .in_place = in_place,
                    .smallest = least->n,
                    .largest = most->n,
                    .line = fit_line(points).quality,
                    .curve = std::move(curve)});
  }
  return fits;
}

bool tells_startup(const CollectiveFit& fit) {
  constexpr double kShare = 0.1;
  return fit.curve.pieces.front().cost.alpha >= kShare * fit.curve.time(fit.smallest);
}

CollectiveCosts costs_of(std::span<const CollectiveFit> fits, Seconds startup) {
  CollectiveCosts costs;
  for (const CollectiveFit& f : fits) {
    for (const CurvePiece& piece : f.curve.pieces) {
      costs[{.collective = f.collective,
             .span = f.shape.nodes == 1 ? Span::IntraNode : Span::InterNode,
             .in_place = f.in_place,
             .nodes = f.shape.nodes,
             .ranks = f.shape.ranks,
             .from = piece.from}] = has_alpha(f, piece) ? piece.cost : AlphaBeta{startup, piece.cost.beta};
    }
  }
  return costs;
}

Node collective_profile(std::span<const CollectiveFit> fits, const std::string& source) {
  Node list = Node::list();
  for (const CollectiveFit& f : fits) {
    for (const CurvePiece& piece : f.curve.pieces) list.items.push_back(piece_node(f, piece));
  }
  Node origins = Node::map();
  origins.set("collectives", Node::text("measured: " + source));
  Node profile = Node::map();
  profile.set("collectives", std::move(list));
  profile.set("origins", std::move(origins));
  return profile;
}

std::string fit_table(std::span<const CollectiveFit> fits) {
  std::string out = fmt::format("{:<15}{:>6}{:>6}{:>9}{:>7}  {:<22}{:>6} {:>11}{:>14}{:>9}{:>8}{:>8} {:>10}{:>14}\n",
                                "collective", "ranks", "nodes", "in place", "points", "sizes", "pieces", "alpha",
                                "rate", "r2", "median", "worst", "at", "line: median");
  for (const CollectiveFit& f : fits) {
    const FitQuality& q = f.curve.quality;
    const CurvePiece &first = f.curve.pieces.front(), &last = f.curve.pieces.back();
    out += fmt::format(
        "{:<15}{:>6}{:>6}{:>9}{:>7}  {:<22}{:>6}{}{:>11}{:>14}{:>9.5f}{:>7.1f}%{:>7.1f}% {:>10}{:>13.1f}%\n",
        name_of<Collective>(kCollectiveNames, f.collective), f.shape.ranks, f.shape.nodes, f.in_place ? "yes" : "no",
        q.points, fmt::format("{} .. {}", human(f.smallest), human(f.largest)), f.curve.pieces.size(),
        f.curve.is_robust ? "*" : " ", tells_startup(f) ? human(first.cost.alpha) : "?",
        human(BytesPerSecond(1 / last.cost.beta.value())), q.r2, 100 * q.median_error, 100 * q.worst_error,
        human(q.worst_at), 100 * f.line.median_error);
  }
  out +=
      "alpha: of the smallest sizes (?: too large to tell, the cluster's holds); rate: n per second of the largest. r2 "
      "is of the times' logarithms; median and\n"
      "worst are relative residuals, next to the median of a single straight line. *: outliers were weighted down\n";
  return out;
}

}  // namespace moeplan::profiler
