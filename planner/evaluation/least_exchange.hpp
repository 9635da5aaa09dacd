// A candidate and its Program without what strategies for MoE layers differ in.
#pragma once

#include <functional>

#include "model/program/program.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"

namespace moeplan::planner {

/// Removes operations; the remaining ones inherit their dependencies.
void leave_out(Block& block, const std::function<bool(const Operation&)>& is_omitted);

/// The candidate with the exchange that the host launches in the fewest operations of all that a search tries in its
/// place: in one chunk, without codec, and linear unless its all-to-all is one that is never tried unasked.
[[nodiscard]] Candidate with_least_exchange(Candidate candidate);

/// A Program of a candidate with_least_exchange() without its MoE layers' communication, codecs and row permutation;
/// the host still launches them. A lower bound of the result holds for every Program that differs from the given one
/// only in how rows travel between sources and experts (all-to-all, number of chunks, codecs): the work that these
/// choices move or overlap is omitted here, and products of chunks may fill their waves of tiles better.
[[nodiscard]] Program without_exchange(Program program, const Workload& workload);

}  // namespace moeplan::planner
