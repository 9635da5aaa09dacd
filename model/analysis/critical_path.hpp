// The critical path of a Timeline: the chain of operations that determines the makespan, with the bottleneck of each.
//
// The path is traced backwards from the last end. The predecessor of an operation is the item that ended at the instant
// it started: an operation of its `after` list, the previous operation on its stream, or the previous block (all
// streams of a rank synchronise between blocks). A communication starts to transfer when the last of the peers that the
// rank exchanges bytes with has arrived; if that was later than the rank itself, the path continues at that peer, so
// that waiting for a slower rank appears as the slower rank's own work. (If bytes of an earlier peer end last, this is
// an approximation: a Timeline does not record which flow did.) A Receive continues at the Send whose message it waited
// for, a Wait at the operation it waited for.
//
// Of iterations that are copies of a recorded one (Timeline::repeats), the path through the recorded iteration
// represents all if they begin and end at the same instant on all ranks, or if it ends on the rank on which it begins.
// Otherwise it is traced through one copy after another. The sum of duration times `times` over all segments is exactly
// the makespan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/analysis/bottleneck.hpp"
#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// An interval of one operation on the path.
struct PathSegment {
  RankId rank;
  BlockId block;
  std::int32_t operation = 0;  // index in the block; for an Unrecorded interval that of the operation that followed
  Bottleneck limited_by = Bottleneck::Unrecorded;
  std::optional<LinkId> link{};  // of Link and SharedLinks: the most loaded link
  SimTime start;                 // of the recorded occurrence
  SimTime duration;
  std::int64_t times = 1;  // occurrences
  SimTime waited{};        // how long this rank had waited in the communication before its last peer arrived
  double flops = 0;        // of the operation, on its longest TensorCores or Memory interval
  bool operator==(const PathSegment&) const = default;
};

/// How finely a path is divided: by operation (limited by Host, HostMemory and Waiting, otherwise Unrecorded), or each
/// operation by its bottlenecks, which takes the loads of all links.
enum class PathDetail { Operations, Bottlenecks };

/// The critical path in order of time. Empty for a Timeline without spans. O(S log S) for S spans, plus O(flows) once
/// per communication on the path.
[[nodiscard]] std::vector<PathSegment> critical_path(const Program& program, const Timeline& timeline,
                                                     const Cluster& cluster,
                                                     PathDetail detail = PathDetail::Bottlenecks);

/// Display name of a segment's bottleneck: "compute: tensor cores", "measured rate of all_to_all (beta)", "link
/// node0.gpu3 -> node0.nic3" ...
[[nodiscard]] std::string bottleneck_name(const Program& program, const Topology& topology, const PathSegment& segment);

/// Time of one class on the path.
struct PathClass {
  OpClass op_class;
  SimTime time;
  double flops = 0;           // of products and attention
  double possible_flops = 0;  // FLOPs at the GPU's peak in the same time
};

/// Time of one operation of the Program on the path, by bottleneck.
struct PathRow {
  BlockId block;
  std::int32_t operation = 0;
  std::string limited_by;
  SimTime time;
};

struct PathSummary {
  SimTime time;                                              // of the whole path
  std::vector<PathClass> classes;                            // the longest first
  std::vector<std::pair<std::string, SimTime>> bottlenecks;  // by bottleneck_name(), the longest first
  std::vector<PathRow> rows;                                 // in order of first occurrence
  std::vector<RankId> ranks;                                 // on the path, ascending
  std::int64_t handovers = 0;                                // number of transitions from one rank to another
  SimTime waited;  // total waiting time of the ranks that it leaves, for the ranks that it continues at
};
[[nodiscard]] PathSummary summarise(const Program& program, const Cluster& cluster,
                                    const std::vector<PathSegment>& path);

}  // namespace moeplan
