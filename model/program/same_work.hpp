// Detection of operations with equal cost, so that one of them is priced for all.
#pragma once

#include "model/program/program.hpp"

namespace moeplan {

/// Whether both operations do the same work on the same number of rows of the same shape, and move the same amount of
/// data between the same ranks, on every rank. They may differ in name, class, stream, order and buffers and, if the
/// routing is uniform, in which of several equally large chunks they use. Sufficient, not necessary.
[[nodiscard]] bool same_work(const Program& program, const Operation& a, const Operation& b);

}  // namespace moeplan
