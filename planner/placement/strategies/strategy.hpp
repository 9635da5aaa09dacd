// Strategies of expert placement. An extension point: a strategy is one class that turns a layer's loads into a
// placement; whoever simulates or executes it never sees its name.
//
//   if (auto answer = find_placement_strategy("pro_prophet")->place({counts, devices}); answer.placement) ...
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "planner/placement/layer_time.hpp"

namespace moeplan::planner {

struct PlacementOptions {
  /// [Pro-Prophet] algorithm 1; the paper gives neither. n: devices that a selected expert is not sent to, as a share
  /// of all (rounded down). alpha: balanced is when max(H) - min(H) < alpha * inputs / experts.
  double pro_prophet_n_share = 0.0;
  double pro_prophet_alpha = 0.5;
  /// [EPLB] groups of experts that a token's choice is limited to; 1: none.
  std::int64_t expert_groups = 1;
  /// auto: how many changed placements it may price by layer_time(), those with widely shared experts counting several
  /// times; some 1 us each on 8 ranks, 10 us on 64. Not in time, so that answers do not depend on the machine. None:
  /// default_trials().
  std::optional<std::int64_t> trials{};
  bool operator==(const PlacementOptions&) const = default;
};

/// 600, and more where ranks and experts are few: some ten milliseconds a layer either way.
[[nodiscard]] std::int64_t default_trials(std::int64_t ranks, std::int64_t experts);

/// One layer, one iteration: what is known when it is planned.
struct PlacementProblem {
  const RoutingCounts& counts;  // every rank is a source
  PlacementDevices devices;
  PlacementOptions options{};
  /// What auto and fastermoe_priced go by; layer_time() of the devices where there is none.
  PlacementPrice price{};
  /// Where the experts are now, and how many iterations the answer will serve: auto adds migration_time / iterations.
  const Placement* current = nullptr;
  std::int64_t iterations = 1;

  [[nodiscard]] Seconds price_of(const Placement& placement) const;
  [[nodiscard]] std::int64_t experts() const { return counts.experts(); }
};

/// A placement, or why there is none: an expected no.
struct PlacementAnswer {
  std::optional<Placement> placement;
  std::string infeasibility;  // "" with a placement
};

class PlacementStrategy {
 public:
  virtual ~PlacementStrategy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// Whether it is made to be planned anew in every iteration of training; others serve many.
  [[nodiscard]] virtual bool replans() const { return false; }
  /// A placement without flaw(). There is none on any strategy where the experts do not fit into the slots of
  /// contiguous ranks (share_begin); a strategy may want more.
  [[nodiscard]] PlacementAnswer place(const PlacementProblem& problem) const;

 protected:
  /// The experts fit: slots >= experts / ranks, rounded up.
  [[nodiscard]] virtual PlacementAnswer answer(const PlacementProblem& problem) const = 0;
};

/// All built-in strategies: the one visible table. `auto` is the last.
[[nodiscard]] std::span<const std::unique_ptr<PlacementStrategy>> placement_strategies();

[[nodiscard]] std::vector<std::string> placement_names();

/// The strategy of this name, or null.
[[nodiscard]] const PlacementStrategy* find_placement_strategy(std::string_view name);

enum class EplbKind { Global, Hierarchical, Distinct };
enum class LplbTopology { Cube, Ring };

// strategies/, one file each
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_no_placement();
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_fastermoe_placement(bool priced);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_pro_prophet_placement(bool scheduled);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_top_experts_placement(int experts);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_eplb_placement(EplbKind kind);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_smartmoe_placement();
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_lplb_placement(LplbTopology topology);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_auto_placement();

}  // namespace moeplan::planner
