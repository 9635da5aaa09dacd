// Prices of single operations: their times on each rank, alone and with all ranks that execute them, and their traffic.
#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "model/machine/cluster.hpp"
#include "model/program/program.hpp"
#include "model/program/same_work.hpp"

namespace moeplan {

/// Times of one operation by rank, in seconds: alone, and concurrently with all ranks that execute it.
struct OperationTimes {
  std::vector<double> alone;  // a lower bound on each rank's part
  std::vector<double> together;
};

struct OperationPrice {
  OperationTimes times;
  std::vector<std::pair<std::size_t, double>> link_seconds{};  // traffic / bandwidth, by link or orbit
};

/// Prices of communications that Programs have in common. Thread-safe.
class CommunicationPrices {
 public:
  struct Key {
    const Cluster* cluster;
    const SymmetricView* view;  // null: of rank 0 alone
    CommunicationHash hash;
    bool operator==(const Key&) const = default;
  };
  /// Null if it is not known.
  [[nodiscard]] const OperationPrice* find(const Key& key) const;
  /// The price under the key, which is `price` unless another thread was faster.
  const OperationPrice& add(const Key& key, OperationPrice price);

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return key.hash[0] ^ std::hash<const void*>()(key.cluster) ^ std::hash<const void*>()(key.view);
    }
  };
  mutable std::mutex mutex_;
  std::unordered_map<Key, OperationPrice, Hash> known_;
};

/// A rank's traffic in one communication, by link or orbit; has few entries, so a list.
class LinkLoad {
 public:
  explicit LinkLoad(std::size_t links) : links_(links) {}
  void add(std::size_t link, double bytes) {
    if (bytes_.empty()) bytes_.assign(links_, 0.0);
    if (bytes_[link] == 0) touched_.push_back(link);
    bytes_[link] += bytes;
  }
  /// The longest time of a link; `rate_of(link)` in bytes/s.
  template <class Rate>
  [[nodiscard]] double slowest(const Rate& rate_of) const {
    double time = 0;
    for (const std::size_t l : touched_) time = std::max(time, bytes_[l] / rate_of(l));
    return time;
  }
  void clear() {
    for (const std::size_t l : touched_) bytes_[l] = 0;
    touched_.clear();
  }
  /// Calls `visit(link, bytes)` for each link with traffic.
  template <class Visit>
  void for_each(const Visit& visit) const {
    for (const std::size_t l : touched_) visit(l, bytes_[l]);
  }

 private:
  std::size_t links_;
  std::vector<double> bytes_;  // by link, made at first use
  std::vector<std::size_t> touched_;
};

/// Prices operations on demand, equal work once. Ranks: all, the representatives of a view, or only rank 0. `program`
/// (of one stage's ranks), `cluster`, `view` and `shared`, if it is given, must outlive it.
class OperationPricer {
 public:
  /// `view` is null where no ranks represent all. With `first_alone`, which goes with a null view, only rank 0 is
  /// priced, and `together`, links and GPUs that ranks share are not evaluated. Prices that the Program may have in
  /// common with others are looked up in `shared`, and added to it.
  OperationPricer(const Program& program, const Cluster& cluster, const SymmetricView* view, bool first_alone,
                  CommunicationPrices* shared);

  [[nodiscard]] const OperationPrice& price(const Operation& operation);
  /// Number of ranks that prices are given for.
  [[nodiscard]] std::size_t ranks() const;
  /// Number of links, or of orbits of the view; zero if links are not evaluated.
  [[nodiscard]] std::size_t links() const;

 private:
  struct Known {
    const Operation* operation;
    const OperationPrice* price;
  };

  [[nodiscard]] OperationPrice priced(const Operation& operation);
  /// The key of its price; none if that is not looked up.
  [[nodiscard]] std::optional<CommunicationPrices::Key> shared_key(const Operation& operation);
  /// The time of an operation on each rank that shares a GPU, if all of them begin it together: with equal parts of the
  /// GPU, each other rank has used min(own, theirs) by the time it ends.
  void share_gpus(std::vector<double>& times) const;

  // The times of a communication; they add its traffic to link_seconds_.
  /// All images of a representative take part at once, so the total load of all of them on a link bounds each one's
  /// time too.
  [[nodiscard]] OperationTimes representatives(const Operation& operation);
  /// Rank 0's part alone on the links: a lower bound.
  [[nodiscard]] OperationTimes first_rank(const Operation& operation);
  [[nodiscard]] OperationTimes communication(const Operation& operation);
  void price_group(const Operation& operation, RankId base, std::vector<double>& alone, std::vector<double>& startup,
                   std::vector<double>& capped);
  /// The longest time of a link, or of an orbit of the view.
  [[nodiscard]] double slowest(const LinkLoad& load) const;

  const Program& program_;
  const Cluster& cluster_;
  LinkLoad all_, own_;
  const SymmetricView* view_;
  bool first_alone_;
  CommunicationPrices* shared_;
  CommunicationHashes hashes_;
  std::vector<double> link_seconds_;  // of the operation being priced
  std::deque<OperationPrice> own_prices_;
  std::unordered_map<std::size_t, std::vector<Known>> known_by_shape_;  // only those of one key may be the same
};

}  // namespace moeplan
