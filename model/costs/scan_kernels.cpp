#include "model/costs/scan_kernels.hpp"

namespace moeplan {

namespace {

ScanBuffer gradient(ScanBuffer of) {
  of.name = "d." + of.name;
  return of;
}

ScanBuffer named(std::string name, ScanBuffer like) {
  like.name = std::move(name);
  return like;
}

/// Tokens of a chunk of Gated DeltaNet in flash-linear-attention.
constexpr std::int64_t kChunk = 64;

}  // namespace

Scan scan_kernels(const GatedDeltaNet& d, std::int64_t tp) {
  const std::int64_t key_heads = d.num_key_heads / tp, heads = d.num_value_heads / tp;
  const std::int64_t k = d.key_head_dim, v = d.value_head_dim, c = kChunk;
  const std::int64_t keys = key_heads * k, values = heads * v;
  const ScanBuffer conv{"scan.conv", 2 * keys + values}, gate{"scan.gate", values},
      decay_in{"scan.decay.in", 2 * heads};
  const ScanBuffer q_in{"scan.q.in", keys}, k_in{"scan.k.in", keys}, value{"scan.v", values};
  const ScanBuffer query{"scan.q", heads * k}, key{"scan.k", heads * k};
  const ScanBuffer decay{"scan.decay", 2 * heads, 1, true};  // summed decay, strength of the correction
  const ScanBuffer pairs{"scan.pairs", heads * c, 1, true}, inverse{"scan.inverse", heads * c};
  const ScanBuffer w{"scan.w", heads * k}, u{"scan.u", values}, corrected{"scan.corrected", values};
  const ScanBuffer states{"scan.states", heads * k * v, c}, result{"scan.result", values}, core{"scan.core", values};
  const ScanKernel w_and_u{"w and u", {key, value, decay, inverse}, {w, u}, heads * c * (k + v)};
  const ScanKernel recurrence{"states", {key, w, u, decay}, {states, corrected}, heads * 2 * k * v};
  const bool repeats = key_heads != heads;
  const ScanBuffer q_wide = repeats ? named("scan.q.wide", query) : q_in;
  const ScanBuffer k_wide = repeats ? named("scan.k.wide", key) : k_in;

  Scan scan{.inputs = {conv, gate, decay_in}, .output = core, .forward = {}, .backward = {}};
  scan.forward = {{"convolution", {conv}, {q_in, k_in, value}},
                  {"decay", {decay_in}, {decay}},
                  {"query and key norm", {q_wide, k_wide}, {query, key}},
                  {"pairs of keys", {key, decay}, {pairs}, heads * c * k},
                  {"triangular inverse", {pairs}, {inverse}, heads * c * c / 3},
                  w_and_u,
                  recurrence,
                  {"outputs", {query, key, corrected, states, decay}, {result}, heads * (k * v + c * k + c * v)},
                  {"gated norm", {result, gate}, {core}}};
  const ScanBuffer d_key_2 = named("d.scan.k.2", key), d_decay_2 = named("d.scan.decay.2", decay);
  scan.backward = {
      {"gated norm backward", {gradient(core), result, gate}, {gradient(result), gradient(gate)}},
      w_and_u,
      recurrence,
      {"local gradients", {query, key, decay, gradient(result)}, {gradient(corrected)}, heads * (c * k + c * v)},
      {"gradients of states",
       {query, key, w, decay, gradient(result), gradient(corrected)},
       {gradient(states), gradient(corrected)},
       heads * 3 * k * v},
      {"gradients of queries and keys",
       {query, key, corrected, states, decay, gradient(result), gradient(states), gradient(corrected)},
       {gradient(query), gradient(key), gradient(w), gradient(decay)},
       heads * (3 * k * v + 2 * c * k + c * v)},
      {"gradients of w and u",
       {key, value, inverse, decay, gradient(w), gradient(corrected)},
       {d_key_2, gradient(value), d_decay_2},
       heads * (4 * c * k + 2 * c * v + 2 * c * c)},
      {"sum of gradients", {gradient(key), d_key_2}, {gradient(key)}},
      {"query and key norm backward",
       {gradient(query), gradient(key), query, key},
       {gradient(q_wide), gradient(k_wide)}},
      {"decay backward", {gradient(decay), d_decay_2, decay_in}, {gradient(decay_in)}},
      {"convolution backward", {gradient(q_in), gradient(k_in), gradient(value), conv}, {gradient(conv)}}};
  if (repeats) {
    scan.forward.insert(scan.forward.begin() + 1, {"repeat queries and keys", {q_in, k_in}, {q_wide, k_wide}});
    scan.backward.insert(
        scan.backward.end() - 1,
        {"sum over repeated heads", {gradient(q_wide), gradient(k_wide)}, {gradient(q_in), gradient(k_in)}});
  }
  return scan;
}

Scan scan_kernels(const Mamba2& m, std::int64_t tp) {
  const std::int64_t heads = m.num_heads / tp, groups = m.num_groups / tp;
  const std::int64_t p = m.head_dim, n = m.state_size, q = m.chunk;
  const std::int64_t seen = (q + 1) / 2;  // tokens of its chunk before a token, on average
  const ScanBuffer conv{"scan.conv", heads * p + 2 * groups * n}, gate{"scan.gate", heads * p};
  const ScanBuffer step_in{"scan.step.in", heads}, step{"scan.step", 2 * heads, 1, true};  // and its summed decay
  const ScanBuffer x{"scan.x", heads * p}, b{"scan.b", groups * n}, c{"scan.c", groups * n};
  const ScanBuffer own{"scan.states.own", heads * p * n, q, true}, states{"scan.states", heads * p * n, q, true};
  const ScanBuffer scores{"scan.scores", groups * q, 1, true};
  const ScanBuffer result{"scan.result", heads * p}, core{"scan.core", heads * p};
  const ScanKernel chunk_states{"states of chunks", {b, x, step}, {own}, heads * p * n};
  const ScanKernel passing{"state passing", {own}, {states}};
  const ScanKernel scoring{"scores", {b, c}, {scores}, groups * q * n};

  Scan scan{.inputs = {conv, gate, step_in}, .output = core, .forward = {}, .backward = {}};
  scan.forward = {{"convolution", {conv}, {x, b, c}},
                  {"decay", {step_in}, {step}},
                  chunk_states,
                  passing,
                  scoring,
                  {"outputs", {scores, x, c, states, step}, {result}, heads * p * (n + seen)},
                  {"gated norm", {result, gate}, {core}}};
  scan.backward = {{"gated norm backward", {gradient(core), result, gate}, {gradient(result), gradient(gate)}},
                   chunk_states,
                   passing,
                   scoring,
                   {"gradients of states", {c, gradient(result), step}, {gradient(own)}, heads * p * n},
                   {"state passing backward", {gradient(own), states}, {gradient(states)}},
                   {"gradients of inputs",
                    {x, scores, gradient(result), b, step, gradient(states)},
                    {gradient(x), gradient(step)},
                    heads * p * (n + seen)},
                   {"gradients of B", {x, gradient(states), b, step}, {gradient(b)}, heads * p * n},
                   {"gradients of C", {states, gradient(result), c, step}, {gradient(c)}, heads * p * n},
                   {"gradients of scores", {x, gradient(result), step}, {gradient(scores)}, heads * p * seen},
                   {"gradients of B by scores", {gradient(scores), c, gradient(b)}, {gradient(b)}, groups * q * n},
                   {"gradients of C by scores", {gradient(scores), b, gradient(c)}, {gradient(c)}, groups * q * n},
                   {"decay backward", {gradient(step), step_in}, {gradient(step_in)}},
                   {"convolution backward", {gradient(x), gradient(b), gradient(c), conv}, {gradient(conv)}}};
  return scan;
}

double multiply_adds(const std::vector<ScanKernel>& kernels) {
  double sum = 0;
  for (const ScanKernel& kernel : kernels) sum += static_cast<double>(kernel.multiply_adds);
  return sum;
}

}  // namespace moeplan
