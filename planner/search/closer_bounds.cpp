#include "planner/search/closer_bounds.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "model/base/in_parallel.hpp"
#include "planner/search/enumeration.hpp"

namespace moeplan::planner {

namespace {

// Micro batches whose bounds are worth their time. assumed: two are, ten took longer than the prices they saved.
constexpr std::int64_t kFewSizes = 4;
constexpr Seconds kInfinite{std::numeric_limits<double>::infinity()};

}  // namespace

CloserBounds::CloserBounds(const Problem& problem, const SearchSpace& space, CommonWork& common_work,
                           const std::vector<Candidate>& candidates)
    : problem_(problem),
      space_(space),
      common_work_(common_work),
      candidates_(candidates),
      known_(candidates.size(), Known::Roughly),
      any_(candidates.size()),
      deduplicated_(candidates.size()) {
  in_parallel(candidates.size(), space.thread_count(),
              [&](std::size_t i) { any_[i] = rough_bounds(candidates[i]).front().first; });
  own_ = any_;
}

bool CloserBounds::is_rough(std::size_t i) const {
  const Candidate& c = candidates_[i];
  const bool has_many = c.degrees.pp == 1 && std::ssize(micro_batches(problem_.workload(), c.degrees)) > kFewSizes;
  if (space_.is_out_of_time || has_many) return known_[i] < Known::WithAnyExchange;
  return known_[i] < (spans_nodes(problem_, c) ? Known::Deduplicated : Known::WithOwn);
}

void CloserBounds::refine(std::size_t i) {
  const Candidate& c = candidates_[i];
  switch (known_[i]) {
    case Known::Roughly:
      any_[i] = std::max(any_[i], least(c, [&](const Candidate& v) { return common_work_.shared_bound(v); }));
      break;
    case Known::AsOthers:
      any_[i] = std::max(any_[i], least(c, [&](const Candidate& v) { return common_work_.bound(v); }));
      break;
    case Known::WithAnyExchange: own_[i] = own_bound(c); break;
    case Known::WithOwn: deduplicated_[i] = deduplicated_bound(c); break;
    case Known::Deduplicated: return;
  }
  own_[i] = std::max(own_[i], any_[i]);
  known_[i] = static_cast<Known>(static_cast<std::uint8_t>(known_[i]) + 1);
}

/// Rough bounds for the micro batches of an enumerated candidate, the least first. The largest micro batch has not
/// always the least: kernels come in waves of tiles, and large ones lower the clock.
std::vector<std::pair<Seconds, std::int64_t>> CloserBounds::rough_bounds(Candidate base) const {
  std::vector<std::int64_t> sizes{base.micro_batch};
  if (base.degrees.pp == 1) sizes = micro_batches(problem_.workload(), base.degrees);
  std::vector<std::pair<Seconds, std::int64_t>> out;
  for (const std::int64_t size : sizes) {
    base.micro_batch = size;
    out.emplace_back(common_work_.rough_bound(base), size);
  }
  std::sort(out.begin(), out.end());
  return out;
}

/// The least over all micro batches of what `bound` gives for one.
template <class Bound>
Seconds CloserBounds::least(Candidate base, const Bound& bound) const {
  Seconds out = kInfinite;
  for (const auto& [rough, size] : rough_bounds(base)) {
    if (rough >= out) break;
    base.micro_batch = size;
    out = std::min(out, std::max(rough, bound(base)));
  }
  return out;
}

/// With the candidate's exchange; without a pipeline whether microbatches overlap or not.
Seconds CloserBounds::own_bound(const Candidate& base) const {
  return least(base, [&](Candidate c) {
    Candidate overlapped = c;
    overlapped.ep_overlap = true;
    const bool overlaps = c.degrees.pp == 1 && !space_.ep_overlap && may_overlap(problem_, space_, overlapped);
    return common_work_.own_bound(overlaps ? overlapped : c);
  });
}

/// The same with rows that go to each node once; infinite if the search may not choose that.
Seconds CloserBounds::deduplicated_bound(const Candidate& base) const {
  const std::optional<Candidate> deduplicated = with_deduplicated_rows(problem_, space_, base);
  return deduplicated ? own_bound(*deduplicated) : kInfinite;
}

}  // namespace moeplan::planner
