// A Program as text: every field of it, so that two lowerings are the same exactly where their texts are.
//
// Enumerators and alternatives are printed by number. Fields are taken apart by structured bindings, so that a new one
// does not compile until it is printed here.
#pragma once

#include <string>

#include "model/program/program.hpp"

namespace moeplan::tests {

/// Names of groups, buffers, operations and blocks are for people: without them two texts differ in what runs alone.
enum class ProgramNames { Kept, LeftOut };

/// One line an operation.
[[nodiscard]] std::string program_text(const Program& program, ProgramNames names = ProgramNames::Kept);

}  // namespace moeplan::tests
