#include "planner/lowering/blocks/paired_blocks.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
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
  Copier(const Block& from, Block& to, bool delays_weight_gradients)
      : from_(from.operations), to_(to), delays_weight_gradients_(delays_weight_gradients), places_(from_.size()) {}

  [[nodiscard]] bool is_done() const { return next_ == from_.size(); }
  [[nodiscard]] std::int64_t launched() const { return launched_; }

  /// Copies up to the next exchange and those that follow it directly, then the weight gradients that were delayed.
  void copy_part() {
    while (next_ < from_.size()) {
      const std::size_t i = next_++;
      const Operation& operation = from_[i];
      if (const auto* launches = std::get_if<Launches>(&operation.work); launches && operation.stream == Stream::Host) {
        launched_ += launches->operations;
        continue;
      }
      if (delays_weight_gradients_ && operation.computes_weight_gradient()) {
        places_[i] = places_of(operation);  // who waits for it waits for what comes before it
        delayed_.push_back(i);
        continue;
      }
      copy(i);
      if (exchanges(operation) && next_ < from_.size() && !exchanges(from_[next_])) break;
    }
    for (const std::size_t i : std::exchange(delayed_, {})) copy(i);
  }

 private:
  void copy(std::size_t i) {
    Operation copy = from_[i];
    copy.after = places_of(copy);
    if (places_[i].empty()) places_[i] = {static_cast<std::int32_t>(to_.operations.size())};
    to_.operations.push_back(std::move(copy));
  }
  /// Of the operations that this one comes after, in `to_`.
  [[nodiscard]] std::vector<std::int32_t> places_of(const Operation& operation) const {
    std::vector<std::int32_t> out;
    for (const std::int32_t a : operation.after) {
      for (const std::int32_t place : places_[to_index(a)]) {
        if (std::find(out.begin(), out.end(), place) == out.end()) out.push_back(place);
      }
    }
    return out;
  }

  const std::vector<Operation>& from_;
  Block& to_;
  bool delays_weight_gradients_;
  std::size_t next_ = 0;
  std::int64_t launched_ = 0;
  std::vector<std::vector<std::int32_t>> places_;  // in `to_`, by operation: when they have ended, so has it
  std::vector<std::size_t> delayed_;
};

}  // namespace

Block paired(const Block& backward, const Block& forward, bool delays_weight_gradients) {
  Block out;
  out.name = backward.name + " with " + forward.name;
  Copier back(backward, out, delays_weight_gradients), on(forward, out, delays_weight_gradients);
  while (!back.is_done() || !on.is_done()) {
    back.copy_part();
    on.copy_part();
  }
  if (const std::int64_t all = back.launched() + on.launched(); all > 0) out.operations.push_back(launches(all));
  return out;
}

}  // namespace moeplan::planner
