#include "model/costs/measured_cost.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace moeplan {

namespace {

/// A measured curve at one message size: the time, the slope there, and the slope of the largest messages, in seconds
/// and seconds per byte of the requested message.
struct At {
  double time;
  double slope;
  double last_slope;
};

At operator*(const At& a, double factor) { return {a.time * factor, a.slope * factor, a.last_slope * factor}; }
At operator+(const At& a, const At& b) { return {a.time + b.time, a.slope + b.slope, a.last_slope + b.last_slope}; }
At positive_part(const At& a) { return {std::max(a.time, 0.0), std::max(a.slope, 0.0), std::max(a.last_slope, 0.0)}; }
At larger(const At& a, const At& b) {
  return {std::max(a.time, b.time), std::max(a.slope, b.slope), std::max(a.last_slope, b.last_slope)};
}

double on_line(const AlphaBeta& line, double n) { return line.alpha.value() + n * line.beta.value(); }

struct Curve {
  GroupShape shape;  // ranks 0: any shape
  bool in_place;
  std::vector<std::pair<double, AlphaBeta>> pieces;  // by the n at which they begin

  [[nodiscard]] const AlphaBeta& piece(double n) const {
    std::size_t i = pieces.size() - 1;
    while (i > 0 && pieces[i].first > n) --i;
    return pieces[i].second;
  }
  /// If a piece starts below the end of an earlier one, the time of that end applies until the piece exceeds it.
  [[nodiscard]] double time(double n) const {
    double time = on_line(piece(n), n);
    for (std::size_t i = 1; i < pieces.size() && pieces[i].first <= n; ++i) {
      time = std::max(time, on_line(pieces[i - 1].second, pieces[i].first));
    }
    return time;
  }
  /// Message sizes at which such a plateau ends within a piece.
  [[nodiscard]] std::vector<double> plateau_ends() const {
    std::vector<double> ends;
    for (std::size_t i = 1; i < pieces.size(); ++i) {
      const AlphaBeta& line = pieces[i].second;
      const double below = time(pieces[i].first) - on_line(line, pieces[i].first);
      if (below > 0) ends.push_back(pieces[i].first + below / line.beta.value());
    }
    return ends;
  }
  [[nodiscard]] double startup() const { return pieces.front().second.alpha.value(); }
  /// The curve at the message size `n`, which represents `asked` bytes of the requested message.
  [[nodiscard]] At at(double n, double asked) const {
    const AlphaBeta& p = piece(n);
    const double scale = asked > 0 ? n / asked : 1;
    return {time(n), p.beta.value() * scale, pieces.back().second.beta.value() * scale};
  }
  [[nodiscard]] double per_node() const {
    return static_cast<double>(shape.ranks) / static_cast<double>(std::max<std::int64_t>(1, shape.nodes));
  }
};

std::vector<Curve> curves_of(const CollectiveCosts& costs, Collective collective, Span span) {
  std::vector<Curve> curves;
  for (auto it = costs.lower_bound({.collective = collective, .span = span});
       it != costs.end() && it->first.collective == collective && it->first.span == span; ++it) {
    const CollectiveKey& key = it->first;
    const GroupShape shape{key.ranks, key.nodes};
    if (curves.empty() || curves.back().shape != shape || curves.back().in_place != key.in_place) {
      curves.push_back({shape, key.in_place, {}});
    }
    curves.back().pieces.emplace_back(key.from.value(), it->second);
  }
  return curves;
}

/// One curve per shape, the preferred kind if there are two, ordered by ranks.
std::vector<const Curve*> one_a_shape(const std::vector<Curve>& curves, bool in_place_first) {
  std::vector<const Curve*> out;
  for (const bool kind : {in_place_first, !in_place_first}) {
    for (const Curve& c : curves) {
      const bool known = std::any_of(out.begin(), out.end(), [&](const Curve* o) { return o->shape == c.shape; });
      if (c.in_place == kind && c.shape.ranks > 0 && !known) out.push_back(&c);
    }
  }
  std::sort(out.begin(), out.end(), [](const Curve* a, const Curve* b) {
    return std::pair(a->shape.ranks, a->shape.nodes) < std::pair(b->shape.ranks, b->shape.nodes);
  });
  return out;
}

bool is_cut_by_ranks(Collective c) { return c != Collective::Broadcast && c != Collective::SendReceive; }

/// Of curves of shapes that differ in P alone (rules 2 and 3).
class CurveFamily {
 public:
  CurveFamily(Collective collective, GroupShape shape, double n) : collective_(collective), shape_(shape), n_(n) {}

