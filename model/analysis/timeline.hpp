// What happened when: the result of simulating or of executing a Program.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/base/sim_time.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// An operation of a block on one rank. Inside a repeat that ran in step (see Timeline::repeats) only the first
/// iteration is kept.
struct TimelineSpan {
  RankId rank;
  BlockId block;
  std::int32_t operation = 0;  // index in the block
  std::int32_t repeat = -1;    // index in Timeline::repeats of the innermost repeat that stands for more; -1: none
  SimTime start;               // when the rank reached it; a communication then waits for its peers
  SimTime end;
  bool operator==(const TimelineSpan&) const = default;
};

/// Further iterations that are exact copies of the recorded one, `period` apart.
struct TimelineRepeat {
  std::int32_t parent = -1;  // the repeat that holds this one; -1: none
  std::int64_t count = 1;    // iterations in all
  SimTime start;             // of the recorded one
  SimTime period;
  bool operator==(const TimelineRepeat&) const = default;
};

/// Bytes that a link carried over the whole run.
struct LinkUse {
  LinkId link;
  double bytes = 0;
  bool operator==(const LinkUse&) const = default;
};

/// Bytes that crossed a link at an even rate. As for spans, of a repeat that ran in step only the first iteration is
/// kept.
struct LinkSegment {
  SimTime start;
  SimTime end;               // after start
  double bytes = 0;          // above 0
  std::int32_t repeat = -1;  // as TimelineSpan::repeat
  bool operator==(const LinkSegment&) const = default;
};

/// What a link carried when.
struct LinkHistory {
  LinkId link;
  std::vector<LinkSegment> segments;  // ascending, apart
  bool operator==(const LinkHistory&) const = default;
};

struct Timeline {
  SimTime makespan;
  SimTime joined_end;  // of the sequences: earlier than the makespan where background operations end last
  /// Of every `alike` ranks the first `classes` have spans. These hold for those `classes`, 2 `classes` ... on, too.
  std::int64_t alike = 1;
  std::int64_t classes = 1;
  std::vector<TimelineSpan> spans;  // by start, then rank, then operation
  std::vector<TimelineRepeat> repeats;
  std::vector<LinkUse> links;               // those that carried something, by id
  std::vector<LinkHistory> link_history{};  // of the links that were asked for, in that order
  bool operator==(const Timeline&) const = default;

  /// The rank whose spans hold for `rank`.
  [[nodiscard]] RankId recorded(RankId rank) const {
    const std::int64_t first = rank.value() - rank.value() % alike;
    return RankId(static_cast<std::int32_t>(first + rank.value() % alike % classes));
  }
  /// How many of `world` ranks are recorded; the place of a rank's recorded one among those; and the other way round.
  [[nodiscard]] std::size_t recorded_ranks(std::int64_t world) const {
    return static_cast<std::size_t>(world / alike * classes);
  }
  [[nodiscard]] std::size_t place(RankId rank) const {
    return static_cast<std::size_t>(rank.value() / alike * classes + rank.value() % alike % classes);
  }
  [[nodiscard]] RankId recorded_at(std::size_t place_of_it) const {
    const auto at = static_cast<std::int64_t>(place_of_it);
    return RankId(static_cast<std::int32_t>(at / classes * alike + at % classes));
  }

  /// How many times a span occurs.
  [[nodiscard]] std::int64_t occurrences(const TimelineSpan& span) const;
};

/// Puts spans in the order of Timeline::spans.
void sort_spans(std::vector<TimelineSpan>& spans);

}  // namespace moeplan
