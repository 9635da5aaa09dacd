// The state that the rounds of a search share: the candidates ranked so far, those whose evaluation is deferred, and
// how many were ruled out by a bound.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "planner/evaluation/common_work.hpp"
#include "planner/evaluation/evaluation.hpp"
#include "planner/search/enumeration.hpp"
#include "planner/search/search_result.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// A candidate that fits in memory and whose ranks differ: expensive to price but cheap to bound.
struct Deferred {
  Evaluated evaluated;  // without an estimate
  Seconds bound;
};

/// An enumerated pipeline that was left out since others are faster than bounds with its own exchange. It may not fit
/// in memory.
struct LeftOut {
  Candidate candidate;
  Seconds bound;  // with any exchange
};

class Ranking {
 public:
  /// The arguments must outlive this. `progress` receives (done, total) on the calling thread.
  Ranking(const Problem& problem, const SearchSpace& space, const Enumeration& enumeration,
          const std::function<void(std::int64_t, std::int64_t)>& progress);

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const SearchSpace& space() const { return space_; }
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] SearchResult& result() { return result_; }
  [[nodiscard]] const std::vector<Evaluated>& ranked() const { return result_.ranked; }
  [[nodiscard]] const std::vector<Deferred>& deferred() const { return deferred_; }
  [[nodiscard]] const std::vector<LeftOut>& left_out() const { return left_out_; }
  [[nodiscard]] CommonWork& common_work() { return common_work_; }
  /// The least bound of the other candidates that were ruled out unpriced; infinite if there are none.
  [[nodiscard]] Seconds least_unpriced() const { return least_unpriced_; }
  /// Whether the search is to end with what it has (SearchSpace::is_out_of_time); once true, it stays so.
  [[nodiscard]] bool is_cut();
  [[nodiscard]] bool has_simulated() const { return best_.has_value(); }

  /// Prices or defers the variants of some of the enumerated candidates, as far as they fit in memory. Candidates are
  /// taken in the order of their bounds, and ruled out unpriced once enough others are known to be faster (is_beaten).
  void add(const std::vector<Candidate>& feasible);

  /// After all candidates of the enumeration were added: if none is priced, finds out what would fit.
  void settle();
  /// Prices the deferred candidates, as far as their bounds leave them a chance and their simulations do not take
  /// minutes, if no other is priced; returns whether it did.
  bool price_deferred_alone();

  /// Prices candidates in the same manner: of each list of variants, which differ in recomputation only and begin with
  /// the least, the first that fits in memory.
  /// `known`, if given, are lower bounds on each list's iterations besides those of the common work. None once the
  /// search is cut, unless `even_if_cut`.
  void add_priced(const std::vector<std::vector<Candidate>>& proposals, const std::vector<Seconds>& known = {},
                  bool even_if_cut = false);

  /// The variants of an enumerated candidate that fit in memory: the largest micro batch, and larger ones with more
  /// recomputation.
  [[nodiscard]] std::vector<Candidate> fitting(const Candidate& base) const;

  /// Adds a simulated candidate.
  void add_simulated(Evaluated evaluated);

  void sort_by_closed_form();

  /// Simulates ranked candidates that are not simulated yet, within bounds and budget.
  void simulate_best();

  /// Prices and simulates deferred candidates, least bound first, while a bound is below the best time; in small
  /// rounds, since one simulation of a thousand ranks takes a minute.
  void evaluate_deferred();

 private:
  /// The variants of a candidate that fit, by recomputation, or the memory that is missing.
  struct Fits {
    std::vector<Evaluated> priced;
    std::vector<Deferred> deferred;
    std::optional<NearestMiss> miss;
    std::optional<Seconds> bound;        // the least of the variants that were left out because they are beaten
    bool is_beaten_by_exchange = false;  // some of them
  };

  [[nodiscard]] Fits fits(const Candidate& base) const;
  [[nodiscard]] std::vector<std::int64_t> sizes_of(const Candidate& base) const;
  [[nodiscard]] Evaluation with_largest_size(Candidate c, std::span<const std::int64_t> sizes, Depth depth) const;
  /// Whether a candidate of this bound cannot be among those that later rounds go on with: `most_refined` pipelines or
  /// `most_simulated` candidates are known to be faster by their closed forms. If one that was simulated early is
  /// faster, enough for comparison are, or none need be if others of its degrees were deferred.
  [[nodiscard]] bool is_beaten(const Candidate& candidate, Seconds bound) const;
  /// Whether enough are known to be faster than `own`, a bound of an enumerated candidate with its exchange, so that it
  /// would be neither refined nor simulated, unless it is a pipeline that can overlap microbatches. If its experts span
  /// nodes, it would not be priced with deduplicated rows either (deduplicate_rows), or not be among the fastest by
  /// `deduplicated`, a bound of that. Where others of its degrees were deferred, one that was simulated early is
  /// enough.
  [[nodiscard]] bool is_beaten_by_exchange(const Candidate& candidate, Seconds own, Seconds deduplicated) const;
  [[nodiscard]] bool has_deferred(const Degrees& degrees) const;
  void simulate_front();
  [[nodiscard]] SimTime simulated_once(const Candidate& candidate, int threads) const;
  [[nodiscard]] bool is_too_large(const Candidate& deferred) const;
  [[nodiscard]] bool is_slow_to_rule_out(const Evaluated& priced) const;
  /// A candidate with its closed form or, if it is deferred, its bound.
  struct InTurn {
    const Candidate* candidate;
    Seconds time;
    bool is_deferred;
  };
  bool simulate_in_turn(const std::vector<InTurn>& candidates, Seconds turn);
  void simulate_early(const std::vector<const Candidate*>& candidates);
  [[nodiscard]] bool is_slower_than_early(Seconds bound) const;
  void simulate_next();
  [[nodiscard]] std::optional<SimTime> simulated_early(const Candidate& candidate) const;
  void take(LeftOut candidate, Fits fits);
  void rule_out(Seconds bound);
  void note_priced(const Evaluated& evaluated);
  void note(const Fits& fits, std::vector<InTurn>& known);
  [[nodiscard]] std::vector<Evaluated> priced_deferred(std::span<const std::size_t> which) const;
  void leave_deferred(const std::vector<bool>& is_priced);
  [[nodiscard]] std::optional<Recompute> enough_recomputation(const std::vector<Candidate>& feasible) const;
  [[nodiscard]] NearestMiss smallest(Candidate c) const;
  [[nodiscard]] MemoryUse memory_in_full(const Candidate& c) const;
  void tell(std::size_t done, std::size_t total) const;

  const Problem& problem_;
  const SearchSpace& space_;
  const Enumeration& enumeration_;
  std::size_t added_ = 0;  // of its candidates
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  int threads_;
  mutable CommonWork common_work_;
  std::vector<Seconds> closed_forms_, of_pipelines_;  // of the candidates priced so far, sorted
  /// Those whose experts span nodes, and bounds of those that are not among the fastest with deduplicated rows.
  std::vector<Seconds> of_spanning_;
  Seconds least_unpriced_ = Seconds(std::numeric_limits<double>::infinity());
  std::vector<Deferred> deferred_;
  std::vector<LeftOut> left_out_;
  std::optional<SimTime> best_;                       // least simulated makespan
  std::vector<std::pair<Candidate, SimTime>> early_;  // simulated between pricings, for comparison with bounds
  std::vector<Degrees> with_deferred_;                // degrees of deferred candidates
  SearchResult result_;
};

}  // namespace moeplan::planner
