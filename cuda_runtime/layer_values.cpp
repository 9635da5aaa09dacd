#include "cuda_runtime/layer_values.hpp"

#include <algorithm>
#include <array>
#include <cassert>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "cuda_runtime/codecs/make_row_codec.hpp"
#include "cuda_runtime/layer_reference.hpp"
#include "cuda_runtime/reference/number_formats.hpp"
#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "cuda_runtime/row_comparison.hpp"
#include "model/base/to_index.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

namespace {

RankId source_id(std::int64_t source) { return RankId(static_cast<std::int32_t>(source)); }

/// Names of all buffers with weights that a layer may have.
constexpr const char* kNormWeights = "w.norm.ffn.in";
constexpr std::array<const char*, 6> kWeights{kNormWeights,    "gate.weight", "expert.w_up",
                                              "expert.w_down", "w.shared.up", "w.shared.down"};

/// The columns of an up projection that one of `shards` shards has; of a gated expert, in both halves.
std::vector<ColumnRange> shard_of_up(const MoeShape& shape, std::int64_t shard, std::int64_t shards) {
  const std::int64_t own = shape.ffn_size / shards;
  std::vector<ColumnRange> out{{shard * own, own}};
  if (shape.gated) out.push_back({shape.ffn_size + shard * own, own});
  return out;
}

std::vector<double> some_of(std::span<const double> row, std::span<const ColumnRange> columns) {
  std::vector<double> out;
  for (const ColumnRange& c : columns) {
    if (row.empty()) break;  // not known
    const auto part = row.subspan(to_index(c.first), to_index(c.count));
    out.insert(out.end(), part.begin(), part.end());
  }
  return out;
}

MadeElements some_of(const MadeRow& row, std::span<const ColumnRange> columns) {
  MadeElements out{.mean = row.mean, .scale = row.scale};
  std::int64_t to = 0;
  for (const ColumnRange& c : columns) {
    const std::int64_t one = row.one >= c.first ? row.one - c.first : -1;
    out.append({to, c.count, row.first + static_cast<std::uint64_t>(c.first), one});
    to += c.count;
  }
  return out;
}

}  // namespace

double lossless_tolerance(Dtype dtype) {
  constexpr double kRoundings16 = 8, kRoundings32 = 512;
  return unit_roundoff(dtype) * (size_of(dtype) == 2 ? kRoundings16 : kRoundings32);
}

bool are_right(const ValueErrors& errors, const SyntheticLayer& layer) {
  if (!layer.dispatch_format && !layer.combine_format) return errors.worst() <= lossless_tolerance(layer.dtype);
  constexpr double kShareOff = 0.25, kWidth = 16, kRowsOff = 2;
  constexpr double kFar = 0.1, kFarOfFp8 = 0.25, kFarOfZfp = 0.3, kFarOfParts = 0.5;
  const auto uses = [&](WireFormat format) {
    return layer.dispatch_format == format || layer.combine_format == format;
  };
  const bool codes_parts = layer.combine_format && layer.esp > 1;
  const double far = codes_parts                  ? kFarOfParts
                     : uses(WireFormat::Zfp)      ? kFarOfZfp
                     : uses(WireFormat::Fp8Block) ? kFarOfFp8
                                                  : kFar;
  if (!(errors.worst() <= far)) return false;
  return codes_parts || size_of(layer.dtype) == 2 || errors.rows_off * static_cast<double>(errors.rows) <= kRowsOff ||
         errors.rows_off <= 1 - std::pow(1 - kShareOff, static_cast<double>(layer.shape.hidden_size) / kWidth);
}

LayerValues::LayerValues(const Program& program, SyntheticLayer layer, Interpreter& interpreter)
    : program_(program),
      layer_(std::move(layer)),
      interpreter_(interpreter),
      step_(program, interpreter),
      shard_(interpreter.rank().value() % layer_.esp),
      shared_shard_(interpreter.rank().value() % layer_.tp),
      routed_(std::make_unique<GeneratedWeights>(layer_.shape, layer_.dtype, layer_.seed)),
      in_(interpreter.buffer(layer_.norm ? "x.mid" : "ffn.in")),
      out_(interpreter.buffer(layer_.norm ? "x" : "moe.out")) {
  if (layer_.norm) norm_ = made_norm(layer_.shape, *layer_.norm, layer_.dtype, layer_.seed);
  if (layer_.shared) shared_ = std::make_unique<GeneratedWeights>(*layer_.shared, layer_.dtype, shared_seed(layer_));
}

