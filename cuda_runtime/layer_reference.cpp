#include "cuda_runtime/layer_reference.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "model/base/to_index.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

namespace {

void add_scaled(Matrix& to, const Matrix& from, double factor) {
  for (std::size_t i = 0; i < to.values.size(); ++i) to.values[i] += factor * from.values[i];
}

void clear(Matrix& m) { std::fill(m.values.begin(), m.values.end(), 0.0); }

/// Every step-th row, starting with the first.
Matrix some_rows(const Matrix& m, std::int64_t step) {
  Matrix out(0, m.columns);
  for (std::int64_t r = 0; r < m.rows; r += step) {
    out.values.insert(out.values.end(), m.row(r).begin(), m.row(r).end());
    ++out.rows;
  }
  return out;
}

/// The ranks over whose rows an expert's gradient is summed before this rank receives it: the group of its
/// reduce-scatter, and the ranks with copies of the expert.
std::set<RankId> gradient_ranks(const Program& program, RankId rank, std::span<const BlockId> blocks) {
  std::set<RankId> out{rank};
  for (const BlockId block : blocks) {
    for (const Operation& o : program.blocks[block.index()].operations) {
      const Communication* c = o.communication();
      const bool scatters = c != nullptr && c->collective == Collective::ReduceScatter &&
                            o.reads.front().rows.kind == Rows::Kind::PerExpert;
      if (!scatters && !(is_to_copies(o) && c->reduces)) continue;
      const GroupFamily& family = program.group(c->group);
      for (const RankId known : std::set<RankId>(out)) {
        for (std::int64_t p = 0; p < family.size; ++p) out.insert(family.member(known, p));
      }
    }
  }
  return out;
}

}  // namespace

bool GradientShares::has(std::int64_t source) const {
  return gate.contains(source) || std::any_of(experts.begin(), experts.end(),
                                              [&](const auto& of_expert) { return of_expert.second.contains(source); });
}

GradientShares gradient_shares(const Program& program, const Interpreter& interpreter, const TokenChoices& kept) {
  GradientShares out;
  const auto tokens = static_cast<double>(kept.front().size());
  for (const Slot& s : interpreter.layout().slots(interpreter.buffer("d.gate.logits")))
    out.gate[s.key.source] += 1 / tokens;
  const TokenIndex index(kept, program.routings.front().num_experts());
  const BufferId rows = interpreter.buffer("expert.in");
  for (const RankId rank : gradient_ranks(program, interpreter.rank(), interpreter.blocks())) {
    for (const Slot& s : buffer_slots(program, rank, interpreter.blocks(), rows, kept)) {
      if (index.token(s.key.source, s.key.expert, s.key.ordinal) < 0) continue;
      out.experts[s.key.expert][s.key.source] += 1 / static_cast<double>(index.count(s.key.source, s.key.expert));
    }
  }
  return out;
}

std::int64_t reference_step(const MoeShape& shape, double tokens, double most_flops) {
  // The forward pass, and the backward pass, which recomputes the forward products and adds two for each: four times 2
  // m n k.
  const double flops = 8 * tokens * static_cast<double>(shape.top_k * shape.hidden_size) *
                       static_cast<double>(shape.up_columns() + shape.ffn_size);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(flops / most_flops)));
}

LayerReference::LayerReference(const SyntheticLayer& layer, Wire wire, double most_flops)
    : layer_(layer), wire_(std::move(wire)) {
  const auto tokens = static_cast<double>(layer.kept.size() * layer.kept.front().size());
  // With a capacity, the dropped tokens depend on all tokens.
  if (!layer.capacity) step_ = reference_step(layer.shape, tokens, most_flops);
  // assumed: room on every rank. Generating weights whenever they are read takes twice the time of computing with them.
  constexpr double kMostStored = 256e6;
  const double bytes = static_cast<double>(sizeof(double) * to_index(layer.shape.experts * layer.shape.hidden_size)) *
                       static_cast<double>(layer.shape.up_columns() + layer.shape.ffn_size);
  if (!is_whole() && bytes > kMostStored) {
    weights_ = std::make_unique<GeneratedWeights>(layer.shape, layer.dtype, layer.seed);
    return;
  }
  stored_ = made_weights(layer.shape, layer.dtype, layer.seed);
  weights_ = std::make_unique<StoredWeights>(stored_);
  if (!is_whole()) return;
  sum_ = stored_;
  clear(sum_.gate);
  for (auto* matrices : {&sum_.up, &sum_.down}) {
    for (Matrix& m : *matrices) clear(m);
  }
}

void LayerReference::add(std::int64_t source, bool trains, const std::optional<GradientShares>& shares) {
  const RankId id(static_cast<std::int32_t>(source));
  const Matrix all = made_tokens(layer_.shape, layer_.asked, id, layer_.dtype, layer_.seed);
  const Matrix in = some_rows(all, step_);
  const MoeForward forward = moe_forward(layer_.shape, *weights_, in, layer_.capacity, wire_);
  OfSource& out = sources_[source];
  out.output = forward.output;
  if (!trains) return;
  const Matrix d_out = some_rows(made_gradient(layer_.shape, all.rows, id, layer_.dtype, layer_.seed), step_);
  MoeGradients back = moe_backward(layer_.shape, *weights_, in, forward, d_out, wire_, shares.has_value());
  out.gradient = std::move(back.tokens);
  if (!shares) return;
  if (const auto it = shares->gate.find(source); it != shares->gate.end()) {
    add_scaled(sum_.gate, back.weights.gate, it->second);
  }
  for (const auto& [expert, sources] : shares->experts) {
    const auto it = sources.find(source);
    if (it == sources.end()) continue;
    add_scaled(sum_.up[to_index(expert)], back.weights.up[to_index(expert)], it->second);
    add_scaled(sum_.down[to_index(expert)], back.weights.down[to_index(expert)], it->second);
  }
}

std::span<const double> LayerReference::row(const RowKey& token, bool backward) const {
  const auto it = sources_.find(token.source);
  if (it == sources_.end() || token.ordinal % step_ != 0) return {};
  return (backward ? it->second.gradient : it->second.output).row(token.ordinal / step_);
}

}  // namespace moeplan::runtime
