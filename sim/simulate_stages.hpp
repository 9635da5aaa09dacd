// Simulating a pipeline by its segments: seconds of work for thousands of microbatches become milliseconds.
//
// Each different segment of each stage is simulated alone on the stage's machine (stage_segments.hpp), and the run is
// composed from their times (compose_stages.hpp). Against simulating the whole Program at once this leaves out that
// messages between stages share links with what runs beside them and with each other beyond one stage's, that ranks of
// a stage may begin a segment apart, and the slowdown of computing beside background traffic that outlasts its segment.
// The tests say how much that is.
#pragma once

#include "model/costs/stage_machines.hpp"
#include "sim/simulate.hpp"

namespace moeplan {

/// `program` may have one stage or more. Spans are kept of the first rank of each stage. `machines` are of the cluster
/// that the Program runs on.
[[nodiscard]] Timeline simulate_stages(const Program& program, StageMachines& machines,
                                       const SimulateOptions& options = {});

}  // namespace moeplan