bool LayerValues::is_home(std::int64_t expert) const {
  if (expert < 0) return true;
  const RoutingTable& table = program_.routings.front();
  if (table.slots.empty()) return true;
  const ExpertRange held = local_experts(program_, RoutingId(0), interpreter_.rank());
  for (std::int64_t s = held.first; s < held.last; ++s) {
    const auto& slot = table.slots[to_index(s)];
    if (slot && slot->is_home && slot->expert.value() == expert) return true;
  }
  return false;
}

LayerValues::Part LayerValues::part(const std::string& weight, const RowKey& row) const {
  const MoeShape& routed = layer_.shape;
  if (weight == kNormWeights) return {Part::Matrix::Norm, false, 0, row.ordinal, {{0, routed.hidden_size}}};
  if (weight == "gate.weight") return {Part::Matrix::Gate, false, 0, row.ordinal, {{0, routed.experts}}};
  if (weight == "expert.w_up")
    return {Part::Matrix::Up, false, row.expert, row.ordinal, shard_of_up(routed, shard_, layer_.esp)};
  if (weight == "expert.w_down") {
    const std::int64_t first = shard_ * routed.ffn_size / layer_.esp;
    return {Part::Matrix::Down, false, row.expert, first + row.ordinal, {{0, routed.hidden_size}}};
  }
  assert(layer_.shared && "the only other weights are those of shared experts");
  if (weight == "w.shared.up")
    return {Part::Matrix::Up, true, 0, row.ordinal, shard_of_up(*layer_.shared, shared_shard_, layer_.tp)};
  const std::int64_t first = shared_shard_ * layer_.shared->ffn_size / layer_.tp;
  return {Part::Matrix::Down, true, 0, first + row.ordinal, {{0, layer_.shared->hidden_size}}};
}

std::vector<double> LayerValues::row_of(const Part& part, const Weights& weights) {
  const LayerWeights& experts = part.is_shared ? *weights.shared : weights.routed;
  LayerWeights::Scratch scratch;
  switch (part.matrix) {
    case Part::Matrix::Norm: return some_of(weights.norm.row(part.row), part.columns);
    case Part::Matrix::Gate: return some_of(experts.gate().row(part.row), part.columns);
    case Part::Matrix::Up: return some_of(experts.up(part.expert, part.row, scratch), part.columns);
    case Part::Matrix::Down: break;
  }
  return some_of(experts.down(part.expert, part.row, scratch), part.columns);
}

MadeElements LayerValues::made_row(const Part& part) const {
  const MoeShape& shape = part.is_shared ? *layer_.shared : layer_.shape;
  const std::uint64_t seed = part.is_shared ? shared_seed(layer_) : layer_.seed;
  switch (part.matrix) {
    case Part::Matrix::Norm: return some_of(norm_row(shape, part.row, seed), part.columns);
    case Part::Matrix::Gate: return some_of(gate_row(shape, part.row, seed), part.columns);
    case Part::Matrix::Up: return some_of(up_row(shape, part.expert, part.row, seed), part.columns);
    case Part::Matrix::Down: break;
  }
  return some_of(down_row(shape, part.expert, part.row, seed), part.columns);
}

void LayerValues::fill() { fill(1); }

void LayerValues::fill(double gradient_size) {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
    if (!program_.buffers[b].part) interpreter_.clear(BufferId(b));
  }
  std::map<std::int64_t, MadeTokens> tokens;
  std::vector<double> row(to_index(layer_.shape.hidden_size));
  for (const Slot& slot : interpreter_.layout().slots(in_)) {
    const std::int64_t source = slot.key.source;
    const auto& of_source =
        tokens.try_emplace(source, layer_.shape, layer_.asked, source_id(source), layer_.dtype, layer_.seed)
            .first->second;
    of_source.make(slot.key.ordinal, row);
    interpreter_.write(in_, slot, row);
  }
  if (interpreter_.has_buffer("d.moe.out")) {
    const BufferId gradient = interpreter_.buffer("d.moe.out");
    MadeElements made;
    std::int64_t first = 0;
    for (const Slot& slot : interpreter_.layout().slots(gradient)) {
      const MadeRow r = gradient_row(layer_.shape, source_id(slot.key.source), slot.key.ordinal, layer_.seed);
      made.scale = static_cast<float>(gradient_size) * r.scale;
      made.append({first, layer_.shape.hidden_size, r.first});
      first += layer_.shape.hidden_size;
    }
    interpreter_.make(gradient, made);
  }
  fill_weights();
}

void LayerValues::hold_weights() {
  constexpr double kHeld = 1e-12;  // a thousand steps stay below a rounding, and squares are normal numbers of fp32
  if (step_.has_optimizer()) fill(kHeld);
}

