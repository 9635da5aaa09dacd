#include "planner/placement/slots.hpp"

#include <algorithm>

#include "planner/placement/divide.hpp"

namespace moeplan::planner {

namespace {

RankId rank_id(std::size_t r) { return RankId(r); }

}  // namespace

PlacedRouting placed(const RoutingCounts& counts, const Placement& placement, const GroupFamily& holders,
                     std::int64_t near) {
  const auto ranks = static_cast<std::size_t>(holders.size);
  const std::vector<std::int64_t> filled = slots_filled(placement, holders.size);
  const auto each = static_cast<std::size_t>(*std::max_element(filled.begin(), filled.end()));
  PlacedRouting out{RoutingCounts::uniform(counts.sources(), 1, 0), {}};
  out.slots.resize(ranks * each);
  std::vector<std::size_t> next(ranks, 0);
  std::vector<std::vector<std::size_t>> slot_of(placement.experts.size());  // by expert, in the order of its holders
  for (std::size_t e = 0; e < placement.experts.size(); ++e) {
    for (const ExpertHolder& holder : placement.experts[e].holders) {
      const std::size_t slot = holder.rank.index() * each + next[holder.rank.index()]++;
      out.slots[slot] = ExpertSlot{ExpertId(e), holder.rank == placement.experts[e].home};
      slot_of[e].push_back(slot);
    }
  }
  const auto sources = static_cast<std::size_t>(counts.sources());
  std::vector<std::int64_t> by_slot(sources * out.slots.size(), 0);
  TokenDivider divider(holders.size, near);
  std::vector<std::int64_t> column(ranks);
  for (std::size_t base = 0; base < sources; ++base) {
    if (holders.base(rank_id(base)) != rank_id(base)) continue;
    for (std::size_t e = 0; e < placement.experts.size(); ++e) {
      const ExpertPlacement& place = placement.experts[e];
      for (std::size_t p = 0; p < ranks; ++p)
        column[p] = counts.at(holders.member(rank_id(base), static_cast<std::int64_t>(p)), ExpertId(e));
      for (const TokenFlow& flow : divider.divide(column, place, placement.nearest)) {
        const auto holder = static_cast<std::size_t>(place.holder(flow.rank) - place.holders.data());
        const std::size_t source = holders.member(rank_id(base), flow.source.value()).index();
        by_slot[source * out.slots.size() + slot_of[e][holder]] += flow.tokens;
      }
    }
  }
  out.counts = RoutingCounts::dense(counts.sources(), std::ssize(out.slots), std::move(by_slot));
  return out;
}

RoutingCounts counts_by_position(const RoutingCounts& counts, const GroupFamily& holders) {
  const auto experts = static_cast<std::size_t>(counts.experts());
  std::vector<std::int64_t> sums(static_cast<std::size_t>(holders.size) * experts, 0);
  for (std::int64_t s = 0; s < counts.sources(); ++s) {
    const RankId source(static_cast<std::int32_t>(s));
    const auto row = static_cast<std::size_t>(holders.position(source)) * experts;
    for (std::size_t e = 0; e < experts; ++e) sums[row + e] += counts.at(source, ExpertId(e));
  }
  return RoutingCounts::dense(holders.size, counts.experts(), std::move(sums));
}

std::vector<SlotUse> slot_use(const Placement& placement, std::int64_t ranks) {
  std::vector<SlotUse> use(static_cast<std::size_t>(ranks));
  for (const ExpertPlacement& place : placement.experts) {
    for (const ExpertHolder& holder : place.holders) {
      const bool is_home = holder.rank == place.home;
      use[holder.rank.index()].homes += is_home ? 1 : 0;
      use[holder.rank.index()].copies += holder.copies - (is_home ? 1 : 0);
    }
  }
  return use;
}

}  // namespace moeplan::planner
