// Prices of a Program's blocks: the times and traffic that the closed form and the lower bounds of estimate() sum up.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "model/program/stream_ends.hpp"

namespace moeplan {

class CommunicationPrices;

/// Price of one execution of a block, in seconds. Ranks: all, or the representatives of all (representatives_view).
struct BlockPrice {
  std::vector<double> alone;         // by rank: the longest chain, each operation timed alone on an idle cluster
  std::vector<StreamEnds> ends;      // by rank, each operation timed alone
  StreamEnds ends_together;          // the latest of all ranks, with all groups of a communication at once
  std::vector<double> compute;       // by rank and stream: total time of computations
  std::vector<double> busy;          // by rank and stream: total time of all operations, each alone
  std::vector<double> link_seconds;  // traffic / bandwidth, by link or orbit
  std::vector<std::pair<std::int32_t, double>> sends_alone;  // Send operation, earliest time at which a rank reaches it
  std::vector<std::pair<std::int32_t, double>> sends_together;
};

/// The ranks to price. A lower bound needs only one rank, which is much faster than all if ranks cannot be represented
/// by a few.
enum class PricedRanks { All, First };

/// Prices blocks on demand. `program` (of one stage's ranks) and `cluster` must outlive it. Not thread-safe.
class BlockPricer {
 public:
  /// First: only rank 0; `together`, links and GPUs that ranks share are not evaluated. With `shared`, which must
  /// outlive this, prices that Programs have in common are computed once.
  BlockPricer(const Program& program, const Cluster& cluster, PricedRanks ranks = PricedRanks::All,
              CommunicationPrices* shared = nullptr);
  ~BlockPricer();

  [[nodiscard]] const BlockPrice& price(BlockId block);
  /// Number of ranks that prices are given for.
  [[nodiscard]] std::size_t ranks() const;
  /// "from -> to" of a link represented by this index of link_seconds.
  [[nodiscard]] std::string link_name(std::size_t index) const;

 private:
  class State;
  std::unique_ptr<State> state_;
};

}  // namespace moeplan
