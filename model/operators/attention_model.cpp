#include "model/operators/attention_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace moeplan {

namespace {

constexpr double kTile = 128;        // queries, and keys, of a step
constexpr double kFreeFlops = 1e12;  // calls up to this size run before power limits the clock
constexpr int kMostRounds = 24;      // of blocks on one SM that are looked at one by one
constexpr double kMostParts = 16;    // into which the keys of a block are split

constexpr std::array<std::pair<AttentionPreparation, std::string_view>, 3> kPreparationNames{
    {{AttentionPreparation::None, "none"},
     {AttentionPreparation::RotaryAndCache, "rotary_and_cache"},
     {AttentionPreparation::Cache, "cache"}}};

double in_double(std::int64_t value) { return static_cast<double>(value); }

double product_dims(const AttentionShape& s) {
  const double qk = in_double(s.head_dim), v = in_double(s.v_head_dim);
  return s.is_backward ? 3 * qk + 2 * v : qk + v;
}

/// The blocks of one call. A block holds `subtiles` tiles of queries; causal tile i (from 0) has i + 1 steps, at most
/// as many as its window touches.
class Blocks {
 public:
  Blocks(const AttentionModel& model, double num_sms, const AttentionShape& shape)
      : model_(model),
        shape_(shape),
        sms_(num_sms),
        subtiles_(in_double(in_double(shape.head_dim) > kTile ? model.subtiles_wide : model.subtiles)),
        tiles_(std::ceil(in_double(shape.sequence_length) / kTile)),
        window_(shape.is_causal && shape.window > 0 ? std::ceil(in_double(shape.window) / kTile) + subtiles_ : tiles_),
        a_head_(std::ceil(tiles_ / subtiles_)),
        heads_(in_double(shape.batch * shape.query_heads)),
        step_(step()) {}

  /// Blocks run one at a time on an SM, the longest first. The end is bounded below by the even share and, for every k,
  /// by k + 1 blocks no shorter than the (k SMs + 1)-th longest, two of which must share an SM.
  [[nodiscard]] double time() const {
    double time = std::max(block_time(a_head_ - 1), a_head_ > 1 ? block_time(a_head_ - 2) : 0);
    const double longest = time, blocks = heads_ * a_head_;
    const int rounds = static_cast<int>(std::min(std::floor((blocks - 1) / sms_), in_double(kMostRounds)));
    for (int k = 1; k <= rounds; ++k) {
      const double i = a_head_ - 1 - std::floor(k * sms_ / heads_);
      if (i < 0) break;
      time = std::max(time, (k + 1) * block_time(i));
    }
    const double steps = shape_.is_causal ? steps_before(tiles_) : tiles_ * tiles_;
    const double even = heads_ * (tiles_ / subtiles_ * model_.start.value() + steps * step_) / sms_;
    time = std::max(time, even + (blocks > sms_ ? model_.tail * longest : 0));
    return std::min(time, split_time(blocks));
  }

 private:
  /// Products and softmax of 128 x 128 overlap in part: the norm between their sum and their maximum.
  [[nodiscard]] double step() const {
    const double products = 2 * kTile * kTile * product_dims(shape_) / (model_.math.value() / sms_);
    const double softmax = kTile * kTile / (model_.softmax / sms_);
    const double flops = attention_flops(shape_);
    const double slowdown = flops > kFreeFlops ? std::pow(flops / kFreeFlops, model_.power) : 1;
    return std::hypot(products, softmax) * slowdown * (in_double(shape_.head_dim) > kTile ? model_.wide : 1);
  }
  /// Steps of block i of a head, from the shortest to the longest.
  [[nodiscard]] double steps_of(double i) const {
    const double first = i * subtiles_, last = std::min((i + 1) * subtiles_, tiles_);
    return shape_.is_causal ? steps_before(last) - steps_before(first) : (last - first) * tiles_;
  }
  /// Causal: steps of the first `tiles` tiles of queries. Those of a block meet the same keys: a window touches a tile
  /// more than it has for each of them.
  [[nodiscard]] double steps_before(double tiles) const {
    const double growing = std::min(tiles, window_);
    return growing * (growing + 1) / 2 + (tiles - growing) * window_;
  }
  [[nodiscard]] double block_time(double i) const {
    const double filled = (std::min((i + 1) * subtiles_, tiles_) - i * subtiles_) / subtiles_;
    return model_.start.value() * filled + step_ * steps_of(i);
  }
  /// With the keys of a block over several idle SMs.
  [[nodiscard]] double split_time(double blocks) const {
    double best = std::numeric_limits<double>::infinity();
    if (model_.split == Seconds(0) || blocks >= sms_) return best;
    const double most = std::min(std::floor(sms_ / blocks), kMostParts);
    for (double parts = 2; parts <= most; parts *= 2) {
      const double steps = std::ceil(steps_of(a_head_ - 1) / parts);
      best = std::min(best, model_.start.value() + steps * step_ + model_.split.value());
    }
    return best;
  }

