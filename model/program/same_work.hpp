// Which operations of a Program cost the same, so that one is priced for all.
#pragma once

#include "model/program/program.hpp"

namespace moeplan {

/// Whether both operations do the same work on as many rows of the same shape, and move as much between the same ranks,
/// on every rank: they may differ in name, class, stream, order and buffers, and in which of several equally large
/// chunks they take where the routing is uniform. Sufficient, not necessary.
[[nodiscard]] bool same_work(const Program& program, const Operation& a, const Operation& b);

}  // namespace moeplan
