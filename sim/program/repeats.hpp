// Iterations of repeats that need not be simulated.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "sim/flows/interacting_ranks.hpp"
#include "sim/flows/network_view.hpp"
#include "sim/program/program_cursor.hpp"
#include "sim/program/rank_streams.hpp"
#include "sim/program/timeline_recorder.hpp"

namespace moeplan::sim {

/// A rank of a simulation.
struct SimulatedRank {
  ProgramCursor cursor;
  RankStreams streams{};
  bool has_finished = false;
};

/// Repeats whose iterations all ranks begin and end in step: where every rank ends an iteration at the instant at which
/// all of them begin the next, and nothing is in flight, the following iterations are copies of it.
class RepeatsInStep {
 public:
  /// The arguments must outlive the object.
  RepeatsInStep(const NetworkView& view, TimelineRecorder& recorder);

  /// All ranks are at the boundary `at` now, with nothing in flight. Whether the remaining iterations are skipped: if
  /// all ranks were also at the start of the iteration that ends.
  bool pass(const ProgramCursor& at, SimTime now);
  /// Not all ranks are in step at a boundary of this depth.
  void reset(std::size_t depth) {
    if (depth <= starts_.size()) starts_[depth - 1].reset();
  }

 private:
  struct Start {
    SimTime time;                               // including skipped iterations
    std::vector<TimelineRecorder::Mark> marks;  // by rank
    TimelineRecorder::TrafficMark traffic;
  };

  std::size_t ranks_;
  std::vector<ResourceId> resources_;
  TimelineRecorder& recorder_;
  std::vector<std::optional<Start>> starts_;  // by nesting level of repeats: set if all ranks began this iteration
                                              // together
};

/// Repeats whose ranks are not in step, but begin each iteration with the same delays against each other.
///
/// Let the ranks of a set interact with no other rank while they execute a repeat (interacting_ranks.hpp), and let t_k
/// be the vector of the times at which they end iteration k. Where
///  - none of them has background operations left at the end of an iteration,
///  - no transfer of one that has ended an iteration starts before all of them have (at that instant nothing is in
///    flight, and what the ranks do until then is independent of each other),
///  - and no other traffic uses the links of their communications (own_resources),
/// all that happens in iteration k + 1 is determined by t_k, and if t_k is later by a constant, so is all of it. Thus,
/// if t_k = t_(k-1) + P with the same period P for every rank of the set, then t_(k+n) = t_k + n P: the iterations
/// after k + 1 are copies of it, which each rank of the set skips by waiting as long as they would take, but for the
/// last: a rank that has ended it may start a transfer, of what follows the repeat, before all of the set have.
///
/// Different sets skip different numbers of iterations of different periods. Times are whole picoseconds, and t_k is
/// compared exactly. In a simulation of every iteration, each end of a computation or a transfer is rounded up to a
/// whole picosecond after sums in floating point, which may differ from one iteration to the next: by at most one
/// picosecond per operation.
class RecurringRepeats {
 public:
  /// The arguments must outlive the object.
  RecurringRepeats(const Program& program, const Cluster& cluster, const NetworkView& view, TimelineRecorder& recorder)
      : program_(program), cluster_(cluster), view_(view), recorder_(recorder), active_(view.ranks()) {}

  /// What a rank skips.
  struct Skip {
    SimTime time;
    std::int64_t iterations, blocks;
  };
  /// A rank passes the boundary `at` now. If set, it skips iterations.
  std::optional<Skip> pass(RankId r, const ProgramCursor& at, const RankStreams& streams, SimTime now);
  /// Transfers of an operation begin now that the rank has reached.
  void start_transfers(RankId r);
  /// Whether some ranks of a set have passed the boundary at which they skip iterations, or will pass it next.
  [[nodiscard]] bool is_skipping() const { return skipping_ > 0; }

 private:
  /// A rank at a boundary.
  struct Passed {
    SimTime time;
    std::int64_t block_number;
    TimelineRecorder::Mark mark;
  };
  /// A boundary of a repeat that ranks of a set pass.
  struct Boundary {
    std::optional<ProgramCursor> at{};
    std::vector<std::optional<Passed>> ranks{};  // by position in the set
    std::size_t count = 0;                       // ranks that have passed it
    SimTime skipped{};                           // TimelineRecorder::skipped() when the first did
    bool separates = true;                       // nothing of the iterations before and after it overlaps
  };
  /// Further iterations, which the ranks skip at the boundary after `present`.
  struct Skipped {
    std::int64_t iterations;
    SimTime period;
    std::int32_t repeat;  // in the Timeline
    TimelineRecorder::TrafficMark traffic;
    std::size_t ranks = 0;  // that have skipped them
  };
  struct Level {
    Boundary previous{}, present{};
    std::optional<Skipped> skipped{};
  };
  struct Set {
    std::vector<RankId> ranks{};
    std::vector<Level> levels{};  // by nesting level of repeats
  };
  struct Partition {
    RankSets set_of{};
    std::vector<Set> sets{};
    std::vector<std::size_t> position{};  // by rank, in its set
    std::optional<OwnResources> own{};    // once needed
  };

  /// The sets of a repeat; null if its iterations cannot be skipped.
  Partition* partition_of(const Step& repeat);
  /// The resources of a set of ranks that share none; null if they do.
  const std::vector<ResourceId>* own(Partition& partition, std::size_t set);
  /// All ranks of the set have passed the present boundary.
  void complete(Partition& partition, std::size_t set, std::size_t depth, SimTime now);
  Skip skip(Partition& partition, std::size_t set, std::size_t depth, RankId r, const RankStreams& streams);

  const Program& program_;
  const Cluster& cluster_;
  const NetworkView& view_;
  TimelineRecorder& recorder_;
  std::deque<Partition> partitions_;
  std::map<const Step*, Partition*> of_repeats_;
  std::vector<std::vector<Partition*>> active_;  // by rank and nesting level of repeats: of the boundary passed last
  std::int64_t skipping_ = 0;                    // sets, by level
};

/// All repeats of a simulation.
class Repeats {
 public:
  /// As RecurringRepeats.
  Repeats(const Program& program, const Cluster& cluster, const NetworkView& view, TimelineRecorder& recorder)
      : simulated_(view.simulated_ranks().size()),
        in_step_(view, recorder),
        recurring_(program, cluster, view, recorder) {}

  struct Passed {
    bool in_step = false;                            // all ranks pass the same boundary, with nothing in flight
    std::vector<RankId> go_on{};                     // ranks that go on from their boundaries
    std::vector<std::pair<RankId, SimTime>> skip{};  // ranks that wait so long instead of executing iterations
  };
  /// The ranks `waiting`, in ascending order, pass their boundaries now. The cursors of those that skip iterations move
  /// past these.
  Passed pass(std::vector<SimulatedRank>& ranks, const std::vector<RankId>& waiting, SimTime now);
  /// Transfers of an operation begin now that the rank has reached.
  void start_transfers(RankId r) { recurring_.start_transfers(r); }

 private:
  std::size_t simulated_;  // ranks
  RepeatsInStep in_step_;
  RecurringRepeats recurring_;
};

}  // namespace moeplan::sim
