#include "planner/frameworks/supported.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace moeplan::planner {

namespace {

using Decision = FrameworkDecision;

std::optional<std::string> lacks(const Framework& framework, std::string_view what) {
  return fmt::format("{} has no {}", framework.text(), what);
}

std::optional<std::string> lacking_degree(const Framework& f, const Candidate& c) {
  const Degrees& d = c.degrees;
  const std::array<std::pair<const char*, std::int64_t>, 7> degrees{{{"tp", d.tp},
                                                                     {"sp", c.sequence_parallel ? 2 : 1},
                                                                     {"cp", d.cp},
                                                                     {"pp", d.pp},
                                                                     {"vp", c.virtual_stages},
                                                                     {"ep", d.ep},
                                                                     {"esp", d.esp}}};
  for (const auto& [name, degree] : degrees) {
    if (degree > 1 && !f.has(Decision::Degrees, name)) return lacks(f, fmt::format("{} > 1", name));
  }
  return std::nullopt;
}

std::optional<std::string> broken_rule(const Framework& f, const Candidate& c, std::int64_t ranks_per_node) {
  const Degrees& d = c.degrees;
  const auto is_in_force = [&](FrameworkRule rule) { return f.rules.contains(rule); };
  if (is_in_force(FrameworkRule::SequenceParallelWithTp) && d.tp > 1 && !c.sequence_parallel)
    return fmt::format("{} needs sequence parallelism for tp > 1 with experts", f.text());
  if (is_in_force(FrameworkRule::ExpertsOverTpAndDp)) {
    const bool is_divided = d.ep > 1 && d.ep == d.tp * d.dp, is_sharded = d.ep == 1 && d.esp == d.tp;
    if (!is_divided && !is_sharded)
      return fmt::format("{} divides experts over all tp x dp GPUs, or shards them as tp", f.text());
  }
  if (is_in_force(FrameworkRule::ExpertsOnDenseMesh)) {
    const std::int64_t whole = d.esp == d.tp ? d.cp : d.cp * d.tp;
    if (d.esp != d.tp && (d.esp != 1 || d.ep == 1))
      return fmt::format("{} shards experts as tp or not at all", f.text());
    if (d.ep > 1 && d.ep % whole != 0)
      return fmt::format("{} divides experts over whole groups of ranks that share a sequence", f.text());
  }
  if (is_in_force(FrameworkRule::DirectExchangeInNode) && d.ep > ranks_per_node && c.all_to_all == "linear")
    return fmt::format("{} deduplicates rows between nodes", f.text());
  if (is_in_force(FrameworkRule::OverlapOfWholePasses) && c.ep_overlap && c.recompute.has_experts())
    return fmt::format("{} overlaps microbatches only without recomputation of MoE layers", f.text());
  if (is_in_force(FrameworkRule::ShardsGatherRows) && d.esp > 1 && c.schedule != "megatron_etp")
    return fmt::format("{} shards experts by schedule megatron_etp", f.text());
  return std::nullopt;
}

std::optional<std::string> lacking_strategy(const Framework& f, const LayerStrategy& s, std::int64_t ep) {
  if (!f.has(Decision::Schedules, s.schedule.name())) return lacks(f, "schedule " + s.schedule.name());
  if (ep > 1 && !f.has(Decision::AllToAlls, s.all_to_all.name())) return lacks(f, "all-to-all " + s.all_to_all.name());
  if (s.codec != CodecPair{} && !f.has(Decision::Codecs, codec_pair_name(s.codec)))
    return lacks(f, "codec " + codec_pair_name(s.codec));
  return std::nullopt;
}

}  // namespace

std::optional<std::string> unsupported(const Framework& f, const Candidate& c, std::int64_t ranks_per_node) {
  if (auto reason = lacking_strategy(f, LayerStrategy::of(c), c.degrees.ep)) return reason;
  if (!c.runs.empty()) return lacks(f, "different strategies for different layers");
  if (auto reason = lacking_degree(f, c)) return reason;
  if (auto reason = broken_rule(f, c, ranks_per_node)) return reason;
  if (c.degrees.pp > 1 && !f.has(Decision::Layouts, "any")) return lacks(f, "pipeline layouts");
  if (!f.has(Decision::RankOrders, name_of(c.rank_order))) return lacks(f, "rank order " + name_of(c.rank_order));
  if (!f.has(Decision::Orders, name_of(c.order))) return lacks(f, "order of operations " + name_of(c.order));
  if (!f.has(Decision::Placements, c.placement.name())) return lacks(f, "placement " + c.placement.name());
  if (c.pipeline != PipelineShape::Interleaved && !f.has(Decision::Pipelines, name_of(c.pipeline)))
    return lacks(f, "stages in a V");
  if (c.ep_overlap && !f.has(Decision::Overlaps, "ep_overlap"))
    return lacks(f, "overlap of exchanges with a neighbouring microbatch");
  if (c.delays_weight_gradients && !f.has(Decision::Overlaps, "delay_wgrad"))
    return lacks(f, "delayed weight gradients");
  if (!(recomputed_by(f, c.recompute) == c.recompute)) return lacks(f, "recomputation of " + name_of(c.recompute));
  if (c.recompute == Recompute::Full && !f.has(Decision::Recompute, "full")) return lacks(f, "full recomputation");
  return std::nullopt;
}

std::vector<Recompute> recompute_levels(const Framework& framework) {
  std::vector<Recompute> levels{Recompute::None};
  for (const Recompute& level : {Recompute::Selective, Recompute::SelectiveAndMoe, Recompute::AllButAttention}) {
    const Recompute some = recomputed_by(framework, level);
    // Without `moe` it would be less than the level before.
    if (some.has_experts() == level.has_experts() && !(some == levels.back())) levels.push_back(some);
  }
  if (framework.has(Decision::Recompute, kPerOperation)) levels.push_back(Recompute::PerOperation);
  if (framework.has(Decision::Recompute, "full")) levels.push_back(Recompute::Full);
  return levels;
}

}  // namespace moeplan::planner
