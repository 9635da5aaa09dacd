#include "cuda_runtime/step_values.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_runtime/kernels/optimizer.hpp"
#include "cuda_runtime/row_comparison.hpp"
#include "model/base/to_index.hpp"

namespace moeplan::runtime {

namespace {

Slot fixed_row(std::int64_t row) { return {.key = {.ordinal = row}}; }

/// Whether an operation gathers a buffer of weights from all replicas.
bool are_gathered(const Program& program, BufferId weights) {
  return std::any_of(program.blocks.begin(), program.blocks.end(), [&](const Block& block) {
    return std::any_of(block.operations.begin(), block.operations.end(), [&](const Operation& o) {
      const Communication* c = o.communication();
      return c && c->collective == Collective::AllGather && o.writes.front().buffer == weights;
    });
  });
}

/// The weight after a step of Adam from moments 0 and 1, or of SGD from momentum 0.
double after_step(double weight, double gradient, bool is_adam) {
  const kernels::OptimizerRates rates;
  if (!is_adam) return weight - double{rates.learning} * gradient;
  const double first = (1 - double{rates.beta1}) * gradient;
  const double second = double{rates.beta2} + (1 - double{rates.beta2}) * gradient * gradient;
  return weight - double{rates.learning} * first / (std::sqrt(second) + double{rates.epsilon});
}

}  // namespace

StepValues::StepValues(const Program& program, Interpreter& interpreter)
    : program_(program), interpreter_(interpreter) {
  for (const Block& block : program.blocks) {
    for (const Operation& o : block.operations) {
      const auto* kernel = std::get_if<Kernel>(&o.work);
      if (!kernel || *kernel != Kernel::Optimizer) continue;
      const std::vector<Slot> own = row_slots(program, o.reads.front().rows, interpreter.rank(), {});
      const BufferId weights = o.writes[1].buffer;
      flats_.push_back({.weights = weights,
                        .gradients = o.reads[0].buffer,
                        .states = o.reads[1].buffer,
                        .rows = o.reads.front().rows.each,
                        .first = own.front().key.ordinal,
                        .last = own.back().key.ordinal + 1,
                        .gathers = are_gathered(program, weights)});
    }
  }
}

std::vector<double> StepValues::elements(const Flat& flat, BufferId buffer, const RowOf& row_of) const {
  std::vector<double> out(to_index(flat.rows * columns(buffer)), 0.0);
  const std::size_t prefix = buffer == flat.gradients ? std::string_view("d.").size() : 0;
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const Buffer& tensor = program_.buffers[b];
    if (!tensor.part || tensor.part->of != buffer) continue;
    std::int64_t at = tensor.part->first;
    for (const Slot& slot : interpreter_.layout().slots(BufferId(b))) {
      const std::vector<double> row = row_of(tensor.name.substr(prefix), slot.key);
      std::copy(row.begin(), row.end(), out.begin() + at);
      at += tensor.columns;
    }
  }
  return out;
}

std::int64_t StepValues::moments(const Flat& flat) const {
  return values(flat) - (size_of(program_.buffer(flat.weights).dtype) < size_of(Dtype::Fp32) ? 1 : 0);
}

void StepValues::fill(const RowOf& weight) {
  for (const Flat& flat : flats_) {
    const std::vector<double> weights = elements(flat, flat.weights, weight);
    const std::size_t n = to_index(columns(flat.weights));
    for (std::int64_t r = flat.first; r < flat.last; ++r) {
      std::vector<double> row(n, 0.0);
      row.resize(to_index(moments(flat)) * n, 1.0);
      const auto own = weights.begin() + r * columns(flat.weights);
      if (values(flat) > moments(flat)) row.insert(row.end(), own, own + columns(flat.weights));
      interpreter_.write(flat.states, fixed_row(r), row);
    }
    const std::vector<double> zeros(n, 0.0);
    for (std::int64_t r = 0; r < flat.rows && flat.gathers; ++r) {
      if (r < flat.first || r >= flat.last) interpreter_.write(flat.weights, fixed_row(r), zeros);
    }
  }
}

StepValues::Errors StepValues::errors(const RowOf& weight, const RowOf& gradient) {
  Errors out;
  for (const Flat& flat : flats_) {
    std::vector<double> weights = elements(flat, flat.weights, weight);
    const std::vector<double> gradients = elements(flat, flat.gradients, gradient);
    const auto n = to_index(columns(flat.weights));
    RowComparison of_gradients, of_weights;
    for (std::int64_t r = 0; r < flat.rows; ++r) {
      const std::span<double> expected = std::span(weights).subspan(to_index(r) * n, n);
      const std::span<const double> own = std::span(gradients).subspan(to_index(r) * n, n);
      if (flat.first <= r && r < flat.last) {
        of_gradients.add(interpreter_.read(flat.gradients, fixed_row(r)), own);
        for (std::size_t c = 0; c < n; ++c) expected[c] = after_step(expected[c], own[c], moments(flat) > 1);
      }
      of_weights.add(interpreter_.read(flat.weights, fixed_row(r)), expected);
    }
    out.gradient = std::max(out.gradient, of_gradients.worst());
    out.weight = std::max(out.weight, of_weights.worst());
  }
  return out;
}

void StepValues::clear_gradients() {
  for (const Flat& flat : flats_) interpreter_.clear(flat.gradients);
}

}  // namespace moeplan::runtime