void LayerValues::fill_weights() {
  const bool trains = interpreter_.has_buffer("d.moe.out");
  for (const std::string name : kWeights) {
    if (!interpreter_.has_buffer(name)) continue;
    const BufferId buffer = interpreter_.buffer(name);
    MadeElements made;
    std::int64_t first = 0;
    for (const Slot& s : interpreter_.layout().slots(buffer)) {
      if (!trains || is_home(s.key.expert)) {
        const MadeElements row = made_row(part(name, s.key));
        made.mean = row.mean, made.scale = row.scale;
        for (kernels::MadeRun run : row.runs) {
          run.to += first;
          made.append(run);
        }
      }
      first += program_.buffer(buffer).columns;
    }
    interpreter_.make(buffer, made);
  }
  step_.fill([&](const std::string& name, const RowKey& row) { return made_row(part(name, row)); });
}

Wire LayerValues::wire() const {
  const auto loss = [&](const std::optional<WireFormat>& format) -> RowLoss {
    if (!format) return {};
    return [codec = std::shared_ptr<const RowCodec>(make_row_codec(*format, layer_.codecs)),
            dtype = layer_.dtype](std::span<double> row) {
      std::vector<float> floats(row.begin(), row.end());
      pass_through(*codec, floats.size(), floats);
      for (std::size_t i = 0; i < row.size(); ++i) row[i] = rounded_to(dtype, static_cast<double>(floats[i]));
    };
  };
  return {loss(layer_.dispatch_format), loss(layer_.combine_format), layer_.weighs_at_experts};
}

ValueErrors LayerValues::errors(double most_flops) {
  const bool trains = interpreter_.has_buffer("d.moe.out");
  LayerReference reference(layer_, wire(), most_flops);
  std::optional<GradientShares> shares;
  if (trains && reference.is_whole()) shares = gradient_shares(program_, interpreter_, layer_.kept);
  if (shares && !shares->are_whole()) shares.reset();
  for (std::int64_t s = 0; s < std::ssize(layer_.kept); ++s) {
    const auto& slots = interpreter_.layout().slots(out_);
    const bool has_tokens =
        std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.key.source == s; });
    if (has_tokens || step_.has_optimizer() || (shares && shares->has(s))) reference.add(s, trains, shares);
  }
  // Some schedules also decode tokens of other ranks, to which these add the shared experts.
  std::set<RowKey> own;
  for (const Slot& s : interpreter_.layout().slots(in_)) own.insert(s.key);
  const auto is_whole = [&](const RowKey& token) { return !layer_.shared || own.contains(token); };
  ValueErrors out;
  out.has_weights = shares.has_value();
  std::int64_t off = 0;
  const auto rows = [&](BufferId buffer, bool backward) {
    RowComparison c;
    for (const Slot& s : interpreter_.layout().slots(buffer)) {
      if (!is_whole(s.key)) continue;
      const std::span<const double> expected = reference.row(s.key, backward);
      if (!expected.empty()) c.add(interpreter_.read(buffer, s), expected);
    }
    off += c.off(lossless_tolerance(layer_.dtype));
    out.rows += c.rows();
    return c.worst();
  };
  out.output = rows(out_, false);
  if (trains) out.gradient = rows(interpreter_.buffer(layer_.norm ? "d.x" : "d.ffn.in"), true);
  out.rows_off = out.rows > 0 ? static_cast<double>(off) / static_cast<double>(out.rows) : 0;
  if (shares) compare_weights(reference, out);
  return out;
}

void LayerValues::compare_weights(const LayerReference& reference, ValueErrors& errors) {
  const StoredWeights routed = reference.weight_gradients(), shared = reference.shared_gradients();
  const auto gradient = [&](const std::string& name, const RowKey& row) {
    return row_of(part(name, row), {routed, &shared, reference.norm_gradients()});
  };
  if (!step_.has_optimizer()) {
    errors.weight_gradient = weight_errors(gradient);
    return;
  }
  const auto weight = [&](const std::string& name, const RowKey& row) {
    return row_of(part(name, row), {*routed_, shared_.get(), norm_});
  };
  const StepValues::Errors step = step_.errors(weight, gradient);
  errors.weight_gradient = step.gradient;
  errors.update = step.weight;
}

double LayerValues::weight_errors(const StepValues::RowOf& gradient) {
  double worst = 0;
  for (const std::string name : kWeights) {
    if (!interpreter_.has_buffer("d." + name)) continue;
    RowComparison c;
    const BufferId buffer = interpreter_.buffer("d." + name);
    for (const Slot& s : interpreter_.layout().slots(buffer)) {
      if (!is_home(s.key.expert)) continue;
      const std::vector<double> expected = gradient(name, s.key);
      if (!expected.empty()) c.add(interpreter_.read(buffer, s), expected);
    }
    worst = std::max(worst, c.worst());
  }
  return worst;
}

}  // namespace moeplan::runtime
