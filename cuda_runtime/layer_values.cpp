#include "cuda_runtime/layer_values.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "cuda_runtime/codecs/make_row_codec.hpp"
#include "cuda_runtime/layer_reference.hpp"
#include "cuda_runtime/reference/number_formats.hpp"
#include "cuda_runtime/reference/synthetic_layer.hpp"
#include "model/base/to_index.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

namespace {

RankId source_id(std::int64_t source) { return RankId(static_cast<std::int32_t>(source)); }
/// Differences of rows against a reference; the share of the largest value there.
class Comparison {
 public:
  void add(std::span<const double> got, std::span<const double> expected) {
    double worst = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
      largest_ = std::max(largest_, std::abs(expected[i]));
      // NaN counts as an infinite difference.
      const double d = std::abs(got[i] - expected[i]);
      worst = std::isfinite(d) ? std::max(worst, d) : std::numeric_limits<double>::infinity();
    }
    rows_.push_back(worst);
  }
  [[nodiscard]] double worst() const {
    return rows_.empty() ? 0 : *std::max_element(rows_.begin(), rows_.end()) / scale();
  }
  [[nodiscard]] std::int64_t rows() const { return std::ssize(rows_); }
  [[nodiscard]] std::int64_t off(double tolerance) const {
    return std::count_if(rows_.begin(), rows_.end(), [&](double d) { return d > tolerance * scale(); });
  }

 private:
  [[nodiscard]] double scale() const { return largest_ > 0 ? largest_ : 1; }
  double largest_ = 0;
  std::vector<double> rows_;
};

}  // namespace

double lossless_tolerance(Dtype dtype) {
  constexpr double kRoundings16 = 8, kRoundings32 = 512;
  return unit_roundoff(dtype) * (size_of(dtype) == 2 ? kRoundings16 : kRoundings32);
}

bool are_right(const ValueErrors& errors, const SyntheticLayer& layer) {
  if (!layer.dispatch_format && !layer.combine_format) return errors.worst() <= lossless_tolerance(layer.dtype);
  constexpr double kShareOff = 0.25, kWidth = 16, kRowsOff = 2, kFar = 0.1, kFarOfZfp = 0.3, kFarOfParts = 0.5;
  const bool zfp = layer.dispatch_format == WireFormat::Zfp || layer.combine_format == WireFormat::Zfp;
  const bool codes_parts = layer.combine_format && layer.esp > 1;
  if (!(errors.worst() <= (codes_parts ? kFarOfParts : zfp ? kFarOfZfp : kFar))) return false;
  return codes_parts || size_of(layer.dtype) == 2 || errors.rows_off * static_cast<double>(errors.rows) <= kRowsOff ||
         errors.rows_off <= 1 - std::pow(1 - kShareOff, static_cast<double>(layer.shape.hidden_size) / kWidth);
}

LayerValues::LayerValues(const Program& program, SyntheticLayer layer, Interpreter& interpreter)
    : program_(program),
      layer_(std::move(layer)),
      interpreter_(interpreter),
      shard_(interpreter.rank().value() % layer_.esp) {}

bool LayerValues::has(const std::string& buffer) const {
  return std::any_of(program_.buffers.begin(), program_.buffers.end(),
                     [&](const Buffer& b) { return b.name == buffer; });
}

bool LayerValues::is_home(std::int64_t expert) const {
  const RoutingTable& table = program_.routings.front();
  if (table.slots.empty()) return true;
  const ExpertRange held = local_experts(program_, RoutingId(0), interpreter_.rank());
  for (std::int64_t s = held.first; s < held.last; ++s) {
    const auto& slot = table.slots[to_index(s)];
    if (slot && slot->is_home && slot->expert.value() == expert) return true;
  }
  return false;
}

/// The columns of the rank's shard; for a gated expert, of both halves.
std::vector<double> LayerValues::shard_of_up(std::span<const double> row) const {
  const std::size_t parts = layer_.shape.gated ? 2 : 1, half = row.size() / parts, own = half / to_index(layer_.esp);
  std::vector<double> out;
  for (std::size_t p = 0; p < parts; ++p) {
    const auto first = row.begin() + static_cast<std::ptrdiff_t>(p * half + to_index(shard_) * own);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(own));
  }
  return out;
}