  const AttentionModel& model_;
  const AttentionShape& shape_;
  double sms_, subtiles_, tiles_, window_, a_head_, heads_, step_;
};

Bytes traffic(const AttentionModel& model, const AttentionShape& s) {
  const double tokens = in_double(s.batch * s.sequence_length);
  const double kv = in_double(s.kv_heads * (s.head_dim + s.v_head_dim));
  const double q = in_double(s.query_heads * s.head_dim), o = in_double(s.query_heads * s.v_head_dim);
  const double operand = operand_bytes(model.format) < 2 ? 1 : 2;
  // Backward: q, k, v read, their gradients written; o and its gradient read twice; dq in fp32 cleared, added,
  // converted.
  double bytes = s.is_backward ? 4 * q + 4 * kv + 4 * o + 12 * q : (q + kv) * operand + kResultBytes * o;
  if (model.preparation == AttentionPreparation::RotaryAndCache) bytes += (q + kv) * (2 + operand);
  if (model.preparation == AttentionPreparation::Cache) bytes += 4 * kv;
  return Bytes(tokens * bytes);
}

}  // namespace

double attention_flops(const AttentionShape& s) {
  const double length = in_double(s.sequence_length);
  const double window = s.window > 0 ? std::min(in_double(s.window), length) : length;
  const double pairs = s.is_causal ? length * window - window * window / 2 : length * length;
  return 2 * in_double(s.batch * s.query_heads) * pairs * product_dims(s);
}

std::string_view AttentionCost::bound() const {
  const Seconds longest = std::max({launch + tokens, blocks, memory});
  if (longest == launch + tokens) return "launch";
  return longest == blocks ? "math" : "memory";
}

AttentionCost attention_cost(const AttentionModel& model, std::int64_t num_sms, const AttentionShape& shape,
                             double slowdown) {
  return {.launch = model.launch,
          .blocks = Seconds(Blocks(model, in_double(num_sms), shape).time()) * slowdown,
          .memory = traffic(model, shape) / model.memory,
          .tokens = model.token * in_double(shape.batch * shape.sequence_length)};
}

Seconds attention_time(const AttentionModel& model, std::int64_t num_sms, const AttentionShape& shape) {
  return attention_cost(model, num_sms, shape).time();
}

Seconds attention_call_time(const AttentionModel& model, std::int64_t num_sms, const AttentionShape& shape) {
  return std::max(model.host, attention_time(model, num_sms, shape));
}

AttentionModel read_attention_model(MapReader entry) {
  AttentionModel m{
      .format = entry.choice("format", Names<MathFormat>(kMathFormatNames)),
      .library = entry.text("library"),
      .is_backward = entry.boolean_or("backward", false),
      .subtiles = entry.integer_or("subtiles", 1, 1, 16),
      .subtiles_wide = entry.integer_or("subtiles_wide", 1, 1, 16),
      .preparation =
          entry.choice_or("preparation", AttentionPreparation::None, Names<AttentionPreparation>(kPreparationNames)),
      .launch = entry.quantity<Seconds>("launch"),
      .math = entry.quantity<FlopsPerSecond>("math"),
      .softmax = entry.number("softmax", 1, 1e20),
      .start = entry.quantity<Seconds>("start"),
      .tail = entry.number("tail", 0, 10),
      .memory = entry.quantity<BytesPerSecond>("memory"),
      .token = entry.quantity_or<Seconds>("token", Seconds(0)),
      .split = entry.quantity_or<Seconds>("split", Seconds(0)),
      .wide = entry.number_or("wide", 1, 0.01, 100),
      .power = entry.number_or("power", 0, 0, 1),
      .fits_all = entry.boolean_or("fits_all", false),
      .host = entry.quantity_or<Seconds>("host", Seconds(0)),
  };
  entry.finish();
  return m;
}

}  // namespace moeplan
