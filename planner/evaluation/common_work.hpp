// The work that all strategies for a Program's MoE layers have in common: the basis of a lower bound over strategies
// that were not priced.
#pragma once

#include "model/program/program.hpp"

namespace moeplan::planner {

/// The Program without its MoE layers' communication, codecs and row permutation. A lower bound of the result holds for
/// every Program that differs from the given one only in how rows travel between sources and experts (all-to-all,
/// number of chunks, codecs), provided that its matrix products take no less time: the work that these choices move or
/// overlap is omitted here.
[[nodiscard]] Program without_exchange(Program program);

}  // namespace moeplan::planner
