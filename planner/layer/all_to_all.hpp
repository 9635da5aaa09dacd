// All-to-all algorithms: the exchange of an MoE layer's rows between their sources and the experts' holders. Extension
// point: an algorithm is one class that writes operations; simulator and executors are independent of it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/infeasibility.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

/// The rows to exchange: members of a group have them in `from` and others need them in `to`, as defined by
/// Communication for all-to-alls. Both buffers have rows of the same width.
struct Exchange {
  std::string name;  // for display
  OpClass op_class;
  GroupId group;
  Slice from;
  Slice to;
  bool is_combine;           // combine (from the holders of the experts to the sources), not dispatch
  std::int64_t sms = 0;      // that a dispatcher's kernels may hold; 0: its own number
  bool accompanies = false;  // small data of the tokens whose rows the exchange before or after it moves
  bool continues = false;    // a further part of an exchange that was launched once
};

/// The groups in which rows are exchanged, and their position on nodes and shards.
struct ExchangeGroup {
  GroupFamily family;
  std::int64_t per_node;  // consecutive members that share a node
  std::int64_t shards;    // consecutive members that each hold one shard of the same experts

  [[nodiscard]] std::int64_t nodes() const { return family.size / per_node; }
};

/// Base class of all algorithms.
class AllToAll {
 public:
  virtual ~AllToAll() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// The reason why the algorithm cannot run in such groups, short enough to count by; none if it can.
  [[nodiscard]] virtual std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const = 0;
  /// The reason why plans do not use the algorithm in such groups although it can run, short enough to count by;
  /// none if they may.
  [[nodiscard]] virtual std::optional<Infeasibility> not_planned_with(const ExchangeGroup&) const {
    return std::nullopt;
  }
  /// Whether a row is sent to a node, and to a rank, only once for all experts there that its token selected: slices at
  /// both ends are then `distinct`, and combine sums rows.
  [[nodiscard]] virtual bool deduplicates() const { return false; }
  /// Whether every rank receives the tokens of all ranks, and returns a row for each, whichever experts they selected:
  /// slices at the experts' holders are then of all experts, and `distinct`.
  [[nodiscard]] virtual bool gathers() const { return false; }
  /// Whether every row goes from its source directly to the holder, so that the load of each link is the same for all
  /// direct algorithms.
  [[nodiscard]] virtual bool is_direct() const { return false; }
  /// The kernels of its own that move the rows instead of NCCL, by the name of their figures (RowKernels); "": none.
  /// They hold SMs.
  [[nodiscard]] virtual std::string_view kernels() const { return ""; }
  [[nodiscard]] bool is_dispatcher() const { return !kernels().empty(); }
  /// In how many parts of a rank's rows, one after another, its kernels exchange rows and multiply them by the experts'
  /// weights, so that each part is multiplied while the next one is under way; 1: kernels of their own multiply.
  [[nodiscard]] virtual std::int64_t fused_parts() const { return 1; }
  [[nodiscard]] bool is_fused() const { return fused_parts() > 1; }
  /// Whether rows arrive in the order of the rank's experts, so that ExpertLayout::Sorted copies none.
  [[nodiscard]] virtual bool sorts_by_expert() const { return false; }
  /// Whether each expert's rows arrive padded to what products in 8 bits take.
  [[nodiscard]] virtual bool pads_rows() const { return is_fused(); }
  /// Appends the exchange after block.last(), and sets block.last() to the operations that complete it.
  virtual void lower(const Exchange& exchange, BlockBuilder& block) const = 0;
};

/// The table of all built-in algorithms, and those of plug-ins after them.
[[nodiscard]] std::span<const std::unique_ptr<AllToAll>> all_to_alls();
[[nodiscard]] std::vector<std::string> all_to_all_names();

/// Adds an algorithm, before anything else reads the table (a plug-in's: planner/plugin); false if its name is taken.
bool add_all_to_all(std::unique_ptr<AllToAll> entry);
/// Whether the cluster has figures of a dispatcher's kernels.
[[nodiscard]] bool has_figures(const Cluster& cluster, const AllToAll& dispatcher);
/// Whether a search considers the algorithm even if it is not asked for: neither dispatchers nor those that gather.
[[nodiscard]] inline bool is_searched(const AllToAll& algorithm) {
  return !algorithm.is_dispatcher() && !algorithm.gathers();
}
/// All of these.
[[nodiscard]] std::vector<const AllToAll*> searched_all_to_alls();

/// The algorithm with this name, or null.
[[nodiscard]] const AllToAll* find_all_to_all(std::string_view name);

[[nodiscard]] std::unique_ptr<AllToAll> make_linear_all_to_all();             // all_to_alls/direct.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_pairwise_all_to_all();           // all_to_alls/direct.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_pipe_all_to_all();               // all_to_alls/direct.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_leaders_all_to_all();            // all_to_alls/leaders.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_two_dimensional_all_to_all();    // all_to_alls/hierarchical.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_naive_local_all_to_all();        // all_to_alls/hierarchical.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_three_dimensional_all_to_all();  // all_to_alls/hierarchical.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_deduplicated_all_to_all();       // all_to_alls/deduplicated.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_gathered_all_to_all();           // all_to_alls/gathered.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_fused();                         // all_to_alls/dispatchers.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_deepep();                        // all_to_alls/dispatchers.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_deepep_low_latency();            // all_to_alls/dispatchers.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_deepep_v2();                     // all_to_alls/dispatchers.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_hybridep();                      // all_to_alls/dispatchers.cpp

}  // namespace moeplan::planner
