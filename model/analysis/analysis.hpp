// What a Timeline says about ranks, streams and links. Times count every iteration of a repeat.
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
  Seconds total;    // sum over operations; those that overlap count each
  Seconds exposed;  // share of RankTime::exposed_communication; 0 for computations
  Seconds visible;  // share of RankTime::busy: what the class adds to the makespan; `exposed` for communications
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
  Seconds waiting;                 // idle, and the exposed communication in which it stands waiting for other ranks
  std::vector<ClassTime> classes;  // those that occur, in the order of OpClass

  [[nodiscard]] Seconds total(OpClass op_class) const;
  [[nodiscard]] Seconds exposed(OpClass op_class) const;
  [[nodiscard]] Seconds visible(OpClass op_class) const;
  bool operator==(const RankTime&) const = default;
};

/// Of the recorded ranks (Timeline::alike), by RankId. An instant of a rank's time belongs to the computations that run
/// or, where none does, to the communications that are open; several share it equally. So `visible` sums to `busy` over
/// the classes, and to the makespan together with `idle`. Spans inside a repeat and spans outside of it never overlap
/// on a rank (it joins before and after each iteration), so each level is measured by itself. Background streams count
/// in the totals; what of them is not hidden shows as Waits.
///
/// A rank waits in a collective until the last member of its group has reached it, of those that did before its own
/// part ended; in a Receive throughout (what comes is another rank's work); and in a Wait while what it waits for
/// waits. O(spans log spans), and O(members) for each collective.
[[nodiscard]] std::vector<RankTime> rank_times(const Program& program, const Timeline& timeline);

/// Of any one rank.
[[nodiscard]] RankTime rank_time(const Program& program, const Timeline& timeline, RankId rank);

/// The binding rank's: the one that waits least, so that its own work comes nearest to explaining the makespan. Reports
/// are about it. Ties: the longest computing, then the lowest id. `times` as of rank_times(), not empty.
[[nodiscard]] const RankTime& binding_rank(const std::vector<RankTime>& times);

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