  [[nodiscard]] At along_line(const std::vector<const Curve*>& curves) const {
    std::size_t b = 1;
    while (b + 1 < curves.size() && curves[b]->shape.ranks < shape_.ranks) ++b;
    const Curve &fewer = *curves[b - 1], &more = *curves[b];
    const double p = ranks(shape_), p_low = ranks(fewer.shape), p_high = ranks(more.shape);
    const auto low = [&](double n) { return at_equal_part(fewer, n); };
    const auto high = [&](double n) { return at_equal_part(more, n); };
    const auto step = [&](double n) { return (high(n) + low(n) * -1) * (1 / (p_high - p_low)); };
    if (p >= p_low && p <= p_high) return low(n_) + step(n_) * (p - p_low);
    const std::vector<double> corners = corners_of(fewer, more, [&](double n) { return step(n).time; });
    if (p > p_high) {
      return never_falling(corners, [&](double n) { return high(n) + positive_part(step(n)) * (p - p_high); });
    }
    // Below the measured range: no faster than the remaining steps.
    return larger(never_falling(corners, [&](double n) { return low(n) + positive_part(step(n)) * (p - p_low); }),
                  low(n_) * ((p - 1) / (p_low - 1)));
  }

  [[nodiscard]] At scaled(const Curve& curve) const {
    const At at = at_equal_part(curve, n_);
    if (!is_cut_by_ranks(collective_)) return at;
    // The parts that are not sent: the rank's own or, if the network is the bottleneck, those of its node.
    const double kept = collective_ == Collective::AllToAll && shape_.nodes > 1 ? curve.per_node() : 1;
    const double factor = (ranks(shape_) - kept) / (ranks(curve.shape) - kept);
    return {curve.startup() + (at.time - curve.startup()) * factor, at.slope * factor, at.last_slope * factor};
  }

 private:
  static double ranks(const GroupShape& s) { return static_cast<double>(s.ranks); }
  /// Bytes of a message of the curve's shape per byte of one of the requested shape.
  [[nodiscard]] double part_ratio(const Curve& curve) const {
    return is_cut_by_ranks(collective_) ? ranks(curve.shape) / ranks(shape_) : 1;
  }
  [[nodiscard]] At at_equal_part(const Curve& curve, double n) const { return curve.at(n * part_ratio(curve), n); }

  /// The message sizes up to n at which a combination of two curves may have a maximum: where either has a new piece,
  /// and where the two intersect.
  template <class Step>
  [[nodiscard]] std::vector<double> corners_of(const Curve& a, const Curve& b, const Step& step) const {
    std::vector<double> ends{0};
    for (const Curve* c : {&a, &b}) {
      for (const auto& [from, line] : c->pieces) ends.push_back(from / part_ratio(*c));
      for (const double n : c->plateau_ends()) ends.push_back(n / part_ratio(*c));
    }
    std::erase_if(ends, [&](double n) { return n >= n_; });
    ends.push_back(n_);
    std::sort(ends.begin(), ends.end());
    std::vector<double> corners = ends;
    for (std::size_t i = 0; i + 1 < ends.size(); ++i) {
      const double first = step(ends[i]), last = step(just_below(ends[i + 1]));
      if ((first < 0) == (last < 0)) continue;
      corners.push_back(ends[i] + (ends[i + 1] - ends[i]) * first / (first - last));
    }
    return corners;
  }

  /// `at` evaluated at n, with its time raised to the longest time up to n.
  template <class Cost>
  [[nodiscard]] At never_falling(const std::vector<double>& corners, const Cost& at) const {
    At out = at(n_);
    for (const double n : corners) out.time = std::max({out.time, at(n).time, at(just_below(n)).time});
    return out;
  }

  static double just_below(double n) { return n * (1 - 1e-12); }

  Collective collective_;
  GroupShape shape_;
  double n_;
};

const Curve* nearest(const std::vector<const Curve*>& curves, GroupShape shape) {
  const double per_node = static_cast<double>(shape.ranks) / static_cast<double>(shape.nodes);
  const auto distance = [&](const Curve* c) {
    return std::pair(std::abs(std::log(c->per_node() / per_node)),
                     std::abs(std::log(static_cast<double>(c->shape.ranks) / static_cast<double>(shape.ranks))));
  };
  const auto it = std::min_element(curves.begin(), curves.end(),
                                   [&](const Curve* a, const Curve* b) { return distance(a) < distance(b); });
  return it == curves.end() ? nullptr : *it;
}

AlphaBeta as_alpha_beta(const At& at, double n) {
  for (const double beta : {std::max(at.slope, at.last_slope), at.slope}) {
    if (n * beta <= at.time) return {Seconds(at.time - n * beta), SecondsPerByte(beta)};
  }
  return {Seconds(0), SecondsPerByte(at.time / n)};
}

/// Cost of a message of the curve's own shape.
AlphaBeta own_cost(const Curve& curve, double n) {
  const AlphaBeta& piece = curve.piece(n);
  const bool is_on_line = curve.time(n) <= on_line(piece, n);
  return is_on_line && piece.beta >= curve.pieces.back().second.beta ? piece : as_alpha_beta(curve.at(n, n), n);
}

/// Rule 5 for an all-to-all.
At across(const CollectiveCosts& costs, const std::vector<Curve>& curves, GroupShape shape, double n) {
  const auto p = static_cast<double>(shape.ranks);
  const double m = p / static_cast<double>(shape.nodes);
  const Curve& network = *nearest(one_a_shape(curves, true), shape);
  const auto measured_ranks = static_cast<double>(network.shape.ranks);
  const double crossing = (p - m) / p;
  At at = network.at(n * crossing * measured_ranks / (measured_ranks - network.per_node()), n);
  const auto in_node = static_cast<std::int64_t>(std::ceil(m));
  if (in_node < 2) return at;
  // m ranks that exchange n m / P move the same blocks as the intra-node part of the whole.
  const double inside = n * static_cast<double>(in_node) / p;
  if (const auto c = measured_cost(costs, Collective::AllToAll, {in_node, 1}, Bytes(inside))) {
    const double slope = c->beta.value() * inside / n;
    const At local{c->time(Bytes(inside)).value(), slope, slope};
    if (local.time > at.time) at = local;
  }
  return at;
}

}  // namespace

