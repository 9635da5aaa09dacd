// What a training or serving framework runs: the decisions of a plan that one can launch there. Files:
// configs/frameworks, one a framework, each fact with its source.
//
//   framework: megatron
//   title: Megatron-LM
//   versions: ["0.14", "0.15"]                # of which facts are known, oldest first; the newest is the default
//   schedules: {baseline: {}}                 # one map a decision: our name -> {as: theirs, since: "0.15"}
//   ...
//   rules: [sequence_parallel_with_tp]        # constraints between decisions (FrameworkRule)
//   workload: {gate_weights: in_experts}      # keys of a workload that follow from the framework
//   arguments:                                # what its own parser takes, with types
//     num-layers: int
//     fp8-recipe: [tensorwise, delayed]       # one of these
//     moe-hybridep-num-sms: {type: int, since: "0.16"}
//     tp-size: {type: int, aliases: [tp]}
//   sources: {schedules: "where this is said"}
//
// A decision that a file leaves out has no value there, and every value but the plain one is refused.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/text/document.hpp"
#include "model/workload/workload.hpp"

namespace moeplan::planner {

/// What a framework may or may not offer. Names are keys of the file; the values are moeplan's own names.
enum class FrameworkDecision {
  Schedules,     // planner/layer/schedule.hpp
  AllToAlls,     // planner/layer/all_to_all.hpp
  Codecs,        // "none", or codecs
  RankOrders,    // Candidate::rank_order
  Orders,        // Candidate::order
  Placements,    // planner/placement/strategies/strategy.hpp
  Degrees,       // tp, sp, cp, pp, vp, ep, esp: degrees that may exceed 1
  Pipelines,     // v
  Overlaps,      // ep_overlap, delay_wgrad
  Recompute,     // kRecomputeModuleNames, and "full"
  ZeroStages,    // "0" to "3"
  Precisions,    // kDtypeNames and kPrecisionNames
  GraphModules,  // kGraphModuleNames, and "full_iteration"
  Fusions,       // kFusionNames
  Layouts        // "any": each part of the pipeline holds what the plan says
};

inline constexpr std::array<std::pair<FrameworkDecision, std::string_view>, 15> kFrameworkDecisionNames{
    {{FrameworkDecision::Schedules, "schedules"},
     {FrameworkDecision::AllToAlls, "all_to_alls"},
     {FrameworkDecision::Codecs, "codecs"},
     {FrameworkDecision::RankOrders, "rank_orders"},
     {FrameworkDecision::Orders, "orders"},
     {FrameworkDecision::Placements, "placements"},
     {FrameworkDecision::Degrees, "degrees"},
     {FrameworkDecision::Pipelines, "pipelines"},
     {FrameworkDecision::Overlaps, "overlaps"},
     {FrameworkDecision::Recompute, "recompute"},
     {FrameworkDecision::ZeroStages, "zero_stages"},
     {FrameworkDecision::Precisions, "precisions"},
     {FrameworkDecision::GraphModules, "cuda_graphs"},
     {FrameworkDecision::Fusions, "fusions"},
     {FrameworkDecision::Layouts, "layouts"}}};

/// Constraints between decisions.
enum class FrameworkRule {
  SequenceParallelWithTp,  // MoE models with tp > 1 have sequence parallelism
  ExpertsOverTpAndDp,      // ep is tp dp with whole experts; or 1, with experts sharded as tp
  ExpertsOnDenseMesh,      // esp is tp, or with ep > 1 also 1; ep is a multiple of the ranks that share a sequence
  DirectExchangeInNode,    // the all-to-all `linear` stays inside a node: between nodes rows are deduplicated
  OverlapOfWholePasses,    // microbatches overlap without recomputation of whole layers or whole MoE layers
  ShardsGatherRows,        // the schedule is `megatron_etp` with esp > 1
  GraphsAreNotRecomputed   // what CUDA graphs of modules capture is no part of a module that is recomputed
};

inline constexpr std::array<std::pair<FrameworkRule, std::string_view>, 7> kFrameworkRuleNames{
    {{FrameworkRule::SequenceParallelWithTp, "sequence_parallel_with_tp"},
     {FrameworkRule::ExpertsOverTpAndDp, "experts_over_tp_and_dp"},
     {FrameworkRule::ExpertsOnDenseMesh, "experts_on_dense_mesh"},
     {FrameworkRule::DirectExchangeInNode, "direct_exchange_in_node"},
     {FrameworkRule::OverlapOfWholePasses, "overlap_of_whole_passes"},
     {FrameworkRule::ShardsGatherRows, "shards_gather_rows"},
     {FrameworkRule::GraphsAreNotRecomputed, "graphs_are_not_recomputed"}}};

/// What a framework reads under one argument, or one key of its configuration: a switch, a number, a text, any number
/// of texts, or one of some choices.
struct FrameworkArgument {
  enum class Type { Switch, Int, Float, Text, List };
  Type type = Type::Text;
  std::vector<std::string> choices = {};  // none: any
  std::vector<std::string> aliases = {};  // its other names there
  bool operator==(const FrameworkArgument&) const = default;
};

inline constexpr std::array<std::pair<FrameworkArgument::Type, std::string_view>, 5> kArgumentTypeNames{
    {{FrameworkArgument::Type::Switch, "switch"},
     {FrameworkArgument::Type::Int, "int"},
     {FrameworkArgument::Type::Float, "float"},
     {FrameworkArgument::Type::Text, "text"},
     {FrameworkArgument::Type::List, "list"}}};

/// One version of a framework.
struct Framework {
  std::string name;     // of the file: "megatron"
  std::string title;    // "Megatron-LM"
  std::string version;  // "0.15"
  /// Values by decision, with the framework's name for each ("" if it has none of its own).
  std::map<FrameworkDecision, std::map<std::string, std::string>> values = {};
  std::set<FrameworkRule> rules = {};
  std::vector<std::string> overrides = {};                  // of the workload: "workload.gate_weights=in_experts"
  std::map<std::string, FrameworkArgument> arguments = {};  // those that plans are written in
  std::map<std::string, std::string> sources = {};

