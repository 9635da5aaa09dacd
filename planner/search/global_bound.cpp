#include "planner/search/global_bound.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "model/base/in_parallel.hpp"
#include "model/costs/codec.hpp"
#include "planner/evaluation/common_work.hpp"
#include "planner/evaluation/least_exchange.hpp"
#include "planner/evaluation/long_pipeline.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/search/rounds.hpp"

namespace moeplan::planner {

namespace {

class LeastBound {
 public:
  explicit LeastBound(Ranking& ranking)
      : problem_(ranking.problem()),
        space_(ranking.space()),
        common_work_(ranking.common_work()),
        has_one_kind_(problem_.layer_kinds() < 2),
        is_cut_(ranking.result().is_cut),
        threads_(ranking.threads()) {}

  Seconds of(const Ranking& ranking) {
    const std::vector<Evaluated>& ranked = ranking.ranked();
    const std::vector<Deferred>& deferred = ranking.deferred();
    const std::vector<LeftOut>& left_out = ranking.left_out();
    Seconds least = ranking.least_unpriced();
    for (const Evaluated& e : ranked) least = std::min(least, e.estimate.lower_bound);
    for (const Deferred& u : deferred) least = std::min(least, u.bound);

    // The bounds by which candidates are sorted are weaker than what follows, but known at once.
    std::vector<Seconds> of_left_out, of_deferred, of_ranked;
    for (const LeftOut& l : left_out) of_left_out.push_back(l.bound);
    if (!has_one_kind_ || !space_.all_to_all || !space_.pipeline_degree || !space_.codec) {
      for (const Deferred& d : deferred) of_deferred.push_back(common_work_.bound(d.evaluated.candidate));
      for (const Evaluated& e : ranked)
        of_ranked.push_back(e.candidate.degrees.ep > 1 ? common_work_.bound(e.candidate) : kNone);
    }
    if (is_cut_) return std::min({least, least_of(of_left_out), least_of(of_deferred), least_of(of_ranked)});

    lower(least, of_deferred, [&](std::size_t i) { return with_any_exchange(deferred[i].evaluated.candidate); });
    lower(least, of_ranked, [&](std::size_t i) {
      const Evaluated& e = ranked[i];
      const Candidate least_exchange = with_least_exchange(e.candidate);
      const Seconds bound = common_work_of(least_exchange).estimated(problem_.stage_clusters()).lower_bound;
      return has_one_kind_ && bound < least ? std::max(bound, least_links(e.candidate, e.estimate.links)) : bound;
    });
    lower(least, of_left_out, [&](std::size_t i) {
      Seconds bound = kNone;
      for (const Candidate& c : ranking.fitting(left_out[i].candidate)) {
        Seconds of_variant = with_any_exchange(c);
        if (has_one_kind_ && of_variant < least) of_variant = std::max(of_variant, least_links(c));
        bound = std::min(bound, of_variant);
      }
      return bound;
    });
    return least;
  }

 private:
  static constexpr Seconds kNone = Seconds(std::numeric_limits<double>::infinity());

  static Seconds least_of(const std::vector<Seconds>& all) {
    return all.empty() ? kNone : *std::min_element(all.begin(), all.end());
  }

  /// A bound from one rank of each stage.
  [[nodiscard]] Seconds with_any_exchange(const Candidate& c) const {
    const Candidate least_exchange = with_least_exchange(c);
    return common_work_of(least_exchange).bounded_by_first_rank(problem_.stage_clusters());
  }

  /// Lowers `least` to the least of the bounds, each the larger of `known[i]` and `bound(i)`, which is found only where
  /// it may matter.
  template <class Bound>
  void lower(Seconds& least, const std::vector<Seconds>& known, const Bound& bound) const {
    in_rounds(
        by_bound(known), kAllItems, [&](std::size_t i) { return known[i] >= least; },
        [&](std::span<const std::size_t> items) {
          std::vector<Seconds> bounds(items.size());
          in_parallel(items.size(), threads_,
                      [&](std::size_t k) { bounds[k] = std::max(known[items[k]], bound(items[k])); });
          least = std::min(least, *std::min_element(bounds.begin(), bounds.end()));
        });
  }

  /// The work that is common to all strategies for the MoE layers of the candidate, which must outlive the result.
  [[nodiscard]] Iteration common_work_of(const Candidate& c) const {
    return {problem_.model(), problem_.workload(), c, problem_.ranks_per_node(),
            [&](Program program) { return without_exchange(std::move(program), problem_.workload()); }};
  }

  /// The least time of the busiest link over all all-to-alls and codecs that the candidate may have; `own` is the time
  /// with its own ones, if known. Zero if none is known, or ranks differ and are too many.
  Seconds least_links(Candidate c, std::optional<Seconds> own = {}) {
    const EvaluationOptions options{.checks = Checks::AllButMemory,
                                    .asymmetric_rank_threshold = space_.asymmetric_rank_threshold};
    Seconds least = own.value_or(kNone);
    const bool is_direct = own && c.all_to_all->is_direct();
    const CodecPair own_codec = c.codec;
    for (const CodecPair& codec : codec_pairs(problem_.workload())) {
      bool has_direct = is_direct && codec == own_codec;  // all have equal link loads
      for (const AllToAll* all_to_all : searched_all_to_alls()) {
        if (!may_send_least(codec, *all_to_all)) continue;
        if (all_to_all->is_direct() && std::exchange(has_direct, true)) continue;
        c.all_to_all = *all_to_all;
        c.codec = codec;
        const Evaluation e = evaluate(problem_, c, Depth::Extrapolation, options);
        if (e.infeasibility) continue;
        if (e.bound) return {};
        least = std::min(least, e.evaluated.estimate.links);
      }
    }
    return least < kNone ? least : Seconds();
  }

  /// Whether this pair may minimise the bytes sent: the same codec for dispatch and combine or, if combine sums rows in
  /// transit, none for combine.
  bool may_send_least(const CodecPair& codec, const AllToAll& all_to_all) const {
    if (space_.codec) return codec == *space_.codec;
    return all_to_all.deduplicates() ? !codec.combine : codec.dispatch == codec.combine;
  }

  const Problem& problem_;
  const SearchSpace& space_;
  CommonWork& common_work_;
  bool has_one_kind_;  // all MoE layers are of one kind
  bool is_cut_;
  int threads_;
};

}  // namespace

Seconds global_bound(Ranking& ranking) { return LeastBound(ranking).of(ranking); }

}  // namespace moeplan::planner