bool is_measured(const CollectiveCosts& costs, Collective collective, GroupShape shape) {
  const Span span = shape.nodes == 1 ? Span::IntraNode : Span::InterNode;
  const auto first = costs.lower_bound({.collective = collective, .span = span});
  return std::any_of(first, costs.end(), [&](const auto& entry) {
    const CollectiveKey& key = entry.first;
    return key.collective == collective && key.span == span && GroupShape{key.ranks, key.nodes} == shape;
  });
}

bool depends_on_message(const CollectiveCosts& costs) {
  if (std::any_of(costs.begin(), costs.end(),
                  [](const auto& entry) { return entry.first.ranks > 0 || entry.first.from > Bytes(0); })) {
    return true;
  }
  // By rule 6 the slower of two straight lines, which may intersect.
  for (const auto& [key, cost] : costs) {
    if (key.collective != Collective::AllReduce) continue;
    for (const Collective half : {Collective::ReduceScatter, Collective::AllGather}) {
      const auto it = costs.find({.collective = half, .span = key.span});
      if (it != costs.end() && (cost.alpha < it->second.alpha) != (cost.beta < it->second.beta)) return true;
    }
  }
  return false;
}

double sent_share(Collective collective, std::int64_t group_size) {
  const auto g = static_cast<double>(group_size);
  switch (collective) {
    case Collective::AllToAll:
    case Collective::AllGather:
    case Collective::ReduceScatter: return (g - 1) / g;
    case Collective::AllReduce: return 2 * (g - 1) / g;
    case Collective::Broadcast:
    case Collective::SendReceive: return 1;
  }
  return 1;
}

namespace {

/// Rules 1 to 5.
std::optional<AlphaBeta> cost_by_curves(const CollectiveCosts& costs, Collective collective, GroupShape shape,
                                        Bytes bytes) {
  const double n = bytes.value();
  const bool inside = shape.nodes == 1;
  const Span span = inside ? Span::IntraNode : Span::InterNode;
  if (!depends_on_message(costs)) {
    const auto it = costs.find({.collective = collective, .span = span});
    return it == costs.end() ? std::nullopt : std::optional(it->second);
  }
  const std::vector<Curve> curves = curves_of(costs, collective, span);
  if (curves.empty()) return std::nullopt;
  const std::vector<const Curve*> all = one_a_shape(curves, false);
  for (const Curve* c : all) {
    if (c->shape == shape) return own_cost(*c, n);
  }
  if (collective == Collective::SendReceive && !all.empty()) {
    return own_cost(*nearest(all, shape), n);
  }
  std::vector<const Curve*> similar;
  for (const Curve* c : all) {
    if (inside || c->shape.ranks * shape.nodes == shape.ranks * c->shape.nodes) similar.push_back(c);
  }
  const CurveFamily family(collective, shape, n);
  if (similar.size() > 1) return as_alpha_beta(family.along_line(similar), n);
  if (similar.size() == 1) {
    for (const Curve* c : one_a_shape(curves, true)) {
      if (c->shape == similar.front()->shape) return as_alpha_beta(family.scaled(*c), n);
    }
  }
  for (const Curve& c : curves) {
    if (c.shape.ranks == 0) return own_cost(c, n);
  }
  if (collective == Collective::AllToAll && !all.empty()) return as_alpha_beta(across(costs, curves, shape, n), n);
  return std::nullopt;
}

}  // namespace

std::optional<AlphaBeta> measured_cost(const CollectiveCosts& costs, Collective collective, GroupShape shape,
                                       Bytes bytes) {
  const std::optional<AlphaBeta> own = cost_by_curves(costs, collective, shape, bytes);
  if (collective != Collective::AllReduce) return own;
  std::vector<AlphaBeta> halves;
  for (const Collective half : {Collective::ReduceScatter, Collective::AllGather}) {
    if (const auto cost = cost_by_curves(costs, half, shape, bytes)) halves.push_back(*cost);
  }
  if (halves.empty()) return own;
  if (!own) return AlphaBeta{halves.front().alpha + halves.back().alpha, halves.front().beta + halves.back().beta};
  AlphaBeta longest = *own;
  for (const AlphaBeta& half : halves) longest = half.time(bytes) > longest.time(bytes) ? half : longest;
  return longest;
}

}  // namespace moeplan
