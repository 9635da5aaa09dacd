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

/// The kinds of random values drawn from one seed. Each kind, and each source or expert of it, has its own random
/// stream.
enum class Drawn : std::uint64_t { Order, Tokens, Gate, Up, Down, Gradient };

Random stream_of(Drawn what, std::int64_t index, std::uint64_t seed) {
  return Random(seed, (static_cast<std::uint64_t>(what) << 32U) + static_cast<std::uint64_t>(index));
}

Matrix normal_matrix(std::int64_t rows, std::int64_t columns, double deviation, Dtype dtype, Random random) {
  Matrix m(rows, columns);
  for (double& v : m.values) v = rounded_to(dtype, deviation * random.normal());
  return m;
}

double deviation_of(std::int64_t rows) { return 1 / std::sqrt(static_cast<double>(rows)); }

std::uint64_t key_of(Drawn what, std::int64_t index, std::uint64_t seed) {
  return mixed(mixed(seed) + (static_cast<std::uint64_t>(what) << 32U) + static_cast<std::uint64_t>(index));
}

MadeRow row_of(Drawn what, std::int64_t expert, std::int64_t row, std::int64_t columns, double deviation,
               std::uint64_t seed) {
  const auto scale = static_cast<float>(deviation / std::sqrt(kernels::kMadeVariance));
  return {key_of(what, expert, seed) + static_cast<std::uint64_t>(row * columns), scale};
}

/// The nearest number of the format.
float rounded_value(Dtype dtype, float value) {
  switch (dtype) {
    case Dtype::Fp16: return kernels::from_fp16(kernels::fp16_of(value));
    case Dtype::Bf16: return kernels::from_bf16(kernels::bf16_of(value));
    default: return static_cast<float>(rounded_to(dtype, static_cast<double>(value)));
  }
}

[[noreturn]] void fail(std::string message) { throw InputError(Diagnostic{{"routing"}, "", std::move(message)}); }

}  // namespace

std::vector<std::vector<std::int64_t>> planned_choices(const RoutingCounts& counts, RankId source, std::int64_t top_k,
                                                       std::uint64_t seed) {
  std::int64_t selections = 0;
  for (std::int64_t e = 0; e < counts.experts(); ++e)
    selections += counts.at(source, ExpertId(static_cast<std::size_t>(e)));
  if (selections % top_k != 0) {
    fail(fmt::format("source {} has {} selections, no multiple of top_k {}", source.value(), selections, top_k));
  }
  const std::int64_t tokens = selections / top_k;
  Random random = stream_of(Drawn::Order, source.value(), seed);
  const std::vector<std::size_t> order = random.permutation(static_cast<std::size_t>(tokens));
  // Experts are assigned to tokens round-robin: an expert with at most as many selections as there are tokens is
  // assigned to no token twice.
  std::vector<std::vector<std::int64_t>> choices(static_cast<std::size_t>(tokens));
  std::size_t next = 0;
  for (std::int64_t e = 0; e < counts.experts(); ++e) {
    const std::int64_t count = counts.at(source, ExpertId(static_cast<std::size_t>(e)));
    if (count > tokens) {
      fail(fmt::format("source {} has {} tokens, but {} for expert {}", source.value(), tokens, count, e));
    }
    for (std::int64_t i = 0; i < count; ++i) choices[order[next++ % order.size()]].push_back(e);
  }
  return choices;
}

Matrix made_tokens(const MoeShape& shape, const RoutingCounts& counts, RankId source, Dtype dtype, std::uint64_t seed) {
  if (shape.hidden_size < shape.experts) {
    fail(fmt::format("hidden_size {} is less than the {} experts: no tokens can be made that choose as planned",
                     shape.hidden_size, shape.experts));
  }
  const auto choices = planned_choices(counts, source, shape.top_k, seed);
  Random random = stream_of(Drawn::Tokens, source.value(), seed);
  Matrix tokens(static_cast<std::int64_t>(choices.size()), shape.hidden_size);
  for (std::int64_t t = 0; t < tokens.rows; ++t) {
    const auto row = tokens.row(t);
    const auto& own = choices[static_cast<std::size_t>(t)];
    for (std::int64_t m = 0; m < shape.hidden_size; ++m) {
      double value = 0;
      if (m < shape.experts) {
        const bool is_chosen = std::find(own.begin(), own.end(), m) != own.end();
        value = (1 + 0.5 * random.uniform()) * (is_chosen ? 1 : -1);
      } else {
        value = random.normal();
      }
      row[static_cast<std::size_t>(m)] = rounded_to(dtype, value);
    }
  }
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

void make_row(const MadeRow& row, Dtype dtype, std::span<double> out) {
  for (std::size_t c = 0; c < out.size(); ++c)
    out[c] = static_cast<double>(rounded_value(dtype, row.scale * kernels::made_value(row.first + c)));
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

Matrix made_gradient(const MoeShape& shape, std::int64_t tokens, RankId source, Dtype dtype, std::uint64_t seed) {
  return normal_matrix(tokens, shape.hidden_size, 1, dtype, stream_of(Drawn::Gradient, source.value(), seed));
}

}  // namespace moeplan::runtime
