// Simulating a pipeline by its segments: seconds of work for thousands of microbatches become milliseconds.
//
// Each different segment of each stage is simulated alone on the stage's machine (stage_segments.hpp), and the run is
// composed from their times (compose_stages.hpp). Against simulating the whole Program at once this leaves out that
// messages between stages share links with what runs beside them and with each other beyond one stage's, that ranks of
// a stage may begin a segment apart, the slowdown of computing beside background traffic that outlasts its segment, and
// that stages which share a node share its way to the network; but no run is shorter than what the busiest of the links
// that stages share needs for all that crosses it.
//
// How much that is (tests/validation/stages_test.cpp: 1,000 random pipelines of 2 to 4 stages on up to 16 GPUs, with
// models and networks that make communication as dear as computing): nothing where none of it occurs. Where stages have
// nodes of their own, 84% are within 1%, 96% within 5%, 99% within 10%, and all between 35% too short and 4.1% too
// long; too short by more than 10% are those with a network too slow for their gradients or messages. Where stages
// share nodes, 88% are within 1%, 96% within 5%, and the shortest is 21% too short.
#pragma once

#include "model/costs/stage_clusters.hpp"
#include "sim/program/simulate.hpp"

namespace moeplan::sim {

/// `program` may have one stage or more. Spans are kept of the first rank of each stage. `machines` are of the cluster
/// that the Program runs on.
[[nodiscard]] Timeline simulate_stages(const Program& program, StageClusters& machines,
                                       const SimulateOptions& options = {});

}  // namespace moeplan::sim
