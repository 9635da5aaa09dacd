#include "cuda_runtime/reference/synthetic_layer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cuda_runtime/kernels/made_values.hpp"
#include "cuda_runtime/reference/number_formats.hpp"
#include "model/base/diagnostics.hpp"
#include "model/base/random.hpp"

namespace moeplan::runtime {

namespace {

/// The kinds of values drawn from one seed. Each kind, and each source or expert of it, has its own numbers.
enum class Drawn : std::uint64_t { Order, Tokens, Gate, Up, Down, Gradient, Norm };

double deviation_of(std::int64_t rows) { return 1 / std::sqrt(static_cast<double>(rows)); }

std::uint64_t key_of(Drawn what, std::int64_t index, std::uint64_t seed) {
  return mixed(mixed(seed) + (static_cast<std::uint64_t>(what) << 32U) + static_cast<std::uint64_t>(index));
}

MadeRow row_of(Drawn what, std::int64_t index, std::int64_t row, std::int64_t columns, double deviation,
               std::uint64_t seed) {
  const auto scale = static_cast<float>(deviation / std::sqrt(kernels::kMadeVariance));
  return {key_of(what, index, seed) + static_cast<std::uint64_t>(row * columns), scale};
}

/// The nearest number of the format.
float rounded_value(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::Fp16: return kernels::from_fp16(kernels::fp16_of(value));
    case Dtype::Bf16: return kernels::from_bf16(kernels::bf16_of(value));
    default: return static_cast<float>(rounded_to(dtype, static_cast<double>(value)));
  }
}

[[noreturn]] void refuse_routing(std::string message) {
  throw InputError(Diagnostic{{"routing"}, "", std::move(message)});
}

}  // namespace

std::vector<std::vector<std::int64_t>> planned_choices(const RoutingCounts& counts, RankId source, std::int64_t top_k,
                                                       std::uint64_t seed) {
  std::int64_t selections = 0;
  for (std::int64_t e = 0; e < counts.experts(); ++e)
    selections += counts.at(source, ExpertId(static_cast<std::size_t>(e)));
  if (selections % top_k != 0) {
    refuse_routing(
        fmt::format("source {} has {} selections, no multiple of top_k {}", source.value(), selections, top_k));
  }
  const std::int64_t tokens = selections / top_k;
  Random random(key_of(Drawn::Order, source.value(), seed));
  const std::vector<std::size_t> order = random.permutation(static_cast<std::size_t>(tokens));
  // Experts are assigned to tokens round-robin: an expert with at most as many selections as there are tokens is
  // assigned to no token twice.
  std::vector<std::vector<std::int64_t>> choices(static_cast<std::size_t>(tokens));
  std::size_t next = 0;
  for (std::int64_t e = 0; e < counts.experts(); ++e) {
    const std::int64_t count = counts.at(source, ExpertId(static_cast<std::size_t>(e)));
    if (count > tokens) {
      refuse_routing(fmt::format("source {} has {} tokens, but {} for expert {}", source.value(), tokens, count, e));
    }
    for (std::int64_t i = 0; i < count; ++i) choices[order[next++ % order.size()]].push_back(e);
  }
  return choices;
}

MadeTokens::MadeTokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype,
                       std::uint64_t seed)
    : shape_(shape), source_(source), dtype_(dtype), seed_(seed) {
  if (shape.hidden_size < shape.experts) {
    refuse_routing(
        fmt::format("hidden_size {} is less than the {} experts: no tokens can be made that choose as planned",
                    shape.hidden_size, shape.experts));
  }
  choices_ = planned_choices(counts, source, shape.top_k, seed);
}

void MadeTokens::make(std::int64_t token, std::span<double> out) const {
  constexpr float kMiddle = 1.25F, kReach = 0.25F / kernels::kMadeMean;
  const MadeRow row = row_of(Drawn::Tokens, source_.value(), token, shape_.hidden_size, 1, seed_);
  make_row(row, dtype_, out);
  for (std::int64_t e = 0; e < shape_.experts; ++e) {
    const float size = kMiddle + kReach * kernels::made_value(row.first + static_cast<std::uint64_t>(e));
    out[static_cast<std::size_t>(e)] = -static_cast<double>(rounded_value(dtype_, size));
  }
  for (const std::int64_t e : choices_[static_cast<std::size_t>(token)]) out[static_cast<std::size_t>(e)] *= -1;
}

Matrix made_tokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype, std::uint64_t seed,
                   std::int64_t step) {
  const MadeTokens made(shape, counts, source, dtype, seed);
  Matrix tokens((made.size() + step - 1) / step, shape.hidden_size);
  for (std::int64_t t = 0; t < tokens.rows; ++t) made.make(t * step, tokens.row(t));
  return tokens;
}

