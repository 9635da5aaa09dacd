// Detection of operations with equal cost, so that one of them is priced for all.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/program/program.hpp"

namespace moeplan {

/// Whether both operations do the same work on the same number of rows of the same shape, and move the same amount of
/// data between the same ranks, on every rank. They may differ in name, class, stream, order and buffers and, if the
/// routing is uniform, in which of several equally large chunks they use. Sufficient, not necessary.
[[nodiscard]] bool same_work(const Program& program, const Operation& a, const Operation& b);

/// A hash of what determines the data that a communication moves and between which ranks: equal for those of different
/// Programs that move the same, unequal for others but for a coincidence of 128 bits.
using CommunicationHash = std::array<std::uint64_t, 2>;

/// The hashes of a Program's communications. `program` must outlive it.
class CommunicationHashes {
 public:
  explicit CommunicationHashes(const Program& program) : program_(program), routings_(program.routings.size()) {}

  /// None where sources route differently, or experts are placed: they would take long to compare.
  [[nodiscard]] std::optional<CommunicationHash> of(const Operation& communication);

 private:
  const Program& program_;
  std::vector<std::optional<CommunicationHash>> routings_;  // once known
};

}  // namespace moeplan
