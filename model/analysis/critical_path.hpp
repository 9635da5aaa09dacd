// The critical path of a Timeline: the chain of operations that makes the makespan, and what holds each of them.
//
// Walked back from the last end. What made an operation start when it did is what ended at that instant: an operation
// of its `after` list, the one before it on its stream, or the block before (the rank joins between blocks). A
// communication starts moving once the last of the peers that the rank exchanges bytes with has come; where that was
// later than the rank itself, the path goes on at that peer, so waiting for a slower rank shows as the slower rank's
// own work. (Where bytes of an earlier peer end last, this is an approximation: a Timeline does not say which flow
// did.) A Receive hands over to the Send whose message it waited for, a Wait to what it waited for.
//
// Iterations that are copies of a recorded one (Timeline::repeats) begin and end at one instant on all ranks, so the
// path through the recorded one stands for all `count` of them: duration times `times`, over all segments, is exactly
// the makespan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// What a stretch of the path was held by.
enum class Bottleneck {
  TensorCores,   // a product's or an attention's FLOPs at the rate that they reach
  Memory,        // bytes to and from HBM
  Launch,        // launching the kernel
  Slowed,        // a computation longer than it is alone: communication ran beside it
  SharedGpu,     // the same where ranks share the GPU: other ranks computed, or communication ran, beside it
  StartUp,       // a communication before its first byte: measured alpha, or software start-up and latency of the route
  MeasuredRate,  // bytes at the rate that the measured collective reaches (beta)
  Link,          // bytes over the most loaded link, counting all groups of this communication at once
  SharedLinks,   // bytes beyond that time: other communications were on the links too
  Waiting,       // in the communication, peers not there in time to explain its end (clocks that disagree)
  Unrecorded     // nothing recorded ended when this operation started
};

/// A stretch of one operation on the path.
struct PathSegment {
  RankId rank;
  BlockId block;
  std::int32_t operation = 0;  // index in the block; of an Unrecorded stretch the one that came after
  Bottleneck held_by = Bottleneck::Unrecorded;
  std::optional<LinkId> link{};  // of Link and SharedLinks: the most loaded one
  SimTime start;                 // of the recorded occurrence
  SimTime duration;
  std::int64_t times = 1;  // occurrences
  SimTime waited{};        // how long this rank had stood in the communication before its last peer came
  double flops = 0;        // of the operation, with its longest stretch by flops or memory
  bool operator==(const PathSegment&) const = default;
};

/// In order of time. Empty for a Timeline without spans. O(spans log spans), and O(flows) once for each communication
/// on the path.
[[nodiscard]] std::vector<PathSegment> critical_path(const Program& program, const Timeline& timeline,
                                                     const Cluster& cluster);

/// "compute: tensor cores", "measured rate of all_to_all (beta)", "link node0.gpu3 -> node0.nic3" ...
[[nodiscard]] std::string holder_name(const Program& program, const Topology& topology, const PathSegment& segment);

/// Time of one class on the path.
struct PathClass {
  OpClass op_class;
  SimTime time;
  double flops = 0;           // of products and attention
  double possible_flops = 0;  // what the GPU's peak could have done while these ran
};

/// Time of one operation of the Program on the path, by what held it.
struct PathRow {
  BlockId block;
  std::int32_t operation = 0;
  std::string held_by;
  SimTime time;
};

struct PathSummary {
  SimTime time;                                          // of the whole path
  std::vector<PathClass> classes;                        // the longest first
  std::vector<std::pair<std::string, SimTime>> holders;  // by holder_name(), the longest first
  std::vector<PathRow> rows;                             // in order of first occurrence
  std::vector<RankId> ranks;                             // that the path touches, ascending
  std::int64_t handovers = 0;                            // how often it goes from one rank to another
  SimTime waited;                                        // by ranks that it leaves, for those that it goes to
};
[[nodiscard]] PathSummary summarise(const Program& program, const Cluster& cluster,
                                    const std::vector<PathSegment>& path);

}  // namespace moeplan
