#include "cuda_runtime/host/host_compute.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "cuda_runtime/codecs/make_row_codec.hpp"
#include "cuda_runtime/kernels/optimizer.hpp"

namespace moeplan::runtime {

namespace {

using Floats = std::vector<float>;

HostBuffer& of(HostBuffers buffers, BufferId id) { return buffers[id.index()]; }

float normal_cdf(float z) { return 0.5F * std::erfc(-z / std::numbers::sqrt2_v<float>); }
float gelu_slope(float z) {
  const float density = std::exp(-z * z / 2) * std::numbers::inv_sqrtpi_v<float> / std::numbers::sqrt2_v<float>;
  return normal_cdf(z) + z * density;
}
float sigmoid(float z) { return 1 / (1 + std::exp(-z)); }
float silu_slope(float z) { return sigmoid(z) * (1 + z * (1 - sigmoid(z))); }

/// The indices of the k largest, ties to the lower index.
std::vector<std::size_t> largest(const Floats& values, std::size_t k) {
  std::vector<std::size_t> order(values.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(k), order.end(),
      [&](std::size_t a, std::size_t b) { return values[a] != values[b] ? values[a] > values[b] : a < b; });
  order.resize(k);
  return order;
}

/// The softmax of the logits of these experts; the first is the largest.
Floats softmax(const Floats& logits, const std::vector<std::size_t>& experts) {
  Floats out;
  float sum = 0;
  for (const std::size_t e : experts) {
    out.push_back(std::exp(logits[e] - logits[experts.front()]));
    sum += out.back();
  }
  for (float& w : out) w /= sum;
  return out;
}

/// The weights of a norm, or their gradients.
struct NormWeights {
  Floats factors, summands;  // of RMSNorm, summands are zero
  std::size_t rows;

