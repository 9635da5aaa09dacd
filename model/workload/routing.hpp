// Token counts of a routing: how many tokens each source rank sends to each expert. Fixed before lowering, so that the
// simulator and the executors use the same counts.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// The shape of the expert loads. MODELS section 11; shapes follow Megatron-LM PR 7488.
enum class RoutingShape { Uniform, Zipf, Lognormal, Balanced, HotExpert, HotRank, Spread, Ragged, ZeroLoad };

inline constexpr std::array<std::pair<RoutingShape, std::string_view>, 9> kRoutingShapeNames{
    {{RoutingShape::Uniform, "uniform"},
     {RoutingShape::Zipf, "zipf"},
     {RoutingShape::Lognormal, "lognormal"},
     {RoutingShape::Balanced, "balanced"},
     {RoutingShape::HotExpert, "hot_expert"},
     {RoutingShape::HotRank, "hot_rank"},
     {RoutingShape::Spread, "spread"},
     {RoutingShape::Ragged, "ragged"},
     {RoutingShape::ZeroLoad, "zero_load"}}};

/// A stage of training, or a way of balancing in it, of which loads were measured.
enum class RoutingStage { FirstIteration, AuxiliaryLoss, LossFree };

inline constexpr std::array<std::pair<RoutingStage, std::string_view>, 3> kRoutingStageNames{
    {{RoutingStage::FirstIteration, "first_iteration"},
     {RoutingStage::AuxiliaryLoss, "auxiliary_loss"},
     {RoutingStage::LossFree, "loss_free"}}};

/// The standard deviation of the logarithm of the experts' loads: in the trace of SmartMoE's artefact (32 experts, top
/// 2), iteration 1, mean of 24 layers; and the one by which the most loaded of 64 experts has 1.52 and 1.04 times the
/// mean on the average, which a model of 3 billion parameters had with a loss term and with biases [Wang et al., arXiv
/// 2408.15664, table 2, MaxVio_global].
[[nodiscard]] constexpr double lognormal_sigma_of(RoutingStage stage) {
  switch (stage) {
    case RoutingStage::FirstIteration: return 0.20;
    case RoutingStage::AuxiliaryLoss: return 0.19;
    case RoutingStage::LossFree: return 0.017;
  }
  return 0;
}

inline constexpr double kWidestSigma = 10;  // of lognormal loads

struct RoutingScenario {
  RoutingShape shape = RoutingShape::Uniform;
  double zipf_exponent = 1.0;    // zipf: popularity of the i-th expert ~ (i + 1)^-s, experts in seeded random order
  double lognormal_sigma = 0.5;  // lognormal: popularity ~ exp(sigma N(0, 1))
  std::optional<double> max_load = {};  // lognormal: with the sigma by which the most popular expert has so many means
  double hot_fraction = 0.125;          // fraction of the experts that is hot or, for zero_load, has no tokens
  double hot_factor = 4.0;              // load of a hot expert over that of a cold one
  double ragged_spread = 0.5;  // ragged: maximum relative deviation of a source's tokens (the sum is preserved)
  bool sampled = false;        // each selection is drawn, instead of expected counts
  std::uint64_t seed = 1;
  bool operator==(const RoutingScenario&) const = default;
};

/// Reads a scenario strictly; only `shape` is required, or `stage` in its place: lognormal with the stage's sigma.
/// Reports into the reader's diagnostics.
[[nodiscard]] RoutingScenario read_routing(MapReader routing);
[[nodiscard]] Node routing_document(const RoutingScenario& scenario);

/// The matrix counts[source rank][expert] of one layer and one microbatch: integers; the row sums are exactly the
/// sources' selections. Stored compactly: one number if all are equal, one row if all sources are equal. Copies share
/// their storage.
class RoutingCounts {
 public:
  [[nodiscard]] static RoutingCounts uniform(std::int64_t sources, std::int64_t experts, std::int64_t count);
  [[nodiscard]] static RoutingCounts by_expert(std::int64_t sources, std::vector<std::int64_t> row);
  /// Row-major sources x experts. Converted to a compact form if possible.
  [[nodiscard]] static RoutingCounts dense(std::int64_t sources, std::int64_t experts,
                                           std::vector<std::int64_t> counts);

