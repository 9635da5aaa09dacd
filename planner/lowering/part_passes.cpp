#include "planner/lowering/part_passes.hpp"

#include <algorithm>
#include <cassert>
#include <optional>
#include <variant>

#include "planner/lowering/repeats.hpp"

namespace moeplan::planner {

namespace {

/// The transfers of a pass, in addition to the model.
struct PassDuties {
  bool gathers = false;                         // weights of its units, each concurrently with the one before
  bool waits_for_weights = false;               // which were gathered before
  std::vector<std::size_t> gathers_after = {};  // units of another part
  bool reduces = false;
  bool moves_copies = false;  // forward: weights to copies of experts; backward: their gradients home
};

std::size_t longest_pattern(const ModelSpec& model) {
  std::size_t longest = 1;
  for (const RepeatedLayers& run : model.layers) longest = std::max(longest, run.pattern.size());
  return longest;
}

/// One part of the model between its neighbours.
struct Part {
  const LoweringContext& context;
  const ModelUnits& units;
  UnitBlocks& blocks;
  const PartPosition& position;
  std::size_t longest;  // number of layers in a repeated pattern

  /// Whether it is an MoE layer whose placement is planned in every iteration.
  [[nodiscard]] bool plans(const ModelUnit& unit) const { return context.replans() && unit.moe() != nullptr; }

