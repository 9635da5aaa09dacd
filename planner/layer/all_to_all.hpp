// All-to-alls: how the rows of an MoE layer go from their sources to the experts' holders, and back. An extension
// point: an algorithm is one class that writes operations; simulator and executors never see its name.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

/// What is to be moved: rows that members of a group have in `from` and others want in `to`, as Communication says it
/// of an all-to-all. Rows of the one buffer are as wide as those of the other.
struct Exchange {
  std::string name;  // for people
  OpClass op_class;
  GroupId group;
  Slice from;
  Slice to;
  bool is_combine;  // from the holders of the experts back to the sources
};

/// The groups in which rows are exchanged, and where they lie.
struct ExchangeGroup {
  GroupFamily family;
  std::int64_t per_node;  // members that share a node: consecutive ones
  std::int64_t shards;    // members, consecutive ones, that hold a shard each of the same experts

  [[nodiscard]] std::int64_t nodes() const { return family.size / per_node; }
};

class AllToAll {
 public:
  virtual ~AllToAll() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// Why it cannot run in such groups, as a short counted reason; "" if it can.
  [[nodiscard]] virtual std::string infeasibility(const ExchangeGroup& group) const = 0;
  /// Why no plan has it in such groups though it runs there, as a short counted reason; "" if plans may.
  [[nodiscard]] virtual std::string not_planned_with(const ExchangeGroup&) const { return ""; }
  /// Whether a row goes to a node, and to a rank, once for all the experts there that its token selected: slices on
  /// both ends are `distinct`, and on the way back rows are added up.
  [[nodiscard]] virtual bool deduplicates() const { return false; }
  /// Whether every row goes from its source straight to the holder, so that each link carries what it carries of all
  /// others of this kind.
  [[nodiscard]] virtual bool is_direct() const { return false; }
  /// Appends the exchange after block.last(), and leaves in it what ends when the rows are there.
  virtual void lower(const Exchange& exchange, BlockBuilder& block) const = 0;
};

/// All built-in algorithms: the one visible table.
[[nodiscard]] std::span<const std::unique_ptr<AllToAll>> all_to_alls();
[[nodiscard]] std::vector<std::string> all_to_all_names();

/// The algorithm of this name, or null.
[[nodiscard]] const AllToAll* find_all_to_all(std::string_view name);

[[nodiscard]] std::unique_ptr<AllToAll> make_linear_all_to_all();             // all_to_alls/direct.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_pairwise_all_to_all();           // all_to_alls/direct.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_pipe_all_to_all();               // all_to_alls/direct.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_leaders_all_to_all();            // all_to_alls/leaders.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_two_dimensional_all_to_all();    // all_to_alls/hierarchical.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_naive_local_all_to_all();        // all_to_alls/hierarchical.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_three_dimensional_all_to_all();  // all_to_alls/hierarchical.cpp
[[nodiscard]] std::unique_ptr<AllToAll> make_deduplicated_all_to_all();       // all_to_alls/deduplicated.cpp

}  // namespace moeplan::planner
