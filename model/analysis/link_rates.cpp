#include "model/analysis/link_rates.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace moeplan {

namespace {

constexpr double kAlike = 1e-9;  // relative: bytes that differ by rounding

struct Stretch {
  SimTime start;
  SimTime end;
  double bytes;
};

/// Bytes of one iteration of each repeat. An inner repeat may come before or after its enclosing one.
class IterationBytes {
 public:
  IterationBytes(const Timeline& timeline, const LinkHistory& history)
      : repeats_(timeline.repeats), own_(repeats_.size(), 0.0), children_(repeats_.size()) {
    for (const LinkSegment& s : history.segments) {
      if (s.repeat >= 0) own_[static_cast<std::size_t>(s.repeat)] += s.bytes;
    }
    for (std::size_t i = 0; i < repeats_.size(); ++i) {
      if (repeats_[i].parent >= 0) children_[static_cast<std::size_t>(repeats_[i].parent)].push_back(i);
    }
  }

  [[nodiscard]] double of(std::size_t repeat) const {
    double sum = own_[repeat];
    for (const std::size_t c : children_[repeat]) sum += static_cast<double>(repeats_[c].count) * of(c);
    return sum;
  }

 private:
  const std::vector<TimelineRepeat>& repeats_;
  std::vector<double> own_;
  std::vector<std::vector<std::size_t>> children_;
};

/// The curve of stretches that may overlap.
std::vector<RatePoint> summed(std::vector<Stretch> stretches) {
  std::sort(stretches.begin(), stretches.end(), [](const Stretch& a, const Stretch& b) { return a.start < b.start; });
  std::vector<SimTime> times;
  for (const Stretch& s : stretches) times.insert(times.end(), {s.start, s.end});
  std::sort(times.begin(), times.end());
  times.erase(std::unique(times.begin(), times.end()), times.end());
  std::vector<RatePoint> points;
  std::vector<Stretch> present;
  auto next = stretches.begin();
  for (const SimTime time : times) {
    std::erase_if(present, [&](const Stretch& s) { return s.end <= time; });
    for (; next != stretches.end() && next->start == time; ++next) present.push_back(*next);
    BytesPerSecond rate;
    for (const Stretch& s : present) rate += Bytes(s.bytes) / (s.end - s.start).seconds();
    points.push_back({time, rate});
  }
  return points;
}

}  // namespace

std::vector<RatePoint> link_rates(const Timeline& timeline, const LinkHistory& history) {
  std::vector<Stretch> stretches;
  for (const LinkSegment& s : history.segments) stretches.push_back({s.start, s.end, s.bytes});
  const IterationBytes iteration(timeline, history);
  for (std::size_t i = 0; i < timeline.repeats.size(); ++i) {
    const TimelineRepeat& r = timeline.repeats[i];
    const double bytes = static_cast<double>(r.count - 1) * iteration.of(i);
    if (bytes > 0) stretches.push_back({r.start + r.period, r.start + SimTime::scaled(r.period, r.count), bytes});
  }
  return summed(std::move(stretches));
}

std::vector<BusyLink> busiest_links(const Timeline& timeline, const Topology& topology, std::size_t most) {
  const auto link = [&](const LinkUse& u) -> const Link& { return topology.links[u.link.index()]; };
  const auto seconds = [&](const LinkUse& u) { return u.bytes / link(u).bandwidth.value(); };
  std::vector<LinkUse> uses = timeline.links;
  std::stable_sort(uses.begin(), uses.end(),
                   [&](const LinkUse& a, const LinkUse& b) { return seconds(a) > seconds(b); });
  std::vector<BusyLink> out;
  std::vector<LinkUse> first;
  for (const LinkUse& u : uses) {
    const auto is_equivalent = [&](const LinkUse& f) {
      return link(f).bandwidth == link(u).bandwidth && link(f).tier == link(u).tier &&
             std::abs(f.bytes - u.bytes) <= kAlike * f.bytes;
    };
    const auto it = std::find_if(first.begin(), first.end(), is_equivalent);
    if (it != first.end()) {
      BusyLink& b = out[static_cast<std::size_t>(it - first.begin())];
      ++b.equivalent;
      b.link = std::min(b.link, u.link);
    } else if (out.size() < most) {
      first.push_back(u);
      out.push_back({u.link, 1});
    }
  }
  return out;
}

}  // namespace moeplan
