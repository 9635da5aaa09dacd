// Who sends how many tokens to which expert. Fixed before anything is lowered, so that simulator and executors see the
// same counts.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/ids.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// MODELS section 11. Shapes after Megatron-LM PR 7488.
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

struct RoutingScenario {
  RoutingShape shape = RoutingShape::Uniform;
  double zipf_exponent = 1.0;    // zipf: popularity of the i-th expert ~ (i + 1)^-s, experts in seeded order
  double lognormal_sigma = 0.5;  // lognormal: popularity ~ exp(sigma N(0, 1))
  double hot_fraction =
      0.125;  // hot_expert, hot_rank, spread: share of the experts that is hot; zero_load: share without tokens
  double hot_factor = 4.0;     // how many times a cold expert's load a hot one has
  double ragged_spread = 0.5;  // ragged: tokens a source vary by up to this share (the sum is kept)
  bool sampled = false;        // each selection drawn, instead of the expected counts
  std::uint64_t seed = 1;
  bool operator==(const RoutingScenario&) const = default;
};

/// Strict; only `shape` is required. Reports into the reader's diagnostics.
[[nodiscard]] RoutingScenario read_routing(MapReader routing);
[[nodiscard]] Node routing_document(const RoutingScenario& scenario);

/// counts[source rank][expert] of one layer and one microbatch: whole numbers, row sums exactly the source's
/// selections. Kept compact: one number where all are equal, one row where all sources are equal.
class RoutingCounts {
 public:
  [[nodiscard]] static RoutingCounts uniform(std::int64_t sources, std::int64_t experts, std::int64_t count);
  [[nodiscard]] static RoutingCounts by_expert(std::int64_t sources, std::vector<std::int64_t> row);
  /// Row-major sources x experts. Collapses to the compact forms where it can.
  [[nodiscard]] static RoutingCounts dense(std::int64_t sources, std::int64_t experts,
                                           std::vector<std::int64_t> counts);

  [[nodiscard]] std::int64_t sources() const { return sources_; }
  [[nodiscard]] std::int64_t experts() const { return experts_; }
  [[nodiscard]] bool is_uniform() const { return counts_.size() == 1; }
  [[nodiscard]] bool same_for_all_sources() const { return is_uniform() || rows_ == 1; }
  [[nodiscard]] std::int64_t at(RankId source, ExpertId expert) const {
    if (is_uniform()) return counts_[0];
    const std::size_t row = rows_ == 1 ? 0 : source.index();
    return counts_[row * static_cast<std::size_t>(experts_) + expert.index()];
  }
  /// Tokens for each expert over all sources.
  [[nodiscard]] std::vector<std::int64_t> expert_load() const;
  bool operator==(const RoutingCounts&) const = default;

 private:
  std::int64_t sources_ = 0;
  std::int64_t experts_ = 0;
  std::int64_t rows_ = 1;
  std::vector<std::int64_t> counts_;
};

/// The scenario's counts where each of `sources` ranks has `tokens` tokens that select `top_k` <= `experts` experts
/// each. Expected values are made whole by largest remainder (ties: lowest expert; `uniform`: every so many experts, so
/// that the holders' loads are as even), the same for every source; `balanced` deals the remainders out in turn over
/// the sources. Sampled: every selection drawn on its own, every source from a stream of its own. A token selects an
/// expert at most once: a count never exceeds the source's tokens; what does not fit goes to the most popular expert
/// with room. `ragged`: random pairs of sources, of which one has as many more tokens as the other has fewer. At least
/// one expert or rank is hot, at least one (as long as top_k others remain) without load. `experts_per_rank` places
/// hot_rank's experts; `spread` has as many hot ones, as far apart as they can be. Raises nothing; deterministic, up to
/// the last bit of pow and exp.
[[nodiscard]] RoutingCounts make_routing(const RoutingScenario& scenario, std::int64_t sources, std::int64_t experts,
                                         std::int64_t tokens, std::int64_t top_k, std::int64_t experts_per_rank);

/// The two halves of make_routing, for popularities that change over time (make_routing_trace.hpp): how popular each
/// expert is (only ratios count; at least top_k are positive), and the counts that this gives.
[[nodiscard]] std::vector<double> routing_popularities(const RoutingScenario& scenario, std::int64_t experts,
                                                       std::int64_t top_k, std::int64_t experts_per_rank);
[[nodiscard]] RoutingCounts routing_by_popularity(const RoutingScenario& scenario, std::vector<double> popularity,
                                                  std::int64_t sources, std::int64_t tokens, std::int64_t top_k);

}  // namespace moeplan
