#include "model/operators/grouped_gemm_model.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace moeplan {

namespace {

// Numbers that all GPUs and formats share (docs/operators.md, "Shared numbers").
constexpr double kOverlap = 2.2;            // the norm of math and memory
constexpr double kGroupedWholeWaves = 0.3;  // 0: tiles fill the last wave evenly (persistent kernels), 1: whole waves
constexpr double kDraw = 4;                 // a tile on a quarter of the SMs draws the whole HBM bandwidth
constexpr double kSmallTiles = 0.1;  // exponent: tiles below 128 x 256 reach (area / (128 x 256))^0.1 of the rate
constexpr double kGroupedFreeFlops = 3e11;  // calls up to this size run before power limits the clock
constexpr double kGroupedTileArea = 128.0 * 256;
constexpr double kStepBytes = 128;   // of a row or column of the operands, in one step of k
constexpr double kVectorBytes = 16;  // of one load
constexpr std::array<double, 5> kGroupedTileRows{16, 32, 64, 128, 256};
constexpr std::array<double, 2> kGroupedTileColumns{128, 256};

/// The products of one call: what they move, and for each height of tiles how many there are and how many steps of k
/// they take.
class Products {
 public:
  explicit Products(double element) : element_(element) {}

  void add(double m, double n, double k, double experts) {
    if (m <= 0 || k <= 0 || experts <= 0) return;
    n_ = n;
    const double steps = std::ceil(k * element_ / kStepBytes);
    for (std::size_t i = 0; i < kGroupedTileRows.size(); ++i) {
      const double tiles = experts * std::ceil(m / kGroupedTileRows[i]);
      row_tiles_[i] += tiles;
      row_steps_[i] += tiles * steps;
    }
    operands_ += experts * (m + n) * k;
    results_ += experts * m * n;
    flops_ += 2 * experts * m * n * k;
    is_aligned_ = is_aligned_ && std::fmod(k * element_, kVectorBytes) == 0;
  }

  [[nodiscard]] bool empty() const { return flops_ == 0; }
  [[nodiscard]] bool is_aligned() const { return is_aligned_; }
  [[nodiscard]] double n() const { return n_; }
  [[nodiscard]] double flops() const { return flops_; }
  [[nodiscard]] double bytes(double result) const { return element_ * operands_ + result * results_; }
  [[nodiscard]] double row_tiles(std::size_t i) const { return row_tiles_[i]; }
  [[nodiscard]] double mean_steps(std::size_t i) const { return row_steps_[i] / row_tiles_[i]; }

 private:
  double element_, n_ = 0, operands_ = 0, results_ = 0, flops_ = 0;
  bool is_aligned_ = true;
  std::array<double, kGroupedTileRows.size()> row_tiles_{}, row_steps_{};
};

class BestGroupedTile {
 public:
  BestGroupedTile(const GroupedGemmModel& model, double num_sms, const Products& products, const GemmCall& call)
      : model_(model), products_(products), sms_(num_sms), element_(operand_bytes(model.format)) {
    const bool is_wgrad = call.phase == GemmPhase::Wgrad;
    const double flops = products.flops();
    slowdown_ = call.slowdown * (is_wgrad ? model.wgrad : 1);
    if (flops > kGroupedFreeFlops) slowdown_ *= std::pow(flops / kGroupedFreeFlops, model.power);
    memory_ = products.bytes(is_wgrad ? kAccumulatedBytes : kResultBytes) / model.memory.value();
  }

  GroupedGemmCost best() {
    if (products_.empty()) return best_;
    for (std::size_t i = 0; i < kGroupedTileRows.size() && kGroupedTileRows[i] <= static_cast<double>(model_.most_rows);
         ++i) {
      for (const double columns : kGroupedTileColumns) {
        if (kGroupedTileRows[i] * columns > kGroupedTileArea && !model_.pairs_sms) continue;
        keep(i, columns);
      }
    }
    best_.launch = model_.launch;
    if (!products_.is_aligned()) best_.overlapped *= model_.unaligned;
    return best_;
  }

