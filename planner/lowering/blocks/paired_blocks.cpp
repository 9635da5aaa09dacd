#include "planner/lowering/blocks/paired_blocks.hpp"

#include <cstdint>
#include <vector>

#include "model/base/to_index.hpp"
#include "planner/lowering/blocks/launches.hpp"

namespace moeplan::planner {

namespace {

bool exchanges(const Operation& operation) {
  return operation.stream == Stream::Inter && operation.communication() != nullptr;
}

/// Copies a block's operations into another block, part by part.
class Copier {
 public:
  Copier(const Block& from, Block& to) : from_(from.operations), to_(to) {}

  [[nodiscard]] bool is_done() const { return next_ == from_.size(); }
  [[nodiscard]] std::int64_t launched() const { return launched_; }

  /// Copies up to the next exchange and those that follow it directly.
  void copy_part() {
    while (next_ < from_.size()) {
      const Operation& operation = from_[next_++];
      if (const auto* launches = std::get_if<Launches>(&operation.work); launches && operation.stream == Stream::Host) {
        launched_ += launches->operations;
        places_.push_back(-1);  // no operation comes after it
        continue;
      }
      places_.push_back(static_cast<std::int32_t>(to_.operations.size()));
      Operation& copy = to_.operations.emplace_back(operation);
      for (std::int32_t& a : copy.after) a = places_[to_index(a)];
      if (exchanges(operation) && next_ < from_.size() && !exchanges(from_[next_])) return;
    }
  }

 private:
  const std::vector<Operation>& from_;
  Block& to_;
  std::size_t next_ = 0;
  std::int64_t launched_ = 0;
  std::vector<std::int32_t> places_;  // in `to_`, by operation
};

}  // namespace

Block paired(const Block& backward, const Block& forward) {
  Block out;
  out.name = backward.name + " with " + forward.name;
  Copier back(backward, out), on(forward, out);
  while (!back.is_done() || !on.is_done()) {
    back.copy_part();
    on.copy_part();
  }
  if (const std::int64_t all = back.launched() + on.launched(); all > 0) out.operations.push_back(launches(all));
  return out;
}

}  // namespace moeplan::planner
