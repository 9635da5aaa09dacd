// What of a Program no way to run its MoE layers can save: for a bound over ways that nobody has priced.
#pragma once

#include "model/program/program.hpp"

namespace moeplan::planner {

/// The Program without the communication, codecs and reordering of rows of its MoE layers. A lower bound of it bounds
/// all Programs that differ from it only in how rows travel to experts and back (all-to-all, number of chunks, codecs),
/// as far as their products take no less time: what these choices move and overlap is left out here.
[[nodiscard]] Program without_exchange(Program program);

}  // namespace moeplan::planner
