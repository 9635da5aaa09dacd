#include "sim/program/link_recorder.hpp"

#include <cmath>

namespace moeplan::sim {

void LinkRecorder::record(double carried, SimTime now, SimTime skipped) {
  if (now == seen_at_) return;
  const double bytes = (carried - seen_) * bytes_on_link_;
  const SimTime start = seen_at_ + skipped, end = now + skipped;
  seen_ = carried;
  seen_at_ = now;
  if (bytes <= 0) {
    may_extend_ = false;
    return;
  }
  if (may_extend_) {
    constexpr double kSameBandwidth = 1e-6;  // relative: times are whole picoseconds
    LinkSegment& last = history_.segments.back();
    const double before = last.bytes / static_cast<double>((last.end - last.start).picoseconds());
    const double bandwidth = bytes / static_cast<double>((end - start).picoseconds());
    if (std::abs(bandwidth - before) <= kSameBandwidth * before) {
      last.end = end;
      last.bytes += bytes;
      return;
    }
  }
  history_.segments.push_back({start, end, bytes, -1});
  may_extend_ = true;
}

}  // namespace moeplan::sim
