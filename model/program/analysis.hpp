// What a Timeline says about ranks, streams and links. Times count every iteration of a repeat.
#pragma once

#include <string>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/program/program.hpp"
#include "model/program/timeline.hpp"
#include "model/specs/topology.hpp"

namespace moeplan {

/// Time of one class of operations on one rank.
struct ClassTime {
  OpClass op_class;
  Seconds total;    // sum over operations; those that overlap count each
  Seconds exposed;  // share of RankTime::exposed_communication; 0 for computations
  bool operator==(const ClassTime&) const = default;
};

/// How one rank spent the makespan.
struct RankTime {
  RankId rank;
  Seconds compute;                 // sum over computations
  Seconds communication;           // sum over communications, from reaching one to its end: waiting for peers counts
  Seconds exposed_communication;   // a communication is open and no computation runs
  Seconds busy;                    // anything is open
  Seconds idle;                    // makespan less busy
  std::vector<ClassTime> classes;  // those that occur, in the order of OpClass

  [[nodiscard]] Seconds total(OpClass op_class) const;
  [[nodiscard]] Seconds exposed(OpClass op_class) const;
  bool operator==(const RankTime&) const = default;
};

/// Of the recorded ranks (Timeline::alike), by RankId. Where several communications are exposed at once, the time is
/// split equally among them. Spans inside a repeat and spans outside of it never overlap on a rank (it joins before and
/// after each iteration), so each level is measured by itself. Background streams count in the totals; what of them is
/// not hidden shows as Waits. O(spans log spans).
[[nodiscard]] std::vector<RankTime> rank_times(const Program& program, const Timeline& timeline);

/// Of any one rank.
[[nodiscard]] RankTime rank_time(const Program& program, const Timeline& timeline, RankId rank);

/// That of the rank that a report is about: the longest busy; ties: the longest computing, then the lowest id. `times`
/// as of rank_times(), not empty.
[[nodiscard]] const RankTime& slowest_rank(const std::vector<RankTime>& times);

/// A stream over all recorded ranks. Utilisation is busy time over the makespan, 0 for an empty run. A stream that
/// stands in a Receive or a Wait is not busy.
struct StreamUse {
  struct Summary {
    double min = 0;
    double mean = 0;
    double max = 0;
    bool operator==(const Summary&) const = default;
  };
  Stream stream;
  Summary busy;  // seconds
  Summary utilisation;
  bool operator==(const StreamUse&) const = default;
};

/// The streams that any rank uses, in the order of Stream.
[[nodiscard]] std::vector<StreamUse> stream_use(const Program& program, const Timeline& timeline);

/// What a link carried.
struct LinkUtilisation {
  LinkId link;
  std::string name;  // "from -> to"
  Bytes bytes;
  double utilisation = 0;  // bytes / (bandwidth x makespan); 0 for an empty run
  bool operator==(const LinkUtilisation&) const = default;
};

/// The links that carried something, the most used first; ties: the lowest id.
[[nodiscard]] std::vector<LinkUtilisation> link_utilisation(const Timeline& timeline, const Topology& topology);

}  // namespace moeplan
