#include "planner/placement/divide.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace moeplan::planner {

ExpertColumns::ExpertColumns(const RoutingCounts& counts)
    : sources_(counts.sources()),
      counts_(static_cast<std::size_t>(counts.sources() * counts.experts())),
      loads_(counts.expert_load()) {
  const auto sources = static_cast<std::size_t>(sources_);
  for (std::size_t s = 0; s < sources; ++s) {
    for (std::size_t e = 0; e < loads_.size(); ++e) counts_[e * sources + s] = counts.at(RankId(s), ExpertId(e));
  }
}

TokenDivider::TokenDivider(std::int64_t ranks, std::int64_t ranks_per_node)
    : ranks_per_node_(ranks_per_node), holds_(static_cast<std::size_t>(ranks), 0) {}

/// Fills `claims` with the holders in `node`, or with all holders.
void TokenDivider::claim_among(std::vector<Claim>& claims, const ExpertPlacement& place,
                               std::optional<std::int64_t> node) const {
  claims.clear();
  std::int64_t shares = 0;
  for (const ExpertHolder& holder : place.holders) {
    if (node && holder.rank.value() / ranks_per_node_ != *node) continue;
    claims.push_back({holder.rank, static_cast<double>(holder.share), 0});
    shares += holder.share;
  }
  for (Claim& claim : claims) {
    claim.fraction =
        shares > 0 ? claim.fraction / static_cast<double>(shares) : 1.0 / static_cast<double>(claims.size());
  }
  std::erase_if(claims, [](const Claim& claim) { return claim.fraction <= 0; });
}

void TokenDivider::deal(std::vector<Claim>& claims, RankId source, std::int64_t tokens) {
  if (claims.size() == 1) {
    flows_.push_back({source, claims.front().rank, tokens});
    return;
  }
  dealt_.assign(claims.size(), 0);
  std::int64_t left = tokens;
  for (std::size_t i = 0; i < claims.size(); ++i) {
    claims[i].owed += claims[i].fraction * static_cast<double>(tokens);
    dealt_[i] = std::clamp(static_cast<std::int64_t>(claims[i].owed), std::int64_t{0}, left);
    claims[i].owed -= static_cast<double>(dealt_[i]);
    left -= dealt_[i];
  }
  // Claims add up to the tokens, and afterwards each is owed between -1 and 1 tokens, so only a few remain; a holder
  // gets more than one of these only through rounding of the sums.
  for (; left > static_cast<std::int64_t>(claims.size()); --left) ++dealt_.front();
  if (left > 0) {  // fewer than there are claims: one each to the largest
    order_.resize(claims.size());
    std::iota(order_.begin(), order_.end(), std::size_t{0});
    const auto larger = [&](std::size_t a, std::size_t b) {
      return claims[a].owed != claims[b].owed ? claims[a].owed > claims[b].owed : a < b;
    };
    std::nth_element(order_.begin(), order_.begin() + (left - 1), order_.end(), larger);
    for (std::int64_t i = 0; i < left; ++i) {
      claims[order_[static_cast<std::size_t>(i)]].owed -= 1;
      ++dealt_[order_[static_cast<std::size_t>(i)]];
    }
  }
  for (std::size_t i = 0; i < claims.size(); ++i) {
    if (dealt_[i] > 0) flows_.push_back({source, claims[i].rank, dealt_[i]});
  }
}

std::span<const TokenFlow> TokenDivider::divide(std::span<const std::int64_t> column, const ExpertPlacement& place,
                                                Nearest nearest) {
  assert(column.size() == holds_.size() && !place.holders.empty() && "every rank is a source, and someone holds it");
  flows_.clear();
  for (const ExpertHolder& holder : place.holders) holds_[holder.rank.index()] = 1;
  claim_among(everywhere_, place, std::nullopt);
  std::optional<std::int64_t> node_of_claims;
  for (std::size_t s = 0; s < column.size(); ++s) {
    if (column[s] == 0) continue;
    const RankId source(s);
    if (nearest != Nearest::Off && holds_[s]) {
      flows_.push_back({source, source, column[s]});
      continue;
    }
    if (nearest == Nearest::Node) {
      const std::int64_t node = source.value() / ranks_per_node_;
      if (node != node_of_claims) claim_among(in_node_, place, node);
      node_of_claims = node;
    }
    deal(nearest == Nearest::Node && !in_node_.empty() ? in_node_ : everywhere_, source, column[s]);
  }
  for (const ExpertHolder& holder : place.holders) holds_[holder.rank.index()] = 0;
  return flows_;
}

}  // namespace moeplan::planner