  [[nodiscard]] std::int64_t sources() const { return sources_; }
  [[nodiscard]] std::int64_t experts() const { return experts_; }
  [[nodiscard]] bool is_uniform() const { return counts().size() == 1; }
  [[nodiscard]] bool same_for_all_sources() const { return is_uniform() || rows_ == 1; }
  [[nodiscard]] std::int64_t at(RankId source, ExpertId expert) const {
    if (is_uniform()) return counts()[0];
    const std::size_t row = rows_ == 1 ? 0 : source.index();
    return counts()[row * static_cast<std::size_t>(experts_) + expert.index()];
  }
  /// Number of tokens of `experts` experts, from `expert` on, over `sources` sources, from `source` on, in a time that
  /// depends on neither number. Sources must differ.
  [[nodiscard]] std::int64_t sum(RankId source, std::int64_t sources, ExpertId expert, std::int64_t experts) const {
    const auto columns = static_cast<std::size_t>(experts_) + 1;
    const std::size_t first = source.index() * columns + expert.index();
    const std::size_t last = first + static_cast<std::size_t>(sources) * columns;
    const auto width = static_cast<std::size_t>(experts);
    const std::vector<std::int64_t>& before = table_->before;
    return before[last + width] - before[last] - before[first + width] + before[first];
  }
  /// Number of tokens of each expert, over all sources.
  [[nodiscard]] std::vector<std::int64_t> expert_load() const;
  /// The same counts without the sources from `sources` on.
  [[nodiscard]] RoutingCounts of_first(std::int64_t sources) const;
  bool operator==(const RoutingCounts& other) const;

 private:
  struct Table {
    std::vector<std::int64_t> counts;  // one, one row, or a row for each source (and for others that are not used)
    std::vector<std::int64_t> before;  // if sources differ: the sum over all sources and experts before these
  };
  [[nodiscard]] static std::shared_ptr<const Table> table(std::vector<std::int64_t> counts);
  [[nodiscard]] const std::vector<std::int64_t>& counts() const { return table_->counts; }
  /// How many of the stored counts are used.
  [[nodiscard]] std::size_t used() const { return is_uniform() ? 1 : static_cast<std::size_t>(rows_ * experts_); }

  std::int64_t sources_ = 0;
  std::int64_t experts_ = 0;
  std::int64_t rows_ = 1;
  std::shared_ptr<const Table> table_ = table({});
};

/// The scenario's counts for `sources` ranks with `tokens` tokens each that select `top_k` <= `experts` experts.
///
/// Expected values are rounded to integers by largest remainder (ties: lowest expert; `uniform`: experts at equal
/// intervals, so that the loads of the experts' holders are equally even), the same for every source; `balanced` deals
/// the remainders to the sources in turn. Sampled: every selection is drawn independently, every source from its own
/// random stream. A token selects an expert at most once, so a count never exceeds the source's tokens; the excess goes
/// to the most popular expert with room. `ragged`: random pairs of sources, of which one has as many extra tokens as
/// the other lacks. At least one expert or rank is hot; at least one is without load, provided that top_k others
/// remain. `experts_per_rank` determines the experts of hot_rank; `spread` has as many hot experts, as far apart as
/// possible. Raises nothing; deterministic, up to the last bit of pow and exp.
[[nodiscard]] RoutingCounts make_routing(const RoutingScenario& scenario, std::int64_t sources, std::int64_t experts,
                                         std::int64_t tokens, std::int64_t top_k, std::int64_t experts_per_rank);

/// The two steps of make_routing, for popularities that change over time (make_routing_trace.hpp): the popularity of
/// each expert (only ratios matter; at least top_k are positive), and the counts that follow from it.
[[nodiscard]] std::vector<double> routing_popularities(const RoutingScenario& scenario, std::int64_t experts,
                                                       std::int64_t top_k, std::int64_t experts_per_rank);
[[nodiscard]] RoutingCounts routing_by_popularity(const RoutingScenario& scenario, std::vector<double> popularity,
                                                  std::int64_t sources, std::int64_t tokens, std::int64_t top_k);

}  // namespace moeplan
