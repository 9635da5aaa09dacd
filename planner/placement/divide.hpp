// Dividing an expert's tokens among its holders: whole tokens, none lost, the same for everyone who computes it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/workload/routing.hpp"
#include "planner/placement/placement.hpp"

namespace moeplan::planner {

/// Tokens of one source that one rank computes; the source may be that rank.
struct TokenFlow {
  RankId source;
  RankId rank;
  std::int64_t tokens;  // > 0
  bool operator==(const TokenFlow&) const = default;
};

/// Counts by expert: a column of RoutingCounts lies together.
class ExpertColumns {
 public:
  explicit ExpertColumns(const RoutingCounts& counts);

  [[nodiscard]] std::int64_t experts() const { return static_cast<std::int64_t>(loads_.size()); }
  [[nodiscard]] std::int64_t sources() const { return sources_; }
  /// Tokens for the expert by source.
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

/// Tokens that stay near do (Nearest). The rest of each source is divided over its candidates in proportion to their
/// shares, by largest claim: what rounding withheld from a holder it is owed by the next sources (in order of rank), so
/// that the sums over all sources follow the shares too. Holders of a node without any share divide equally.
class TokenDivider {
 public:
  TokenDivider(std::int64_t ranks, std::int64_t ranks_per_node);

  /// `column` has one count a source. The result stands until the next call; ordered by source, then rank.
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
