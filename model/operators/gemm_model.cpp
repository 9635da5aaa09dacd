#include "model/operators/gemm_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace moeplan {

namespace {

// Numbers that all GPUs and formats share (docs/operators.md, "Shared numbers").
constexpr double kWholeWaves = 0.13;        // 0: tiles fill the last wave evenly (persistent kernels), 1: whole waves
constexpr double kResidentBytes = 18e6;     // operands of this size are half resident
constexpr double kFreeProductFlops = 3e11;  // products up to this size run before power limits the clock
constexpr double kTileArea = 128.0 * 256;
constexpr double kStep = 64;  // values of k in one step
constexpr std::int64_t kMostSplits = 16;
constexpr double kLeastSplit = 128;    // values of k in a split
constexpr double kPartialBytes = 8;    // of a partial sum: fp32, written and read
constexpr double kQuantisedBytes = 3;  // read in 16 bits, written in 8
// Large tiles, which are usually the best, first: they rule out most others by their bounds.
constexpr std::array<double, 3> kTileRows{256, 128, 64};
constexpr std::array<double, 5> kTileColumns{256, 128, 64, 32, 16};

/// Equal products with the same B, their rows and columns as doubles.
class BestTile {
 public:
  BestTile(const GemmModel& model, double num_sms, const GemmShape& shape, const GemmCall& call, double batch = 1)
      : model_(model),
        slowdown_(call.slowdown * (call.phase == GemmPhase::Wgrad ? model.wgrad : 1)),
        sms_(num_sms),
        m_(static_cast<double>(shape.m)),
        n_(static_cast<double>(shape.n)),
        k_(static_cast<double>(shape.k)),
        batch_(batch) {
    const double flops = 2 * batch_ * m_ * n_ * k_;
    const double slowdown = flops > kFreeProductFlops ? std::pow(flops / kFreeProductFlops, model.power) : 1;
    sm_rate_ = model.math.value() / sms_ / slowdown;
    sm_l2_ = model.l2.value() / sms_;
    element_ = operand_bytes(model.format);
    const double operands = element_ * (batch_ * m_ * k_ + n_ * k_);
    const double fill = operands / kResidentBytes;
    const double gain = 1 + model.residency / (1 + fill * fill * fill * fill);
    read_ = operands / (model.read.value() * gain);
    write_ = call.phase == GemmPhase::Wgrad
                 ? kAccumulatedBytes * batch_ * m_ * n_ / model.accumulate.value_or(model.write).value()
                 : kResultBytes * batch_ * m_ * n_ / model.write.value();
  }

  GemmCost best() {
    for (const double rows : kTileRows) {
      for (const double columns : kTileColumns) {
        consider(rows, columns);
        if (rows != columns) consider(columns, rows);
      }
    }
    return best_;
  }

 private:
  void consider(double rows, double columns) {
    const double tiles = batch_ * std::ceil(m_ / rows) * std::ceil(n_ / columns);
    for (std::int64_t s = 1; s <= (model_.split ? kMostSplits : 1); s *= 2) {
      const auto splits = static_cast<double>(s);
      if (s > 1 && (tiles * splits > 2 * sms_ || k_ / splits < kLeastSplit)) return;
      keep(rows, columns, tiles, s);
    }
  }

  void keep(double rows, double columns, double tiles, std::int64_t s) {
    const auto splits = static_cast<double>(s);
    const double filled = tiles * splits / sms_;
    const double extra = s > 1 ? model_.split->value() : 0;
    const double steps = std::ceil(k_ / splits / kStep);
    const double k = steps * kStep;
    const double tile = std::max(2 * rows * columns * k / sm_rate_, element_ * (rows + columns) * k / sm_l2_);
    const double start = model_.tile_start.value() * rows * columns / kTileArea;
    const double wave = slowdown_ * (tile + steps * model_.k_step.value() + start);
    if (wave * std::max(1.0, filled) + extra >= least_) return;  // no fewer waves than that
    const double waves = filled <= 1 ? 1 : filled * std::pow(std::ceil(filled) / filled, kWholeWaves);
    const double math = waves * wave;
    const double partial = s > 1 ? kPartialBytes * splits * batch_ * m_ * n_ / model_.write.value() : 0;
    const double memory = (read_ + write_ + partial) / std::min(1.0, filled);
    const double most = std::max(math, memory), least = std::min(math, memory);
    if (most + extra >= least_) return;  // overlap cannot help
    const double ratio = least / most;
    const double overlapped = most * std::cbrt(1 + ratio * ratio * ratio);
    if (overlapped + extra >= least_) return;
    least_ = overlapped + extra;
    best_.math = Seconds(math);
    best_.memory = Seconds(memory);
    best_.overlapped = Seconds(overlapped);
    best_.extra = Seconds(extra);
    best_.tile_rows = static_cast<std::int64_t>(rows);
    best_.tile_columns = static_cast<std::int64_t>(columns);
    best_.splits = s;
  }

  const GemmModel& model_;
  double slowdown_, sms_, m_, n_, k_, batch_;
  double sm_rate_ = 0, sm_l2_ = 0, element_ = 0, read_ = 0, write_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  GemmCost best_{};
};

}  // namespace

