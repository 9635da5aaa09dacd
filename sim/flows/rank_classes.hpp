// Classes of ranks that provably do the same at the same times, whether or not a rotation of the cluster maps them to
// each other.
//
// Colour refinement (Weisfeiler-Leman) of ranks and links: ranks begin with equal colours if they hold equally many
// rows and their communications cost the same; a pair of ranks that exchange data has the colour of both, of the bytes
// of each communication between them and of the links on its route; ranks and links then get the colours of the pairs
// that they take part in, until no colour divides any more. The result is an equitable partition: every rank of a class
// sends the same flows over the same classes of links to equally many ranks of each class, and every link of a class is
// crossed by equally many flows of each kind. Max-min sharing, which has one solution, then gives all flows of a kind
// the same rate, so that one rank of each class represents it: its flows count as often as the class has ranks, and
// a class of links has the capacity of all of them. Colours are hashes of 64 bits: the probability that two of a
// million coincide is below 1e-7.
//
// Experts that do not divide among ranks, and groups of which some span nodes and others do not, have few classes but
// large or no rotations (symmetry.hpp): a layer of 256 experts on 72 ranks has two.
#pragma once

#include <memory>

#include "model/machine/cluster.hpp"
#include "model/machine/symmetry.hpp"
#include "model/program/program.hpp"

namespace moeplan::sim {

/// The cluster reduced to the ranks that a simulation follows: representatives_view() if one rank represents all;
/// otherwise the classes, if these are fewer than its representatives. Null if every rank is on its own. `cluster` must
/// outlive it. Takes O(pairs of ranks that exchange data).
[[nodiscard]] std::shared_ptr<const SymmetricView> simulated_view(const Program& program, const Cluster& cluster);

}  // namespace moeplan::sim
