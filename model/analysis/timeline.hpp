// A Timeline: the start and end of every operation and the traffic of every link, from simulating or executing a
// Program.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// The execution of an operation on one rank. Of iterations that are copies (see Timeline::repeats), only the first is
/// recorded.
struct TimelineSpan {
  RankId rank;
  BlockId block;
  std::int32_t operation = 0;  // index in the block
  std::int32_t repeat = -1;    // index in Timeline::repeats of the innermost repeat with unrecorded copies; -1: none
  SimTime start;               // when the rank reached it; a communication then waits for its peers
  SimTime end;
  bool operator==(const TimelineSpan&) const = default;
};

/// Further iterations that are exact copies of the recorded one, `period` apart.
struct TimelineRepeat {
  std::int32_t parent = -1;  // the enclosing repeat; -1: none
  std::int64_t count = 1;    // total iterations
  SimTime start;             // of the recorded iteration, on the rank that begins it last
  SimTime period;
  bool in_step = true;  // all ranks begin it at `start`; false: the ranks with spans in it, each with its first span
  bool operator==(const TimelineRepeat&) const = default;
};

/// Bytes that a link carried in total.
struct LinkUse {
  LinkId link;
  double bytes = 0;
  bool operator==(const LinkUse&) const = default;
};

/// Bytes that crossed a link at constant throughput. As for spans, only the first of iterations that are copies is
/// recorded.
struct LinkSegment {
  SimTime start;
  SimTime end;               // after start
  double bytes = 0;          // > 0
  std::int32_t repeat = -1;  // as TimelineSpan::repeat
  bool operator==(const LinkSegment&) const = default;
};

/// The traffic of a link over time.
struct LinkHistory {
  LinkId link;
  std::vector<LinkSegment> segments;  // ascending; disjoint but in pipelines that were composed of segments
  bool operator==(const LinkHistory&) const = default;
};

struct Timeline {
  SimTime makespan;
  SimTime joined_end;  // end of the sequences: earlier than the makespan if background operations end last
  /// In each segment of so many consecutive ranks, the first `classes` have spans, which also apply to the next
  /// `classes` ranks of the segment, and so on.
  std::int64_t segment = 1;
  std::int64_t classes = 1;
  /// Or else, by rank of a segment its class, and by class the rank of the segment that has the class's spans.
  std::vector<std::int32_t> class_of{};
  std::vector<std::int32_t> recorded_of{};
  std::vector<TimelineSpan> spans;  // by start, then rank, then operation
  std::vector<TimelineRepeat> repeats;
  std::vector<LinkUse> links;               // links that carried traffic, by id
  std::vector<LinkHistory> link_history{};  // of the requested links, in the order requested
  bool operator==(const Timeline&) const = default;

  /// The rank whose spans apply to `rank`.
  [[nodiscard]] RankId recorded(RankId rank) const { return recorded_at(place(rank)); }
  /// The number of recorded ranks among `world` ranks; the index of a rank's recorded rank among them; and its inverse.
  [[nodiscard]] std::size_t recorded_ranks(std::int64_t world) const {
    return static_cast<std::size_t>(world / segment * classes);
  }
  [[nodiscard]] std::size_t place(RankId rank) const {
    return static_cast<std::size_t>(rank.value() / segment * classes + class_in_segment(rank.value() % segment));
  }
  [[nodiscard]] RankId recorded_at(std::size_t place_of_it) const {
    const auto at = static_cast<std::int64_t>(place_of_it);
    const std::int64_t number = at % classes;
    const std::int64_t in_segment = recorded_of.empty() ? number : recorded_of[static_cast<std::size_t>(number)];
    return RankId(static_cast<std::int32_t>(at / classes * segment + in_segment));
  }

  /// The class of a segment's rank.
  [[nodiscard]] std::int64_t class_in_segment(std::int64_t rank) const {
    return class_of.empty() ? rank % classes : class_of[static_cast<std::size_t>(rank)];
  }
  /// Number of occurrences of a span.
  [[nodiscard]] std::int64_t occurrences(const TimelineSpan& span) const;
};

/// For each repeat of a Timeline, how much later than the recorded spans each of its occurrences is, ascending from 0,
/// enclosing repeats included. A span's occurrences are those of its repeat.
[[nodiscard]] std::vector<std::vector<SimTime>> repeat_offsets(const Timeline& timeline);

/// Sorts spans in the order of Timeline::spans.
void sort_spans(std::vector<TimelineSpan>& spans);

}  // namespace moeplan
