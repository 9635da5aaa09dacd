// The discrete-event simulator: simulate() computes the Timeline of a Program on a Cluster.
//
// Semantics. The streams of a rank are FIFO queues. A transfer between two ranks starts once both have reached the
// communication (as in NCCL), waits for the start-up time (in a ring, plus the latency of its longest edge), then
// shares the links with all other traffic under max-min fairness. A rank's part of a communication ends when all of its
// flows have ended. While a communication is open on a rank, computation on its GPU slows down by the GPU's measured
// factor. Ranks that share a GPU also share its speed (cluster.hpp).
//
// Repeats are exact and cheap (repeats.hpp). Where every rank ends an iteration at the instant at which all of them
// begin the next, nothing is in flight, so the following iterations are copies and are not simulated again. Where ranks
// drift apart, as with uneven routing, their delays against each other soon recur from one iteration to the next: of a
// set of ranks that no other traffic affects, such iterations are copies, too. All others are simulated: those with
// background traffic at their end, those of sets of ranks that share links, and last ones beside transfers of what
// follows. Times agree with those of a simulation of every iteration up to one picosecond per operation.
//
// Symmetry is exact and cheap. Where a few ranks provably represent all others (equal_ranks.hpp, symmetry.hpp), only
// these representatives are simulated, on their part of the cluster; their transfers with equal ends, size and path
// form one weighted flow. A transfer to an image of a representative is a transfer to that representative. Where
// rotations of the cluster leave many ranks, one of each class of ranks that do the same is simulated
// (rank_classes.hpp).
#pragma once

#include <memory>
#include <vector>

#include "model/analysis/timeline.hpp"
#include "model/machine/cluster.hpp"
#include "model/machine/symmetry.hpp"
#include "model/program/program.hpp"
#include "sim/network/network.hpp"

namespace moeplan::sim {

/// Options of simulate(); the defaults suit all callers but tests.
struct SimulateOptions {
  bool keep_spans = true;                           // false: the Timeline has only the makespan and the links
  bool every_link = true;                           // false: of links that symmetry shows to carry the same, the first
  bool skip_repeats = true;                         // false: simulate every iteration, for tests
  bool use_symmetry = true;                         // false: simulate every rank, for tests
  std::shared_ptr<const SymmetricView> symmetry{};  // simulated_view(), if it is known
  std::unique_ptr<Network> (*network)() = make_fast_network;
  std::vector<LinkId> watch{};  // links recorded in Timeline::link_history; each costs time and memory at every event
  int threads = 1;              // that simulate the segments of a pipeline (simulate_stages.hpp)
};

/// Simulates `program` on `cluster`. A pure function. The Program's world_size must not exceed the cluster's.
[[nodiscard]] Timeline simulate(const Program& program, const Cluster& cluster, const SimulateOptions& options = {});

/// The same where each stage executes the sequence given for it instead of its whole one.
[[nodiscard]] Timeline simulate(const Program& program, const std::vector<Sequence>& stages, const Cluster& cluster,
                                const SimulateOptions& options);

}  // namespace moeplan::sim