  NormWeights(HostBuffer& buffer, const RowList& list)
      : factors(buffer.columns()), summands(buffer.columns()), rows(list.rows.size()) {
    buffer.load_row(list.rows[0], factors);
    if (is_layer_norm()) buffer.load_row(list.rows[1], summands);
  }
  [[nodiscard]] bool is_layer_norm() const { return rows > 1; }
};

/// Norms a row, and returns the factor by which it did.
float norm(Floats& row, bool is_centred, double epsilon) {
  const auto n = static_cast<float>(row.size());
  float mean = 0, squares = 0;
  for (const float x : row) mean += is_centred ? x / n : 0;
  for (float& x : row) {
    x -= mean;
    squares += x * x;
  }
  const float inverse = 1 / std::sqrt(squares / n + static_cast<float>(epsilon));
  for (float& x : row) x *= inverse;
  return inverse;
}

/// The index of an expert in a choice row. Experts are numbers that fp32 represents exactly.
std::size_t place_of(const Floats& choice, std::int32_t expert) {
  const auto end = choice.begin() + static_cast<std::ptrdiff_t>(choice.size() / 2);
  const auto it = std::find(choice.begin(), end, static_cast<float>(expert));
  if (it == end) throw ExecutionError("a token was sent to an expert that the gate did not choose");
  return static_cast<std::size_t>(it - choice.begin());
}

}  // namespace

void compute(const CopyRowsWork& work, HostBuffers buffers) {
  HostBuffer &in = of(buffers, work.in.buffer), &out = of(buffers, work.out.buffer);
  for (std::size_t i = 0; i < work.out.rows.size(); ++i) {
    if (work.in.rows[i] < 0) {
      std::memset(out.row(work.out.rows[i]), 0, out.row_bytes());
    } else {
      std::memcpy(out.row(work.out.rows[i]), in.row(work.in.rows[i]), out.row_bytes());
    }
  }
}

void compute(const SumRowsWork& work, HostBuffers buffers) {
  HostBuffer& out = of(buffers, work.out.buffer);
  Floats sum(out.columns()), row(out.columns());
  Floats choice(work.choice ? of(buffers, *work.choice).columns() : 0);
  for (std::size_t i = 0; i < work.out.rows.size(); ++i) {
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (auto t = static_cast<std::size_t>(work.begin[i]); t < static_cast<std::size_t>(work.begin[i + 1]); ++t) {
      const SumRowsWork::Term& term = work.terms[t];
      of(buffers, work.inputs[static_cast<std::size_t>(term.input)]).load_row(term.row, row);
      float weight = 1;
      if (work.choice) {
        of(buffers, *work.choice).load_row(term.choice_row, choice);
        weight = choice[choice.size() / 2 + place_of(choice, term.expert)];
      }
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += weight * row[c];
    }
    out.store_row(work.out.rows[i], sum);
  }
}

void compute(const TopKWork& work, HostBuffers buffers) {
  HostBuffer &in = of(buffers, work.logits.buffer), &out = of(buffers, work.choice.buffer);
  const auto k = static_cast<std::size_t>(work.k);
  Floats logits(in.columns()), choice(out.columns());
  for (std::size_t i = 0; i < work.logits.rows.size(); ++i) {
    in.load_row(work.logits.rows[i], logits);
    const std::vector<std::size_t> experts = largest(logits, k);
    const Floats weights = softmax(logits, experts);
    for (std::size_t j = 0; j < k; ++j) {
      choice[j] = static_cast<float>(experts[j]);
      choice[k + j] = weights[j];
    }
    out.store_row(work.choice.rows[i], choice);
  }
}

/// d logit = weight (d weight - sum of weight d weight) for selected experts.
void compute(const TopKBackwardWork& work, HostBuffers buffers) {
  HostBuffer &gradient = of(buffers, work.d_weights.buffer), &in = of(buffers, work.logits.buffer),
             &out = of(buffers, work.d_logits.buffer);
  Floats d_weights(gradient.columns()), logits(in.columns()), d_logits(out.columns());
  for (std::size_t i = 0; i < work.d_logits.rows.size(); ++i) {
    gradient.load_row(work.d_weights.rows[i], d_weights);
    in.load_row(work.logits.rows[i], logits);
    const std::vector<std::size_t> experts = largest(logits, static_cast<std::size_t>(work.k));
    const Floats weights = softmax(logits, experts);
    float mean = 0;
    for (std::size_t j = 0; j < weights.size(); ++j) mean += weights[j] * d_weights[j];
    std::fill(d_logits.begin(), d_logits.end(), 0.0F);
    for (std::size_t j = 0; j < weights.size(); ++j) d_logits[experts[j]] = weights[j] * (d_weights[j] - mean);
    out.store_row(work.d_logits.rows[i], d_logits);
  }
}

void compute(const ActivationWork& work, HostBuffers buffers) {
  HostBuffer &in = of(buffers, work.up.buffer), &out = of(buffers, work.activated.buffer);
  Floats up(in.columns()), activated(out.columns());
  const std::size_t half = activated.size();
  for (std::size_t i = 0; i < work.up.rows.size(); ++i) {
    in.load_row(work.up.rows[i], up);
    for (std::size_t c = 0; c < half; ++c) {
      activated[c] = work.gated ? up[c] * sigmoid(up[c]) * up[half + c] : up[c] * normal_cdf(up[c]);
    }
    out.store_row(work.activated.rows[i], activated);
  }
}

void compute(const ActivationBackwardWork& work, HostBuffers buffers) {
  HostBuffer &gradient = of(buffers, work.d_activated.buffer), &in = of(buffers, work.up.buffer),
             &out = of(buffers, work.d_up.buffer);
  Floats d(gradient.columns()), up(in.columns()), d_up(out.columns());
  const std::size_t half = d.size();
  for (std::size_t i = 0; i < work.up.rows.size(); ++i) {
    gradient.load_row(work.d_activated.rows[i], d);
    in.load_row(work.up.rows[i], up);
    for (std::size_t c = 0; c < half; ++c) {
      d_up[c] = d[c] * (work.gated ? silu_slope(up[c]) * up[half + c] : gelu_slope(up[c]));
      if (work.gated) d_up[half + c] = d[c] * up[c] * sigmoid(up[c]);
    }
    out.store_row(work.d_up.rows[i], d_up);
  }
}

void compute(const NormWork& work, HostBuffers buffers) {
  HostBuffer &in = of(buffers, work.in.buffer), &out = of(buffers, work.out.buffer);
  const NormWeights weights(of(buffers, work.weights.buffer), work.weights);
  Floats x(in.columns());
  for (std::size_t i = 0; i < work.in.rows.size(); ++i) {
    in.load_row(work.in.rows[i], x);
    (void)norm(x, weights.is_layer_norm(), work.epsilon);
    for (std::size_t c = 0; c < x.size(); ++c) x[c] = x[c] * weights.factors[c] + weights.summands[c];
    out.store_row(work.out.rows[i], x);
  }
}

/// With y = (x - mean) / deviation and g = d_out times the factors: d_in = (g - mean of g - y times mean of g y) /
/// deviation; RMSNorm subtracts no mean of g.
void compute(const NormBackwardWork& work, HostBuffers buffers) {
  HostBuffer &gradient = of(buffers, work.d_out.buffer), &in = of(buffers, work.in.buffer),
             &d_in = of(buffers, work.d_in.buffer), &d_weights = of(buffers, work.d_weights.buffer);
  const NormWeights weights(of(buffers, work.weights.buffer), work.weights);
  const bool is_layer_norm = weights.is_layer_norm();
  const std::size_t n = in.columns();
  NormWeights sums(d_weights, work.d_weights);
  Floats y(n), d(n);
  for (std::size_t i = 0; i < work.in.rows.size(); ++i) {
    in.load_row(work.in.rows[i], y);
    gradient.load_row(work.d_out.rows[i], d);
    const float inverse = norm(y, is_layer_norm, work.epsilon);
    float mean = 0, slope = 0;
    for (std::size_t c = 0; c < n; ++c) {
      sums.factors[c] += d[c] * y[c];
      sums.summands[c] += d[c];
      d[c] *= weights.factors[c];
      mean += d[c];
      slope += d[c] * y[c];
    }
    mean = is_layer_norm ? mean / static_cast<float>(n) : 0;
    slope /= static_cast<float>(n);
    for (std::size_t c = 0; c < n; ++c) d[c] = inverse * (d[c] - mean - y[c] * slope);
    d_in.store_row(work.d_in.rows[i], d);
  }
  d_weights.store_row(work.d_weights.rows[0], sums.factors);
  if (is_layer_norm) d_weights.store_row(work.d_weights.rows[1], sums.summands);
}

void compute(const AddWork& work, HostBuffers buffers) {
  HostBuffer &a = of(buffers, work.a.buffer), &b = of(buffers, work.b.buffer), &out = of(buffers, work.out.buffer);
  Floats x(out.columns()), y(out.columns());
  for (std::size_t i = 0; i < work.out.rows.size(); ++i) {
    a.load_row(work.a.rows[i], x);
    b.load_row(work.b.rows[i], y);
    for (std::size_t c = 0; c < x.size(); ++c) x[c] += y[c];
    out.store_row(work.out.rows[i], x);
  }
}

void compute(const DecodeBackwardWork& work, HostBuffers buffers) {
  HostBuffer &d_out = of(buffers, work.d_out), &returned = of(buffers, work.returned),
             &choices = of(buffers, work.choice), &d_returned = of(buffers, work.d_returned),
             &d_choices = of(buffers, work.d_choice.buffer);
  Floats gradient(d_out.columns()), row(d_out.columns()), choice(choices.columns()), d_choice(d_choices.columns());
  for (const std::int32_t r : work.d_choice.rows) d_choices.store_row(r, Floats(d_choices.columns(), 0.0F));
  for (const DecodeBackwardWork::Entry& e : work.entries) {
    if (e.token < 0) {
      std::memset(d_returned.row(e.d_returned), 0, d_returned.row_bytes());
      continue;
    }
    d_out.load_row(e.token, gradient);
    returned.load_row(e.returned, row);
    choices.load_row(e.choice, choice);
    d_choices.load_row(e.d_choice, d_choice);
    const std::size_t place = place_of(choice, e.expert);
    const float weight = choice[choice.size() / 2 + place];
    float dot = 0;
    for (std::size_t c = 0; c < row.size(); ++c) dot += gradient[c] * row[c];
    d_choice[place] = dot;
    d_choices.store_row(e.d_choice, d_choice);
    for (float& g : gradient) g *= weight;
    d_returned.store_row(e.d_returned, gradient);
  }
}

void compute(const OptimizerWork& work, HostBuffers buffers) {
  HostBuffer &gradients = of(buffers, work.gradients.buffer), &states = of(buffers, work.states.buffer),
             &weights = of(buffers, work.weights.buffer);
  const std::size_t n = weights.columns();
  const auto moments = static_cast<std::size_t>(work.moments);
  const bool has_masters = states.columns() > moments * n;
  Floats g(n), w(n);
  for (std::size_t i = 0; i < work.weights.rows.size(); ++i) {
    float* state = states.floats(work.states.rows[i]);
    gradients.load_row(work.gradients.rows[i], g);
    if (!has_masters) weights.load_row(work.weights.rows[i], w);
    for (std::size_t c = 0; c < n; ++c) {
      float& weight = has_masters ? state[moments * n + c] : w[c];
      moments > 1 ? kernels::adam(g[c], state[c], state[n + c], weight) : kernels::sgd(g[c], state[c], weight);
      w[c] = weight;
    }
    weights.store_row(work.weights.rows[i], w);
  }
}

void compute(const CodecWork& work, HostBuffers buffers, const CodecOptions& options) {
  const std::unique_ptr<RowCodec> codec = make_row_codec(work.format, options);
  HostBuffer &plain = of(buffers, work.rows.buffer), &values = of(buffers, work.wire.front().buffer);
  assert(codec->value_bytes(plain.columns()) == values.row_bytes() && "a codec's bytes are those of the Program");
  Floats row(plain.columns()), numbers(codec->row_numbers(plain.columns()));
  // The parameters of row i, buffer after buffer.
  const auto each_number = [&](std::size_t i, const auto& visit) {
    std::size_t n = 0;
    for (std::size_t w = 1; w < work.wire.size(); ++w) {
      HostBuffer& part = of(buffers, work.wire[w].buffer);
      float* sent = part.floats(work.wire[w].rows[i]);
      for (std::size_t c = 0; c < part.columns(); ++c) visit(sent[c], numbers[n++]);
    }
  };
  for (std::size_t i = 0; i < work.rows.rows.size(); ++i) {
    const std::span<std::byte> bytes(values.row(work.wire.front().rows[i]), values.row_bytes());
    if (work.decodes) {
      each_number(i, [](float sent, float& number) { number = sent; });
      codec->decode(bytes, numbers, row);
      plain.store_row(work.rows.rows[i], row);
    } else {
      plain.load_row(work.rows.rows[i], row);
      codec->encode(row, bytes, numbers);
      each_number(i, [](float& sent, float number) { sent = number; });
    }
  }
}

}  // namespace moeplan::runtime