 private:
  void keep(std::size_t i, double columns) {
    const double rows = kGroupedTileRows[i], area = rows * columns / kGroupedTileArea;
    const double tiles = products_.row_tiles(i) * std::ceil(products_.n() / columns);
    const double steps = products_.mean_steps(i), k = steps * kStepBytes / element_;
    const double rate = model_.math.value() / sms_ * (area < 1 ? std::pow(area, kSmallTiles) : 1);
    const double fill = element_ * (rows + columns) * k / (model_.l2.value() / sms_);
    const double loop = slowdown_ * std::max({2 * rows * columns * k / rate, fill, steps * model_.k_step.value()});
    const double each = loop + model_.tile_start.value() * area + model_.tile.value();
    const double filled = tiles / sms_;
    const double memory = memory_ / std::min(1.0, kDraw * filled);
    if (std::max(std::max(filled, 1.0) * each, memory) >= least_) return;  // neither waves nor overlap can help
    const double waves =
        filled <= 1 ? 1 : std::pow(std::ceil(filled), kGroupedWholeWaves) * std::pow(filled, 1 - kGroupedWholeWaves);
    const double math = waves * each;
    const double most = std::max(math, memory), least = std::min(math, memory);
    const double time = most * std::pow(1 + std::pow(least / most, kOverlap), 1 / kOverlap);
    if (time >= least_) return;
    least_ = time;
    best_ = {.launch = {},
             .math = Seconds(math),
             .memory = Seconds(memory),
             .overlapped = Seconds(time),
             .tile_rows = static_cast<std::int64_t>(rows),
             .tile_columns = static_cast<std::int64_t>(columns)};
  }

  const GroupedGemmModel& model_;
  const Products& products_;
  double sms_, element_, slowdown_ = 1, memory_ = 0;
  double least_ = std::numeric_limits<double>::infinity();
  GroupedGemmCost best_{};
};

}  // namespace

std::string_view GroupedGemmCost::bound() const {
  const Seconds longest = std::max({launch, math, memory});
  if (longest == launch) return "launch";
  return longest == math ? "math" : "memory";
}

GroupedGemmCost grouped_gemm_cost(const GroupedGemmModel& model, std::int64_t num_sms,
                                  std::span<const ExpertLoad> loads, std::int64_t n, std::int64_t k,
                                  const GemmCall& call) {
  Products products(operand_bytes(model.format));
  const auto columns = static_cast<double>(n), terms = static_cast<double>(k);
  for (const ExpertLoad& load : loads) {
    if (call.phase == GemmPhase::Wgrad) {
      products.add(terms, columns, load.rows, load.experts);
    } else {
      products.add(load.rows, columns, terms, load.experts);
    }
  }
  return BestGroupedTile(model, static_cast<double>(num_sms), products, call).best();
}

GroupedGemmCost grouped_gemm_cost(const GroupedGemmModel& model, std::int64_t num_sms,
                                  std::span<const GemmShape> products, const GemmCall& call) {
  Products all(operand_bytes(model.format));
  for (const GemmShape& s : products) {
    all.add(static_cast<double>(s.m), static_cast<double>(s.n), static_cast<double>(s.k), 1);
  }
  return BestGroupedTile(model, static_cast<double>(num_sms), all, call).best();
}

GroupedGemmModel read_grouped_gemm_model(MapReader entry) {
  GroupedGemmModel m{.format = entry.choice("format", Names<MathFormat>(kMathFormatNames)),
                     .library = entry.text("library"),
                     .pairs_sms = entry.boolean_or("pairs_sms", false),
                     .most_rows = entry.integer_or("most_rows", 256, 16, 256),
                     .launch = entry.quantity_or<Seconds>("launch", Seconds(0)),
                     .math = entry.quantity<FlopsPerSecond>("math"),
                     .power = entry.number_or("power", 0, 0, 1),
                     .memory = entry.quantity<BytesPerSecond>("memory"),
                     .l2 = entry.quantity<BytesPerSecond>("l2"),
                     .tile_start = entry.quantity<Seconds>("tile_start", Sign::NonNegative),
                     .tile = entry.quantity<Seconds>("tile", Sign::NonNegative),
                     .k_step = entry.quantity<Seconds>("k_step", Sign::NonNegative),
                     .wgrad = entry.number_or("wgrad", 1, 0.1, 10),
                     .unaligned = entry.number_or("unaligned", 1, 1, 1000),
                     .fits_all = entry.boolean_or("fits_all", false)};
  entry.finish();
  return m;
}

}  // namespace moeplan
