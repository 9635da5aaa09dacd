#include "cuda_runtime/layer_reference.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "cuda_runtime/reference/row_norm.hpp"
#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "model/base/to_index.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

namespace {

void add_scaled(Matrix& to, const Matrix& from, double factor) {
  for (std::size_t i = 0; i < to.values.size(); ++i) to.values[i] += factor * from.values[i];
}

/// Of experts' weights in double.
double bytes_of(const MoeShape& shape) {
  return static_cast<double>(sizeof(double) * to_index(shape.experts * shape.hidden_size)) *
         static_cast<double>(shape.up_columns() + shape.ffn_size);
}

/// Adds the other members of an operation's group.
void add_members(const Program& program, const Communication& c, std::set<RankId>& ranks) {
  const GroupFamily& family = program.group(c.group);
  for (const RankId known : std::set<RankId>(ranks)) {
    for (std::int64_t p = 0; p < family.size; ++p) ranks.insert(family.member(known, p));
  }
}

/// Whether the operation reduces a flat buffer of gradients over replicas.
bool reduces(const Program& program, const Operation& o, std::string_view flat) {
  return o.op_class == OpClass::Gradient && o.communication() != nullptr &&
         program.buffer(o.reads.front().buffer).name == flat;
}

/// The ranks over whose rows a gradient of dense weights is summed before this rank receives it.
std::set<RankId> dense_gradient_ranks(const Program& program, RankId rank, std::span<const BlockId> blocks) {
  std::set<RankId> out{rank};
  for (const BlockId block : blocks) {
    for (const Operation& o : program.blocks[block.index()].operations) {
      if (reduces(program, o, "dense.gradients")) add_members(program, *o.communication(), out);
    }
  }
  return out;
}

/// The same of an expert's gradient: the group of its reduce-scatter, the ranks with copies of the expert, and its
/// replicas.
std::set<RankId> gradient_ranks(const Program& program, RankId rank, std::span<const BlockId> blocks) {
  std::set<RankId> out{rank};
  for (const BlockId block : blocks) {
    for (const Operation& o : program.blocks[block.index()].operations) {
      const Communication* c = o.communication();
      const bool scatters = c != nullptr && c->collective == Collective::ReduceScatter &&
                            o.reads.front().rows.kind == Rows::Kind::PerExpert;
      if (scatters || (is_to_copies(o) && c->reduces) || reduces(program, o, "expert.gradients"))
        add_members(program, *c, out);
    }
  }
  return out;
}

/// The rows of each product that gives gradients of the experts' weights: a row that arrives in two of them counts
/// twice.
std::vector<const Rows*> multiplied_rows(const Program& program, const Interpreter& interpreter) {
  std::vector<const Rows*> out;
  for (const BlockId block : interpreter.blocks()) {
    for (const Operation& o : program.blocks[block.index()].operations) {
      const bool is_product = std::holds_alternative<Gemm>(o.work);
      if (is_product && program.buffer(o.writes.front().buffer).name.starts_with("d.expert.w_up"))
        out.push_back(&o.reads.front().rows);
    }
  }
  return out;
}

}  // namespace

bool GradientShares::has(std::int64_t source) const {
  return gate.contains(source) || norm.contains(source) ||
         std::any_of(experts.begin(), experts.end(),
                     [&](const auto& of_expert) { return of_expert.second.contains(source); });
}

bool GradientShares::are_whole() const {
  const auto is_whole = [](const auto& of_source) {
    constexpr double kRounding = 1e-9;
    return std::abs(of_source.second - std::round(of_source.second)) < kRounding;
  };
  return std::all_of(gate.begin(), gate.end(), is_whole) && std::all_of(norm.begin(), norm.end(), is_whole) &&
         std::all_of(experts.begin(), experts.end(), [&](const auto& of_expert) {
           return std::all_of(of_expert.second.begin(), of_expert.second.end(), is_whole);
         });
}

