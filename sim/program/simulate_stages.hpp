// Approximate simulation of a pipeline from its segments: milliseconds instead of seconds for thousands of
// microbatches.
//
// Each distinct segment of each stage is simulated alone on the stage's sub-cluster (stage_segments.hpp), and the
// pipeline's timeline is composed from their times (compose_stages.hpp). Compared with simulating the whole Program at
// once, this neglects
//  - link contention of messages between stages with concurrent traffic, and with each other beyond one stage's own;
//  - that the ranks of a stage may begin a segment at different times;
//  - the slowdown of computation concurrent with background traffic that outlasts its segment;
//  - that stages on one node share its links to the network.
// The makespan is never less than the time that the busiest of the links shared by the stages needs for all of its
// traffic.
//
// Accuracy, measured by tests/validation/stages_test.cpp on 1,000 random pipelines of 2 to 4 stages on up to 16 GPUs,
// with models and networks that make communication as expensive as computation: exact where none of the above occurs.
// Where stages have nodes of their own, 84% of the makespans are within 1%, 96% within 5%, 99% within 10%, and all
// between 35% too short and 4.1% too long; those too short by more than 10% have a network too slow for their gradients
// or messages. Where stages share nodes, 88% are within 1%, 96% within 5%, and the worst is 21% too short.
#pragma once

#include "model/costs/stage_clusters.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::sim {

/// Simulates `program`, which may have any number of stages, from 1. The Timeline has the spans of the first rank of
/// each stage. `machines` must have been made from the cluster on which the Program runs. The segments are simulated by
/// as many threads as the options say; the result does not depend on them.
[[nodiscard]] Timeline simulate_stages(const Program& program, StageClusters& machines,
                                       const SimulateOptions& options = {});

/// Simulates a pipeline from its segments, and a Program of one stage as it is.
[[nodiscard]] Timeline simulate(const Program& program, StageClusters& machines, const SimulateOptions& options = {});

}  // namespace moeplan::sim
