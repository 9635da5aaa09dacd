// Bounds of enumerated candidates that become closer as it may be their turn.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "planner/evaluation/common_work.hpp"
#include "planner/search/search_space.hpp"

namespace moeplan::planner {

/// Lower bounds on the iterations of enumerated candidates, of each over its micro batches: first without experts but
/// for their FLOPs and launches, then with what strategies have in common, with any exchange, with its own, and with
/// rows that go to each node once. Bounds with their own exchange find the fastest candidates first, but not soon
/// enough in a limited time, nor where micro batches are many.
class CloserBounds {
 public:
  /// The first bounds. The arguments must outlive this.
  CloserBounds(const Problem& problem, const SearchSpace& space, CommonWork& common_work,
               const std::vector<Candidate>& candidates);

  /// By candidate: with any exchange, and with its own, which is at least as much; the closest so far.
  [[nodiscard]] const std::vector<Seconds>& with_any_exchange() const { return any_; }
  [[nodiscard]] const std::vector<Seconds>& with_own_exchange() const { return own_; }
  [[nodiscard]] Seconds deduplicated(std::size_t i) const { return deduplicated_[i]; }
  [[nodiscard]] bool has_own(std::size_t i) const { return known_[i] >= Known::WithOwn; }
  [[nodiscard]] bool has_deduplicated(std::size_t i) const { return known_[i] == Known::Deduplicated; }
  /// Whether there is a closer one.
  [[nodiscard]] bool is_rough(std::size_t i) const;
  /// Finds the next closer one. Different candidates at the same time.
  void refine(std::size_t i);
  void refine_with_any_exchange(std::size_t i) {
    while (known_[i] < Known::WithAnyExchange) refine(i);
  }

 private:
  enum class Known : std::uint8_t { Roughly, AsOthers, WithAnyExchange, WithOwn, Deduplicated };

  [[nodiscard]] std::vector<std::pair<Seconds, std::int64_t>> rough_bounds(Candidate base) const;
  template <class Bound>
  [[nodiscard]] Seconds least(Candidate base, const Bound& bound) const;
  [[nodiscard]] Seconds own_bound(const Candidate& base) const;
  [[nodiscard]] Seconds deduplicated_bound(const Candidate& base) const;

  const Problem& problem_;
  const SearchSpace& space_;
  CommonWork& common_work_;
  const std::vector<Candidate>& candidates_;
  std::vector<Known> known_;
  std::vector<Seconds> any_, own_, deduplicated_;
};

}  // namespace moeplan::planner
