#include "cuda_runtime/step_values.hpp"

#include <algorithm>
#include <cmath>

#include "cuda_runtime/kernels/optimizer.hpp"
#include "cuda_runtime/row_comparison.hpp"
#include "model/base/to_index.hpp"

namespace moeplan::runtime {

namespace {

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

std::vector<BufferId> StepValues::parts(const Flat& flat) const {
  std::vector<BufferId> out;
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    const auto& part = program_.buffers[b].part;
    if (part && part->of == flat.weights) out.push_back(BufferId(b));
  }
  return out;
}

std::int64_t StepValues::moments(const Flat& flat) const {
  return values(flat) - (size_of(program_.buffer(flat.weights).dtype) < size_of(Dtype::Fp32) ? 1 : 0);
}

void StepValues::fill(const MadeOf& weight) {
  for (const Flat& flat : flats_) {
    const std::int64_t n = columns(flat.weights), first = flat.first * n, last = flat.last * n;
    if (moments(flat) > 1) {
      MadeElements ones{.mean = 1, .scale = 0, .columns = n, .first_column = n};
      ones.append({first, last - first});
      interpreter_.make(flat.states, ones);
    }
    const bool has_masters = values(flat) > moments(flat);
    for (const BufferId part : has_masters ? parts(flat) : std::vector<BufferId>()) {
      MadeElements masters{.columns = n, .first_column = moments(flat) * n};
      std::int64_t place = 0;
      for (const Slot& slot : interpreter_.layout().slots(part)) {
        const MadeElements row = weight(program_.buffer(part).name, slot.key);
        masters.mean = row.mean, masters.scale = row.scale;
        for (kernels::MadeRun run : row.runs) {
          run.to += element(part, place);
          masters.append(MadeElements::within(run, first, last));
        }
        ++place;
      }
      interpreter_.make(flat.states, masters);
    }
    if (!flat.gathers) continue;
    MadeElements zeros{.scale = 0};
    zeros.append({0, first});
    zeros.append({last, flat.rows * n - last});
    interpreter_.make(flat.weights, zeros);
  }
}

StepValues::Errors StepValues::errors(const RowOf& weight, const RowOf& gradient) {
  Errors out;
  for (const Flat& flat : flats_) {
    const std::int64_t n = columns(flat.weights);
    RowComparison of_gradients, of_weights;
    for (const BufferId part : parts(flat)) {
      const std::string& name = program_.buffer(part).name;
      const BufferId gradients = interpreter_.buffer("d." + name);
      std::int64_t place = -1;
      for (const Slot& slot : interpreter_.layout().slots(part)) {
        ++place;
        const std::vector<double> d = gradient(name, slot.key);
        if (d.empty()) continue;
        std::vector<double> expected = weight(name, slot.key);
        // The columns that are the rank's own.
        const auto column = [&](std::int64_t row) {
          return to_index(std::clamp<std::int64_t>(row * n - element(part, place), 0, columns(part)));
        };
        const std::size_t first = column(flat.first), own = column(flat.last) - first;
        if (own > 0) {
          const std::vector<double> got = interpreter_.read(gradients, slot);
          of_gradients.add(std::span(got).subspan(first, own), std::span(d).subspan(first, own));
        }
        for (std::size_t c = first; c < first + own; ++c)
          expected[c] = after_step(expected[c], d[c], moments(flat) > 1);
        of_weights.add(interpreter_.read(part, slot), expected);
      }
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
