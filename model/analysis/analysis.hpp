// Utilisation analysis of a Timeline, by rank, stream and link. Times count every iteration of a repeat.
#pragma once

#include <string>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/base/quantity.hpp"
#include "model/machine/topology.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// Time of one class of operations on one rank.
struct ClassTime {
  OpClass op_class;
  Seconds total;    // sum over operations; overlapping operations count fully
  Seconds exposed;  // part of RankTime::exposed_communication; 0 for computations
  Seconds visible;  // part of RankTime::busy: contribution to the makespan; `exposed` for communications
  bool operator==(const ClassTime&) const = default;
};

/// Division of the makespan on one rank.
struct RankTime {
  RankId rank;
  Seconds compute;                 // sum over computations
  Seconds communication;           // sum over communications, from reaching one to its end, including waiting for peers
  Seconds exposed_communication;   // time with a communication in progress and no computation
  Seconds busy;                    // time with any operation in progress
  Seconds idle;                    // makespan - busy
  Seconds waiting;                 // idle time plus exposed communication time spent waiting for other ranks
  std::vector<ClassTime> classes;  // classes that occur, in the order of OpClass

  [[nodiscard]] Seconds total(OpClass op_class) const;
  [[nodiscard]] Seconds exposed(OpClass op_class) const;
  [[nodiscard]] Seconds visible(OpClass op_class) const;
  bool operator==(const RankTime&) const = default;
};

/// Times of the recorded ranks (Timeline::segment), by RankId.
///
/// Every instant of a rank's time is attributed to the computations in progress or, if there are none, to the
/// communications in progress, or to the host if only that is busy; several share it equally. The sum of `visible` over
/// the classes is therefore `busy`, and together with `idle` the makespan. Spans inside and outside a repeat never
/// overlap on a rank (all its streams synchronise before and after each iteration), so each level is measured
/// separately. Background streams count in the totals; the part of them that is not hidden appears as Waits.
///
/// A rank waits in a collective until the last member of its group has reached it (of those that reached it before the
/// rank's own part ended); in a Receive throughout, since the data are another rank's work; and in a Wait while the
/// awaited operation waits. O(S log S) for S spans, plus O(members) per collective.
[[nodiscard]] std::vector<RankTime> rank_times(const Program& program, const Timeline& timeline);

/// Times of the binding rank, the one that waits least, so that its own work best explains the makespan. Reports are
/// about this rank. Ties: the longest computing, then the lowest id. `times` as returned by rank_times(), not empty.
[[nodiscard]] const RankTime& binding_rank(const std::vector<RankTime>& times);

/// Times of the binding rank of each pipeline stage, in the order of the stages.
[[nodiscard]] std::vector<RankTime> binding_ranks_by_stage(const Program& program, const std::vector<RankTime>& times);

/// Use of a stream over all recorded ranks. Utilisation is busy time / makespan, 0 for an empty Timeline. A stream is
/// not busy during a Receive or a Wait.
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

/// Traffic and utilisation of a link.
struct LinkUtilisation {
  LinkId link;
  std::string name;  // "from -> to"
  Bytes bytes;
  double utilisation = 0;  // bytes / (bandwidth x makespan); 0 for an empty Timeline
  bool operator==(const LinkUtilisation&) const = default;
};

/// The links that carried traffic, by descending utilisation; ties: the lowest id.
[[nodiscard]] std::vector<LinkUtilisation> link_utilisation(const Timeline& timeline, const Topology& topology);

}  // namespace moeplan
