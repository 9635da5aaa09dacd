// The state that the rounds of a search share: the candidates ranked so far, and those whose evaluation is deferred.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

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

class Ranking {
 public:
  /// The arguments must outlive this. `progress` receives (done, total) on the calling thread.
  Ranking(const Problem& problem, const SearchSpace& space,
          const std::function<void(std::int64_t, std::int64_t)>& progress);

  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const SearchSpace& space() const { return space_; }
  [[nodiscard]] int threads() const { return threads_; }
  [[nodiscard]] SearchResult& result() { return result_; }
  [[nodiscard]] const std::vector<Evaluated>& ranked() const { return result_.ranked; }
  [[nodiscard]] const std::vector<Deferred>& deferred() const { return deferred_; }
  [[nodiscard]] bool has_simulated() const { return best_.has_value(); }

  /// Prices or defers the variants of the enumerated candidates that fit in memory.
  void add_all(Enumeration enumeration);

  /// Prices candidates: of each list of variants the first that fits in memory.
  void add_priced(const std::vector<std::vector<Candidate>>& proposals);

  /// Adds a simulated candidate.
  void add_simulated(Evaluated evaluated);

  void sort_by_closed_form();

  /// Simulates ranked candidates that are not simulated yet, within bounds and budget.
  void simulate_best();

  /// Prices and simulates deferred candidates, least bound first, while a bound is below the best time.
  void evaluate_deferred();

 private:
  /// The variants of a candidate that fit, by recomputation, or the memory that is missing.
  struct Fits {
    std::vector<Evaluated> priced;
    std::vector<Deferred> deferred;
    std::optional<NearestMiss> miss;
  };

  [[nodiscard]] Fits fits(const Candidate& base) const;
  void price_deferred(std::span<const std::size_t> which);
  [[nodiscard]] std::optional<Recompute> enough_recomputation(const std::vector<Candidate>& feasible) const;
  [[nodiscard]] NearestMiss in_full(Candidate c) const;
  void tell(std::size_t done, std::size_t total) const;

  const Problem& problem_;
  const SearchSpace& space_;
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  int threads_;
  std::vector<Deferred> deferred_;
  std::optional<SimTime> best_;  // least simulated makespan
  SearchResult result_;
};

}  // namespace moeplan::planner