void LayerValues::fill() {
  for (std::size_t b = 0; b < program_.buffers.size(); ++b) interpreter_.clear(BufferId(b));
  std::map<std::int64_t, Matrix> tokens;
  const auto tokens_of = [&](std::int64_t source) -> const Matrix& {
    auto it = tokens.find(source);
    if (it == tokens.end()) {
      it = tokens.emplace(source, made_tokens(layer_.shape, layer_.asked, source_id(source), layer_.dtype, layer_.seed))
               .first;
    }
    return it->second;
  };
  std::map<std::int64_t, Matrix> gradients;
  for (const std::string name : {"ffn.in", "d.moe.out"}) {
    if (!has(name)) continue;
    const BufferId buffer = interpreter_.buffer(name);
    for (const Slot& slot : interpreter_.layout().slots(buffer)) {
      const Matrix& in = tokens_of(slot.key.source);
      if (name == "ffn.in") {
        interpreter_.write(buffer, slot, in.row(slot.key.ordinal));
        continue;
      }
      auto [it, is_new] = gradients.try_emplace(slot.key.source);
      if (is_new)
        it->second = made_gradient(layer_.shape, in.rows, source_id(slot.key.source), layer_.dtype, layer_.seed);
      interpreter_.write(buffer, slot, it->second.row(slot.key.ordinal));
    }
  }
  fill_weights();
}

void LayerValues::fill_weights() {
  const Matrix gate = made_gate(layer_.shape, layer_.dtype, layer_.seed);
  const BufferId gate_weight = interpreter_.buffer("gate.weight");
  for (const Slot& s : interpreter_.layout().slots(gate_weight)) {
    interpreter_.write(gate_weight, s, gate.row(s.key.ordinal));
  }
  const BufferId up = interpreter_.buffer("expert.w_up"), down = interpreter_.buffer("expert.w_down");
  std::vector<double> row(to_index(layer_.shape.up_columns()));
  for (const Slot& s : interpreter_.layout().slots(up)) {
    if (!is_home(s.key.expert)) continue;
    make_up_row(layer_.shape, s.key.expert, s.key.ordinal, layer_.dtype, layer_.seed, row);
    interpreter_.write(up, s, shard_of_up(row));
  }
  row.resize(to_index(layer_.shape.hidden_size));
  const std::int64_t rows = layer_.shape.ffn_size / layer_.esp;
  for (const Slot& s : interpreter_.layout().slots(down)) {
    if (!is_home(s.key.expert)) continue;
    make_down_row(layer_.shape, s.key.expert, shard_ * rows + s.key.ordinal, layer_.dtype, layer_.seed, row);
    interpreter_.write(down, s, row);
  }
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
  const bool trains = has("d.moe.out");
  LayerReference reference(layer_, wire(), most_flops);
  std::optional<GradientShares> shares;
  if (trains && reference.is_whole()) shares = gradient_shares(program_, interpreter_, layer_.kept);
  for (std::int64_t s = 0; s < std::ssize(layer_.kept); ++s) {
    const auto& slots = interpreter_.layout().slots(interpreter_.buffer("moe.out"));
    const bool has_tokens =
        std::any_of(slots.begin(), slots.end(), [&](const Slot& slot) { return slot.key.source == s; });
    if (has_tokens || (shares && shares->has(s))) reference.add(s, trains, shares);
  }
  ValueErrors out;
  out.has_weights = shares.has_value();
  std::int64_t off = 0;
  const auto rows = [&](const std::string& name, bool backward) {
    Comparison c;
    const BufferId buffer = interpreter_.buffer(name);
    for (const Slot& s : interpreter_.layout().slots(buffer)) {
      const std::span<const double> expected = reference.row(s.key, backward);
      if (!expected.empty()) c.add(interpreter_.read(buffer, s), expected);
    }
    off += c.off(lossless_tolerance(layer_.dtype));
    out.rows += c.rows();
    return c.worst();
  };
  out.output = rows("moe.out", false);
  if (trains) out.gradient = rows("d.ffn.in", true);
  out.rows_off = out.rows > 0 ? static_cast<double>(off) / static_cast<double>(out.rows) : 0;
  if (shares) out.weight_gradient = weight_errors(reference.weight_gradients());
  return out;
}

double LayerValues::weight_errors(const MoeWeights& expected) {
  Comparison gate, up, down;
  const auto compare = [&](const std::string& name, Comparison& c, const auto& row) {
    const BufferId buffer = interpreter_.buffer(name);
    for (const Slot& s : interpreter_.layout().slots(buffer)) {
      if (s.key.expert < 0 || is_home(s.key.expert)) c.add(interpreter_.read(buffer, s), row(s.key));
    }
  };
  const std::int64_t rows = layer_.shape.ffn_size / layer_.esp;
  compare("d.gate.weight", gate, [&](const RowKey& k) { return expected.gate.row(k.ordinal); });
  compare("d.expert.w_up", up,
          [&](const RowKey& k) { return shard_of_up(expected.up[to_index(k.expert)].row(k.ordinal)); });
  compare("d.expert.w_down", down,
          [&](const RowKey& k) { return expected.down[to_index(k.expert)].row(shard_ * rows + k.ordinal); });
  return std::max({gate.worst(), up.worst(), down.worst()});
}

}  // namespace moeplan::runtime