  /// One microbatch through the units in this order, with the messages from and to the preceding and following parts.
  [[nodiscard]] Sequence pass(const std::vector<std::size_t>& order, bool forward, const PassDuties& does) const {
    Sequence out;
    if (does.gathers) out.push_back({.block = blocks.gather_weights(order.front())});
    const auto copied = [&](std::size_t i) {
      return does.moves_copies && i < order.size() && units.has_copies(order[i]);
    };
    const auto sent_before = [&](std::size_t i) {
      return forward && copied(i) && !context.has_blocking_transfers(units[order[i]].routing);
    };
    if (sent_before(0)) out.push_back({.block = blocks.send_copies(order.front())});
    const std::int64_t from = forward ? position.from_preceding : -position.to_next;
    const std::int64_t to = forward ? position.to_next : -position.from_preceding;
    if (from != 0) out.push_back({.block = blocks.message(forward, /*sends=*/false, from)});
    // The next unit waits for all transfers begun before it, for its weights: a reduction begins after that wait.
    const bool reduces_later = does.reduces && does.gathers;
    Sequence steps;
    for (std::size_t i = 0; i < order.size(); ++i) {
      UnitDuties duties{.waits_for_weights = does.gathers, .reduces = does.reduces && !reduces_later};
      if (i == 0) duties.waits_for_weights |= does.waits_for_weights;
      if (reduces_later && i > 0) duties.reduces_preceding = order[i - 1];
      if (does.gathers && i + 1 < order.size()) duties.gathers = order[i + 1];
      duties.plans_placement = forward && does.moves_copies && plans(units[order[i]]);
      duties.waits_for_copies = forward && copied(i);
      if (sent_before(i + 1)) duties.sends_copies = order[i + 1];
      duties.collects_copies = !forward && copied(i);
      steps.push_back({.block = blocks.pass(order[i], forward, duties)});
    }
    append_folded(out, steps, longest);
    if (reduces_later) out.push_back({.block = blocks.reduce_gradients(order.back())});
    Sequence gathered;
    for (const std::size_t unit : does.gathers_after) gathered.push_back({.block = blocks.gather_weights(unit)});
    append_folded(out, gathered, longest);
    if (to != 0) out.push_back({.block = blocks.message(forward, /*sends=*/true, to)});
    return out;
  }
};

}  // namespace

std::vector<std::size_t> part_units(const LoweringContext& context, const StagePart& part, const PartPosition& position,
                                    const std::vector<std::size_t>& kinds, ModelUnits& units) {
  const RecomputedLayers& recomputed = context.workload().recompute_layers;
  std::size_t moe_layer = position.moe_layers_before;
  std::vector<std::size_t> out;
  if (part.embedding) out.push_back(units.embedding());
  for (std::size_t i = 0; i < part.layers.size(); ++i) {
    const LayerSpec& layer = part.layers[i];
    const bool is_moe = std::holds_alternative<Moe>(layer.ffn);
    const auto own = static_cast<std::int64_t>(i);
    const bool is_last = position.turns && part.mtp_layers == 0 && i + 1 == part.layers.size();
    out.push_back(units.layer(layer, is_moe ? kinds[moe_layer++] : 0,
                              recomputed.contains(position.layers_before + own, own), !is_last));
  }
  for (std::int64_t i = 0; i < part.mtp_layers; ++i) {
    const LayerSpec& layer = mtp_layer(context.model());
    const std::size_t kind = std::holds_alternative<Moe>(layer.ffn) ? kinds.back() : 0;
    const bool is_last = position.turns && i + 1 == part.mtp_layers;
    out.insert(out.end(), {units.mtp_input(), units.layer(layer, kind, /*recomputes=*/true, !is_last), units.head()});
  }
  if (part.head) out.push_back(units.head());
  assert(out.size() == number_of_units(part) && "both list the same units");
  return out;
}

std::size_t number_of_units(const StagePart& part) {
  constexpr std::size_t kOfMtpLayer = 3;  // input, layer, head
  return (part.embedding ? 1 : 0) + part.layers.size() + kOfMtpLayer * static_cast<std::size_t>(part.mtp_layers) +
         (part.head ? 1 : 0);
}

ReplicaTransfers replica_transfers(const LoweringContext& context) {
  const bool are_sharded = context.has_replicas() && context.trains();
  const bool overlaps = are_sharded && context.workload().overlap_gradients;
  const std::int64_t zero_stage = context.workload().zero_stage;
  return {.gathers_always = are_sharded && zero_stage == 3,
          .gathers_once = overlaps && (zero_stage == 1 || zero_stage == 2),
          .reduces_always = are_sharded && zero_stage >= 2,
          .reduces_last = overlaps};
}

std::vector<PartPasses> stage_passes(const LoweringContext& context, const StageParts& stage,
                                     const std::vector<std::size_t>& kinds, ModelUnits& units, UnitBlocks& blocks) {
  const bool trains = context.trains();
  const auto [always, once, reduces_always, reduces_last] = replica_transfers(context);
  std::vector<PartPasses> passes(stage.parts.size());
  for (std::size_t v = 0; v < passes.size(); ++v) {
    passes[v].position = stage.positions[v];
    const auto has_layers = [](const StagePart& part) { return !part.layers.empty() || part.mtp_layers > 0; };
    const auto rest = stage.parts.begin() + static_cast<std::ptrdiff_t>(v) + 1;
    passes[v].position.turns = stage.parts.back().head && std::none_of(rest, stage.parts.end(), has_layers);
    passes[v].units = part_units(context, stage.parts[v], passes[v].position, kinds, units);
  }
  for (std::size_t v = 0; v < passes.size(); ++v) {
    PartPasses& out = passes[v];
    const Part p{context, units, blocks, out.position, longest_pattern(context.model())};
    out.forward = p.pass(out.units, true, {.gathers = always});
    PassDuties first{.gathers = always || (once && v == 0), .waits_for_weights = once && v > 0, .moves_copies = trains};
    if (once && v + 1 < passes.size()) first.gathers_after = passes[v + 1].units;
    out.first_forward = p.pass(out.units, true, first);
    if (!trains) continue;
    const std::vector<std::size_t> reversed(out.units.rbegin(), out.units.rend());
    out.backward = p.pass(reversed, false, {.gathers = always, .reduces = reduces_always});
    out.last_backward = p.pass(reversed, false, {.gathers = always, .reduces = reduces_last, .moves_copies = true});
  }
  return passes;
}

Sequence paired_pass(const LoweringContext& context, const PartPasses& backward, const PartPasses& forward,
                     const ModelUnits& units, UnitBlocks& blocks) {
  Sequence out;
  const auto message = [&](bool is_forward, bool sends, std::int64_t shift) {
    if (shift != 0) out.push_back({.block = blocks.message(is_forward, sends, shift)});
  };
  message(/*is_forward=*/true, /*sends=*/false, forward.position.from_preceding);
  message(/*is_forward=*/false, /*sends=*/false, -backward.position.to_next);
  const std::vector<std::size_t>& on = forward.units;
  const std::vector<std::size_t> back(backward.units.rbegin(), backward.units.rend());
  const auto is_layer = [&](const std::vector<std::size_t>& order, std::size_t i) {
    return i < order.size() && units[order[i]].layer.has_value();
  };
  Sequence steps;
  for (std::size_t i = 0, j = 0; i < on.size() || j < back.size();) {
    if (is_layer(on, i) && is_layer(back, j)) {
      steps.push_back({.block = blocks.pair(back[j++], on[i++])});
    } else if (i < on.size() && (!is_layer(on, i) || j == back.size())) {
      steps.push_back({.block = blocks.pass(on[i++], /*forward=*/true, {})});
    } else {
      steps.push_back({.block = blocks.pass(back[j++], /*forward=*/false, {})});
    }
  }
  append_folded(out, steps, longest_pattern(context.model()));
  message(/*is_forward=*/true, /*sends=*/true, forward.position.to_next);
  message(/*is_forward=*/false, /*sends=*/true, -backward.position.from_preceding);
  return out;
}

}  // namespace moeplan::planner