GradientShares gradient_shares(const Program& program, const Interpreter& interpreter, const TokenChoices& kept) {
  GradientShares out;
  const auto tokens = static_cast<double>(kept.front().size());
  const auto add_rows = [&](RankId rank, const std::string& buffer, std::map<std::int64_t, double>& shares) {
    for (const Slot& s : buffer_slots(program, rank, interpreter.blocks(), interpreter.buffer(buffer), kept))
      shares[s.key.source] += 1 / tokens;
  };
  for (const RankId rank : dense_gradient_ranks(program, interpreter.rank(), interpreter.blocks())) {
    add_rows(rank, "d.gate.logits", out.gate);
    if (interpreter.has_buffer("d.ffn.x")) add_rows(rank, "d.ffn.x", out.norm);
  }
  const TokenIndex index(kept, program.routings.front().num_experts());
  const std::vector<const Rows*> multiplied = multiplied_rows(program, interpreter);
  for (const RankId rank : gradient_ranks(program, interpreter.rank(), interpreter.blocks())) {
    for (const Rows* rows : multiplied) {
      for (const Slot& s : row_slots(program, *rows, rank, kept)) {
        if (index.token(s.key.source, s.key.expert, s.key.ordinal) < 0) continue;
        out.experts[s.key.expert][s.key.source] += 1 / static_cast<double>(index.count(s.key.source, s.key.expert));
      }
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

LayerReference::LayerReference(const SyntheticLayer& layer, Wire wire, double most_flops, double most_bytes)
    : layer_(layer), wire_(std::move(wire)) {
  const auto tokens = static_cast<double>(layer.kept.size() * layer.kept.front().size());
  // With a capacity, the dropped tokens depend on all tokens.
  if (!layer.capacity) step_ = reference_step(layer.shape, tokens, most_flops);
  const auto row_step = [&](const MoeShape& shape) {
    return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(bytes_of(shape) / most_bytes)));
  };
  if (layer.shared) {
    shared_ = std::make_unique<GeneratedWeights>(*layer.shared, layer.dtype, shared_seed(layer));
    shared_row_step_ = row_step(*layer.shared);
    if (is_whole()) shared_sum_ = zero_weights(*layer.shared, shared_row_step_);
  }
  if (layer.norm) {
    norm_ = made_norm(layer.shape, *layer.norm, layer.dtype, layer.seed);
    norm_sum_ = Matrix(norm_.rows, norm_.columns);
  }
  row_step_ = row_step(layer.shape);
  if (is_whole()) sum_ = zero_weights(layer.shape, row_step_);
  if (row_step_ > 1) {
    weights_ = std::make_unique<GeneratedWeights>(layer.shape, layer.dtype, layer.seed);
    return;
  }
  stored_ = made_weights(layer.shape, layer.dtype, layer.seed);
  weights_ = std::make_unique<StoredWeights>(stored_);
}

void LayerReference::add(std::int64_t source, bool trains, const std::optional<GradientShares>& shares) {
  const RankId id(static_cast<std::int32_t>(source));
  const Matrix tokens = made_tokens(layer_.shape, layer_.asked, id, layer_.dtype, layer_.seed, step_);
  const Matrix in = layer_.norm ? norm_forward(tokens, norm_) : tokens;
  const MoeForward forward = moe_forward(layer_.shape, *weights_, in, layer_.capacity, wire_);
  OfSource& out = sources_[source];
  out.output = forward.output;
  MoeForward by_shared;
  if (shared_) {
    by_shared = moe_forward(*layer_.shared, *shared_, in, std::nullopt);
    add_scaled(out.output, by_shared.output, 1);
  }
  if (layer_.norm) add_scaled(out.output, tokens, 1);
  if (!trains) return;
  const Matrix d_out =
      made_gradient(layer_.shape, std::ssize(layer_.kept[to_index(source)]), id, layer_.dtype, layer_.seed, step_);
  MoeGradients back = moe_backward(layer_.shape, *weights_, in, forward, d_out, wire_, shares ? row_step_ : 0);
  out.gradient = std::move(back.tokens);
  if (shared_) {
    const MoeGradients d =
        moe_backward(*layer_.shared, *shared_, in, by_shared, d_out, {}, shares ? shared_row_step_ : 0);
    add_scaled(out.gradient, d.tokens, 1);
    if (shares) {
      add_scaled(shared_sum_.up.front(), d.weights.up.front(), 1);
      add_scaled(shared_sum_.down.front(), d.weights.down.front(), 1);
    }
  }
  if (layer_.norm) {
    NormGradients d = norm_backward(tokens, norm_, out.gradient);
    out.gradient = std::move(d.rows);
    add_scaled(out.gradient, d_out, 1);
    if (shares && shares->norm.contains(source)) add_scaled(norm_sum_, d.weights, shares->norm.at(source));
  }
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
