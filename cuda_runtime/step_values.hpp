// The values of a training step's flat buffers (planner/layer/replica_parts.hpp): weights, reduced gradients and
// optimizer states.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cuda_runtime/interpreter.hpp"

namespace moeplan::runtime {

class StepValues {
 public:
  /// The values of a row of a weight, by the name of its buffer; empty: not known.
  using RowOf = std::function<std::vector<double>(const std::string& weight, const RowKey& row)>;
  /// How such a row is made: its elements, from 0 on.
  using MadeOf = std::function<MadeElements(const std::string& weight, const RowKey& row)>;

  StepValues(const Program& program, Interpreter& interpreter);

  /// Whether the Program has an optimizer.
  [[nodiscard]] bool has_optimizer() const { return !flats_.empty(); }

  /// Sets the optimizer states, which are zero: second moments 1, and `weight`. What the rank gathers before it uses it
  /// is zero-filled.
  void fill(const MadeOf& weight);

  /// Largest differences from one step of the optimizer in double precision, relative to the largest value there.
  struct Errors {
    double gradient = 0;  // of the rank's own part
    double weight = 0;    // of its own part after the step, and of the other parts as they were gathered
  };
  /// Of rows whose `gradient`, the sum over all replicas, is known.
  [[nodiscard]] Errors errors(const RowOf& weight, const RowOf& gradient);

  /// Zero-fills the gradients, which accumulate.
  void clear_gradients();

 private:
  /// The flat buffers of dense or of expert parameters.
  struct Flat {
    BufferId weights, gradients, states;
    std::int64_t rows, first, last;  // of which first .. last - 1 are this rank's own
    bool gathers;                    // the others' rows of weights
  };
  /// The weights in a flat buffer.
  [[nodiscard]] std::vector<BufferId> parts(const Flat& flat) const;
  /// The first element of row `place` of a weight in its flat buffer.
  [[nodiscard]] std::int64_t element(BufferId part, std::int64_t place) const {
    return program_.buffer(part).part->first + place * columns(part);
  }
  [[nodiscard]] std::int64_t columns(BufferId buffer) const { return program_.buffer(buffer).columns; }
  /// Values that the optimizer keeps for each parameter, and of these the moments.
  [[nodiscard]] std::int64_t values(const Flat& flat) const { return columns(flat.states) / columns(flat.weights); }
  [[nodiscard]] std::int64_t moments(const Flat& flat) const;

  const Program& program_;
  Interpreter& interpreter_;
  std::vector<Flat> flats_;
};

}  // namespace moeplan::runtime
