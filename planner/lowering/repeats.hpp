// Repeats in the sequence of a stage: what follows several times in a row is listed once, with a count.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/program/program.hpp"

namespace moeplan::planner {

/// Appends `count` times `body`; nothing if that is not positive.
void append_repeat(Sequence& sequence, std::int64_t count, const Sequence& body);

/// Appends steps, with patterns of at most `longest` steps that follow each other folded into repeats: the pattern that
/// covers most steps first, among equal ones the shortest.
void append_folded(Sequence& sequence, const Sequence& steps, std::size_t longest);

}  // namespace moeplan::planner