  [[nodiscard]] bool has(FrameworkDecision decision, std::string_view value) const;
  /// The framework's own name for a value; "" if it has none.
  [[nodiscard]] std::string own_name(FrameworkDecision decision, const std::string& value) const;
  /// Our names of the value that the framework calls so; those without another name are called as here.
  [[nodiscard]] std::vector<std::string> values_named(FrameworkDecision decision, std::string_view own_name) const;
  [[nodiscard]] std::string text() const { return title + " " + version; }
  /// Whether it serves; otherwise it trains.
  [[nodiscard]] bool serves() const;
};

/// Reads a framework's file strictly, for one of its versions ("": the newest). Raises InputError.
[[nodiscard]] Framework read_framework(const Node& document, const std::string& version);

/// The value of FrameworkDecision::Recompute with which whole layers can be those of RecomputedLayers::first_of_part.
inline constexpr std::string_view kFirstLayers = "first_layers";
/// The value of FrameworkDecision::Recompute for Recompute::PerOperation, in place of single modules.
inline constexpr std::string_view kPerOperation = "per_operation";
/// Whether the framework recomputes this where CUDA graphs capture these modules.
[[nodiscard]] bool recomputes_beside(const Framework& framework, const CudaGraphs& graphs, const Recompute& recompute);

/// The modules of a recomputation that the framework recomputes. Selective is a set of ours, of which frameworks have
/// parts.
[[nodiscard]] Recompute recomputed_by(const Framework& framework, const Recompute& recompute);

/// Raises InputError, located in the document, with every value of the workload that the framework does not run.
void check_workload(const Framework& framework, const Workload& workload, const Node& document);

}  // namespace moeplan::planner
