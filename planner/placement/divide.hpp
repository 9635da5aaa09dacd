// Division of an expert's tokens among its holders: in whole tokens, complete, and with the same result on every rank
// that computes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/workload/routing.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// Tokens of one source that one rank computes; the source may be that same rank.
struct TokenFlow {
  RankId source;
  RankId rank;
  std::int64_t tokens;  // > 0
  bool operator==(const TokenFlow&) const = default;
};

/// Routing counts stored by expert, so that the counts of one expert are contiguous.
class ExpertColumns {
 public:
  explicit ExpertColumns(const RoutingCounts& counts);

  [[nodiscard]] std::int64_t experts() const { return static_cast<std::int64_t>(loads_.size()); }
  [[nodiscard]] std::int64_t sources() const { return sources_; }
  /// The expert's tokens by source.
  [[nodiscard]] std::span<const std::int64_t> column(std::size_t expert) const {
    return std::span(counts_).subspan(expert * static_cast<std::size_t>(sources_), static_cast<std::size_t>(sources_));
  }
  [[nodiscard]] std::int64_t load(std::size_t expert) const { return loads_[expert]; }
  [[nodiscard]] std::span<const std::int64_t> loads() const { return loads_; }

 private:
  std::int64_t sources_;
  std::vector<std::int64_t> counts_;
  std::vector<std::int64_t> loads_;
};

/// Divides tokens deterministically. Tokens that `Nearest` keeps local stay there. The rest of each source is divided
/// over its candidates in proportion to their shares by the largest-remainder method; what rounding withholds from a
/// holder is owed to it by the next sources (in order of rank), so that the sums over all sources follow the shares as
/// well. If the holders in a node have no shares, they divide equally.
class TokenDivider {
 public:
  TokenDivider(std::int64_t ranks, std::int64_t ranks_per_node);

  /// `column` has one count per source. The result is valid until the next call; ordered by source, then rank.
  [[nodiscard]] std::span<const TokenFlow> divide(std::span<const std::int64_t> column, const ExpertPlacement& place,
                                                  Nearest nearest);

 private:
  struct Claim {
    RankId rank;
    double fraction;
    double owed;
  };

  void claim_among(std::vector<Claim>& claims, const ExpertPlacement& place, std::optional<std::int64_t> node) const;
  void deal(std::vector<Claim>& claims, RankId source, std::int64_t tokens);

  std::int64_t ranks_per_node_;
  std::vector<char> holds_;
  std::vector<Claim> everywhere_, in_node_;
  std::vector<std::int64_t> dealt_;
  std::vector<std::size_t> order_;
  std::vector<TokenFlow> flows_;
};

}  // namespace moeplan::planner