std::string_view GemmCost::bound() const {
  const Seconds longest = std::max({launch + extra, quantisation, math, memory});
  if (longest == launch + extra) return "launch";
  if (longest == quantisation) return "quantisation";
  return longest == math ? "math" : "memory";
}

namespace {

/// The tiles found before: a search prices the same products again and again. By the values of all arguments, so that
/// it is the same function.
class KnownTiles {
 public:
  const GemmCost& best(const GemmModel& model, std::int64_t num_sms, const GemmShape& shape, const GemmCall& call) {
    const std::int32_t number = number_of(model);
    Entry& entry = entries_[place(shape, call)];
    if (!(entry.shape == shape && entry.call == call && entry.num_sms == num_sms && entry.model == number))
      entry = {number, num_sms, shape, call, BestTile(model, static_cast<double>(num_sms), shape, call).best()};
    return entry.cost;
  }

 private:
  struct Entry {
    std::int32_t model = -1;
    std::int64_t num_sms = 0;
    GemmShape shape{};
    GemmCall call{};
    GemmCost cost{};
  };
  static constexpr std::size_t kEntries = 32768;

  static constexpr std::size_t kMostModels = 64;  // then all is forgotten, as in long sweeps

  /// The index among the models seen so far, of which the last one is the likeliest.
  std::int32_t number_of(const GemmModel& model) {
    if (last_ < models_.size() && models_[last_] == model) return static_cast<std::int32_t>(last_);
    last_ = static_cast<std::size_t>(std::find(models_.begin(), models_.end(), model) - models_.begin());
    if (last_ == kMostModels) {
      last_ = 0;
      models_.clear();
      entries_.assign(kEntries, {});
    }
    if (last_ == models_.size()) models_.push_back(model);
    return static_cast<std::int32_t>(last_);
  }

  static std::size_t place(const GemmShape& shape, const GemmCall& call) {
    std::uint64_t hash = static_cast<std::uint64_t>(call.phase);
    for (const std::int64_t n : {shape.m, shape.n, shape.k})
      hash = (hash ^ static_cast<std::uint64_t>(n)) * 0x9E3779B97F4A7C15ULL;
    return static_cast<std::size_t>(hash >> 40) % kEntries;
  }

  std::vector<Entry> entries_ = std::vector<Entry>(kEntries);
  std::vector<GemmModel> models_;
  std::size_t last_ = 0;
};

/// The cost of the best tiles with the kernels before them.
GemmCost with_launches(GemmCost cost, const GemmModel& model, const GemmShape& shape, const GemmCall& call,
                       double batch) {
  cost.launch = model.launch;
  if (call.quantises && model.quantise > BytesPerSecond(0)) {
    const double values = batch * static_cast<double>(shape.m) * static_cast<double>(shape.k);
    cost.launch += model.launch;
    cost.quantisation = Bytes(kQuantisedBytes * values) / model.quantise;
  }
  if (shape.m > 1 && shape.m % 4 != 0 && shape.k > 128) cost.extra += model.scale_padding;
  return cost;
}

}  // namespace

GemmCost gemm_cost(const GemmModel& model, std::int64_t num_sms, const GemmShape& shape, const GemmCall& call) {
  thread_local KnownTiles tiles;
  return with_launches(tiles.best(model, num_sms, shape, call), model, shape, call, 1);
}

GemmCost batched_gemm_cost(const GemmModel& model, std::int64_t num_sms, const GemmShape& shape, std::int64_t batch,
                           const GemmCall& call) {
  const auto products = static_cast<double>(batch);
  return with_launches(BestTile(model, static_cast<double>(num_sms), shape, call, products).best(), model, shape, call,
                       products);
}

GemmModel read_gemm_model(MapReader entry) {
  GemmModel m{.format = entry.choice("format", Names<MathFormat>(kMathFormatNames)),
              .library = entry.text("library"),
              .launch = entry.quantity<Seconds>("launch"),
              .math = entry.quantity<FlopsPerSecond>("math"),
              .power = entry.number_or("power", 0, 0, 1),
              .read = entry.quantity<BytesPerSecond>("read"),
              .write = entry.quantity<BytesPerSecond>("write"),
              .accumulate = {},
              .l2 = entry.quantity<BytesPerSecond>("l2"),
              .residency = entry.number_or("residency", 0, 0, 100),
              .tile_start = entry.quantity<Seconds>("tile_start", Sign::NonNegative),
              .k_step = entry.quantity<Seconds>("k_step", Sign::NonNegative),
              .split = {},
              .quantise = entry.quantity_or<BytesPerSecond>("quantise", BytesPerSecond(0)),
              .scale_padding = entry.quantity_or<Seconds>("scale_padding", Seconds(0)),
              .wgrad = entry.number_or("wgrad", 1, 0.1, 10)};
  if (entry.has("accumulate")) m.accumulate = entry.quantity<BytesPerSecond>("accumulate");
  if (entry.has("split")) m.split = entry.quantity<Seconds>("split", Sign::NonNegative);
  entry.finish();
  return m;
}

}  // namespace moeplan
