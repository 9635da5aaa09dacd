// The discrete-event simulator: a Program on a Cluster gives a Timeline.
//
// A pure function. Streams of a rank are FIFO. A transfer between two ranks starts once both have reached the
// communication (NCCL's semantics), waits for the start-up (in a ring, with the latency of its longest edge), then
// shares the links by max-min fairness with everything else on them; a rank's part of a communication ends when all its
// flows have. While a communication is open on a rank, its GPU computes slower by the GPU's measured factor. Ranks that
// share a GPU also share its speed (cluster.hpp).
//
// Repeats are exact and cheap: where every rank ends an iteration at the instant at which all of them began the next,
// nothing is in flight, so the next iterations are copies and are not simulated again. Otherwise every iteration is.
//
// Symmetry is exact and cheap too: where a few ranks provably represent all (equal_ranks.hpp, symmetry.hpp) they alone
// are simulated with their part of the machine, their transfers of equal ends, size and way as one weighted flow. Who
// sends to an image of a representative meets that representative.
#pragma once

#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

struct SimulateOptions {
  bool keep_spans = true;    // without them a Timeline has makespan and links only
  bool skip_repeats = true;  // false: simulate every iteration, for tests
  bool use_symmetry = true;  // false: simulate every rank, for tests
  std::unique_ptr<Network> (*network)() = make_fast_network;
  std::vector<LinkId> watch{};  // their Timeline::link_history; each costs time and memory at every event
};

/// The Program's world_size must not exceed the cluster's.
[[nodiscard]] Timeline simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options = {});

}  // namespace moeplan::sim
