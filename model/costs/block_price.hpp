// What one run of each block of a Program costs: for the closed form and the lower bounds of estimate().
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"

namespace moeplan {

/// One run of a block. Ranks: all, or those that represent all (representatives_view). In seconds.
struct BlockPrice {
  std::vector<double> alone;         // by rank: the longest chain, every operation alone on an idle machine
  double together = 0;               // of the slowest rank, all groups of a communication on the links at once
  std::vector<double> background;    // by rank: the replicas' stream, alone
  double background_together = 0;    // the same of the slowest rank, together
  std::vector<double> compute;       // by rank and stream: computations
  std::vector<double> link_seconds;  // traffic over bandwidth, by link or orbit
  std::vector<std::pair<std::int32_t, double>> sends_alone;  // operation, and when a rank reaches it at the earliest
  std::vector<std::pair<std::int32_t, double>> sends_together;
};

/// Whose prices: a bound needs those of one rank only, which is quick where all have to be looked at one by one.
enum class PricedRanks { All, First };

/// Prices blocks when asked; `program` (of one stage's ranks) and `cluster` must outlive it. For one thread.
class BlockPricer {
 public:
  /// First: rank 0 alone; `together`, links and GPUs that ranks share are not looked at.
  BlockPricer(const Program& program, const Cluster& cluster, PricedRanks ranks = PricedRanks::All);
  ~BlockPricer();

  [[nodiscard]] const BlockPrice& price(BlockId block);
  /// How many ranks prices are of.
  [[nodiscard]] std::size_t ranks() const;
  /// "from -> to" of a link that this index of link_seconds stands for.
  [[nodiscard]] std::string link_name(std::size_t index) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan
