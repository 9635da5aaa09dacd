// Strategies of expert placement. Extension point: a strategy is one class that turns a layer's loads into a placement;
// simulator and executors are independent of it.
//
//   if (auto answer = find_placement_strategy("pro_prophet")->place({counts, devices}); answer.placement) ...
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/infeasibility.hpp"
#include "planner/placement/layer_time.hpp"

namespace moeplan::planner {

/// Parameters of individual strategies.
struct PlacementOptions {
  /// [Pro-Prophet] algorithm 1; the paper gives neither value. n: number of devices to which a selected expert is not
  /// sent, as a fraction of all devices (rounded down). alpha: loads are balanced if max(H) - min(H) < alpha * inputs /
  /// experts.
  double pro_prophet_n_share = 0.0;
  double pro_prophet_alpha = 0.5;
  /// [EPLB] number of expert groups to which a token's choice is limited; 1: no groups.
  std::int64_t expert_groups = 1;
  /// auto: the number of changed placements that it may price by layer_time(), where placements of widely shared
  /// experts count several times; about 1 us each on 8 ranks, 10 us on 64. It is not a time limit, so that results do
  /// not depend on the host. Absent: default_trials().
  std::optional<std::int64_t> trials{};
  bool operator==(const PlacementOptions&) const = default;
};

/// 600, and more with few ranks and experts; some ten milliseconds per layer in all cases.
[[nodiscard]] std::int64_t default_trials(std::int64_t ranks, std::int64_t experts);

/// The input of a strategy: one layer in one iteration, as known at planning time.
struct PlacementProblem {
  const RoutingCounts& counts;  // every rank is a source
  PlacementDevices devices;
  PlacementOptions options{};
  /// The objective of auto and fastermoe_priced; if empty, layer_time() of the devices.
  PlacementPrice price{};
  /// The current placement, and the number of iterations that the new one will serve: auto adds migration_time /
  /// iterations to its price.
  const Placement* current = nullptr;
  std::int64_t iterations = 1;

  [[nodiscard]] Seconds price_of(const Placement& placement) const;
  [[nodiscard]] std::int64_t experts() const { return counts.experts(); }
};

/// A placement, or the reason why there is none (an expected result, not an error).
struct PlacementAnswer {
  std::optional<Placement> placement;
  std::optional<Infeasibility> infeasibility = {};  // none with a placement
};

/// Base class of all strategies.
class PlacementStrategy {
 public:
  virtual ~PlacementStrategy() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// Whether the strategy is designed to plan anew in every training iteration; other placements serve many iterations.
  [[nodiscard]] virtual bool replans() const { return false; }
  /// Whether in training the layer waits for the transfers of its copies: weights are sent between its dispatch and its
  /// combine, and gradients return after its backward pass ([FasterMoE] sec. 4.2, [Pro-Prophet] eq. 6). Otherwise they
  /// are block-wise, concurrent with the neighbouring blocks ([Pro-Prophet] algorithm 2, eq. 8).
  [[nodiscard]] virtual bool has_blocking_transfers() const { return false; }
  /// The operations that the host launches to plan a training layer with this many experts shadowed, while the GPU
  /// waits for the result; zero if planning is concurrent with the layers.
  [[nodiscard]] virtual std::int64_t search_launches(std::int64_t /*shadowed*/) const { return 0; }
  /// A valid placement (placement_error() returns none). No strategy has one if the experts do not fit into the slots
  /// of contiguous ranks (share_begin); a strategy may have further requirements.
  [[nodiscard]] PlacementAnswer place(const PlacementProblem& problem) const;

 protected:
  /// Called only if the experts fit: slots >= experts / ranks, rounded up.
  [[nodiscard]] virtual PlacementAnswer answer(const PlacementProblem& problem) const = 0;
};

/// The table of all built-in strategies. `auto` is the last.
[[nodiscard]] std::span<const std::unique_ptr<PlacementStrategy>> placement_strategies();

[[nodiscard]] std::vector<std::string> placement_names();

/// The strategy with this name, or null.
[[nodiscard]] const PlacementStrategy* find_placement_strategy(std::string_view name);

/// [Pro-Prophet]'s parts that are in use (fig. 14): the planner by eq. 6 alone, with blocking transfers; the same with
/// the scheduler's block-wise transfers; both together, the planner by eq. 8.
enum class ProProphetParts { Planner, PlannerAndScheduler, Full };
/// [FasterMoE]'s shadowing by the paper's latencies, by those of its published code, or by the price of a whole layer.
enum class FasterMoeKind { Paper, Code, Priced };
enum class EplbKind { Global, Hierarchical, Distinct };
enum class LplbTopology { Cube, Ring };

// Factory functions, defined in one file of strategies/ each.
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_no_placement();
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_fastermoe_placement(FasterMoeKind kind);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_pro_prophet_placement(ProProphetParts parts);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_top_experts_placement(int experts);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_eplb_placement(EplbKind kind);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_smartmoe_placement();
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_lplb_placement(LplbTopology topology);
[[nodiscard]] std::unique_ptr<PlacementStrategy> make_auto_placement();

}  // namespace moeplan::planner