MadeRow gate_row(const MoeShape& shape, std::int64_t row, std::uint64_t seed) {
  // A token's norm is about sqrt(hidden_size), so that the noise of a logit has standard deviation 0.02.
  constexpr double kNoise = 0.02;
  MadeRow out = row_of(Drawn::Gate, 0, row, shape.experts, kNoise * deviation_of(shape.hidden_size), seed);
  if (row < shape.experts) out.one = row;
  return out;
}

MadeRow up_row(const MoeShape& shape, std::int64_t expert, std::int64_t row, std::uint64_t seed) {
  return row_of(Drawn::Up, expert, row, shape.up_columns(), deviation_of(shape.hidden_size), seed);
}

MadeRow down_row(const MoeShape& shape, std::int64_t expert, std::int64_t row, std::uint64_t seed) {
  return row_of(Drawn::Down, expert, row, shape.hidden_size, deviation_of(shape.ffn_size), seed);
}

MadeRow norm_row(const MoeShape& shape, std::int64_t row, std::uint64_t seed) {
  MadeRow out = row_of(Drawn::Norm, 0, row, shape.hidden_size, 1, seed);
  out.scale = 0x1p-19F;  // of values below 2^17
  out.mean = 1;
  return out;
}

void make_row(const MadeRow& row, Dtype dtype, std::span<double> out) {
  for (std::size_t c = 0; c < out.size(); ++c)
    out[c] = static_cast<double>(rounded_value(dtype, row.mean + row.scale * kernels::made_value(row.first + c)));
  if (row.one >= 0) out[static_cast<std::size_t>(row.one)] = 1;
}

Matrix made_gate(const MoeShape& shape, Dtype dtype, std::uint64_t seed) {
  Matrix m(shape.hidden_size, shape.experts);
  for (std::int64_t r = 0; r < m.rows; ++r) make_row(gate_row(shape, r, seed), dtype, m.row(r));
  return m;
}

Matrix made_up(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed) {
  Matrix m(shape.hidden_size, shape.up_columns());
  for (std::int64_t r = 0; r < m.rows; ++r) make_row(up_row(shape, expert, r, seed), dtype, m.row(r));
  return m;
}

Matrix made_down(const MoeShape& shape, std::int64_t expert, Dtype dtype, std::uint64_t seed) {
  Matrix m(shape.ffn_size, shape.hidden_size);
  for (std::int64_t r = 0; r < m.rows; ++r) make_row(down_row(shape, expert, r, seed), dtype, m.row(r));
  return m;
}

Matrix made_norm(const MoeShape& shape, Norm norm, Dtype dtype, std::uint64_t seed) {
  Matrix m(norm == Norm::Layer ? 2 : 1, shape.hidden_size);
  for (std::int64_t r = 0; r < m.rows; ++r) make_row(norm_row(shape, r, seed), dtype, m.row(r));
  return m;
}

std::span<const double> GeneratedWeights::up(std::int64_t expert, std::int64_t row, Scratch& scratch) const {
  scratch.resize(static_cast<std::size_t>(shape_.up_columns()));
  make_row(up_row(shape_, expert, row, seed_), dtype_, scratch);
  return scratch;
}

std::span<const double> GeneratedWeights::down(std::int64_t expert, std::int64_t row, Scratch& scratch) const {
  scratch.resize(static_cast<std::size_t>(shape_.hidden_size));
  make_row(down_row(shape_, expert, row, seed_), dtype_, scratch);
  return scratch;
}

MoeWeights made_weights(const MoeShape& shape, Dtype dtype, std::uint64_t seed) {
  MoeWeights weights{.gate = made_gate(shape, dtype, seed), .up = {}, .down = {}};
  for (std::int64_t e = 0; e < shape.experts; ++e) {
    weights.up.push_back(made_up(shape, e, dtype, seed));
    weights.down.push_back(made_down(shape, e, dtype, seed));
  }
  return weights;
}

MadeRow gradient_row(const MoeShape& shape, RankId source, std::int64_t token, std::uint64_t seed) {
  return row_of(Drawn::Gradient, source.value(), token, shape.hidden_size, 1, seed);
}

Matrix made_gradient(const MoeShape& shape, std::int64_t tokens, RankId source, Dtype dtype, std::uint64_t seed,
                     std::int64_t step) {
  Matrix m((tokens + step - 1) / step, shape.hidden_size);
  for (std::int64_t r = 0; r < m.rows; ++r) make_row(gradient_row(shape, source, r * step, seed), dtype, m.row(r));
  return m;
}

}  // namespace moeplan::runtime
