#include "planner/candidate/stage_layout.hpp"

#include <algorithm>
#include <cassert>
#include <numeric>

#include "model/base/to_index.hpp"
#include "model/base/whole_numbers.hpp"
#include "model/costs/model_flops.hpp"
#include "planner/candidate/pipeline_tasks.hpp"
#include "planner/placement/slots.hpp"

namespace moeplan::planner {

namespace {

/// The first layer of each part if no part may exceed `most`, filling the last parts first; empty if that is
/// impossible.
std::vector<std::size_t> cuts(const std::vector<double>& cost, double head, std::size_t parts, double most) {
  std::vector<std::size_t> first(parts);
  std::size_t end = cost.size();
  for (std::size_t p = parts; p-- > 0;) {
    double sum = p + 1 == parts ? head : 0;
    std::size_t begin = end;
    while (begin > p && sum + cost[begin - 1] <= most) sum += cost[--begin];  // one layer per preceding part remains
    if (begin == end) return {};
    first[p] = end = begin;
  }
  return end == 0 ? first : std::vector<std::size_t>{};
}

std::vector<LayerSpec> all_layers(const ModelSpec& model) {
  std::vector<LayerSpec> layers;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) layers.insert(layers.end(), run.pattern.begin(), run.pattern.end());
  }
  return layers;
}

}  // namespace

namespace {

/// Forward FLOPs of a token, by layer, and those of the head with layers of multi-token prediction.
struct ForwardFlops {
  ForwardFlops(const ModelSpec& model, std::int64_t sequence_length, std::int64_t mtp_layers) {
    ModelSpec one = model;
    one.layers.clear();
    const double of_head = forward_flops_per_token(one, sequence_length);
    head = of_head;
    if (mtp_layers > 0) head += static_cast<double>(mtp_layers) * mtp_flops_per_token(model, sequence_length);
    for (const RepeatedLayers& run : model.layers) {
      std::vector<double> pattern;
      for (const LayerSpec& layer : run.pattern) {
        one.layers = {{1, {layer}}};
        pattern.push_back(forward_flops_per_token(one, sequence_length) - of_head);
      }
      for (std::int64_t i = 0; i < run.repeat; ++i) layers.insert(layers.end(), pattern.begin(), pattern.end());
    }
  }
  [[nodiscard]] double longest() const { return *std::max_element(layers.begin(), layers.end()); }
  [[nodiscard]] double all() const { return std::accumulate(layers.begin(), layers.end(), head); }

  std::vector<double> layers;
  double head = 0;
};

/// The first layer of each part of a V if no stage may exceed `most` and no part `most_of_part`; empty if that is
/// impossible.
std::vector<std::size_t> cuts_in_v(const ForwardFlops& flops, std::size_t stages, double most, double most_of_part) {
  const std::size_t n = flops.layers.size();
  std::vector<double> front_sum{0}, back_sum{0};  // of so many layers at the front, and at the back
  for (const double f : flops.layers) front_sum.push_back(front_sum.back() + f);
  std::for_each(flops.layers.rbegin(), flops.layers.rend(), [&](double f) { back_sum.push_back(back_sum.back() + f); });
  // By the number of layers that the outer stages have at the front: the most that they can have at the back, and how
  // many of the front are before this stage.
  struct Reach {
    std::size_t back = 0, before = 0;
    bool is_possible = false;
  };
  std::vector<std::vector<Reach>> reach(stages + 1, std::vector<Reach>(n + 1));
  reach.front().front().is_possible = true;
  for (std::size_t s = 0; s < stages; ++s) {
    const std::size_t inner = 2 * (stages - s - 1);  // parts that are left, each with a layer
    for (std::size_t front = 0; front <= n; ++front) {
      const Reach& outer = reach[s][front];
      if (!outer.is_possible) continue;
      for (std::size_t x = 1; front + x + outer.back + 1 + inner <= n; ++x) {
        const double own = front_sum[front + x] - front_sum[front];
        if (own > most_of_part) break;
        const double room = std::min(most - own, most_of_part) - (s == 0 ? flops.head : 0);
        const auto first = back_sum.begin() + static_cast<std::ptrdiff_t>(outer.back);
        const auto end = back_sum.end() - static_cast<std::ptrdiff_t>(front + x + inner);
        const auto back = static_cast<std::size_t>(std::upper_bound(first, end, *first + room) - back_sum.begin());
        if (back <= outer.back + 1) break;  // not even one layer
        Reach& known = reach[s + 1][front + x];
        if (!known.is_possible || back - 1 > known.back) known = {back - 1, front, true};
      }
    }
  }
  for (std::size_t last = 0; last <= n; ++last) {
    const Reach& end = reach.back()[last];
    if (!end.is_possible || last + end.back != n) continue;
    std::vector<std::size_t> first(2 * stages);
    std::size_t front = last;
    for (std::size_t s = stages; s > 0; --s) {
      const Reach& r = reach[s][front];
      first[2 * stages - s] = n - r.back;
      first[s - 1] = front = r.before;
    }
    return first;
  }
  return {};
}

/// The least `most` for which cut(most) is not empty, rounded up by at most 1e-12 of it, between the longest layer and
/// all.
template <class Cut>
double least_most(const ForwardFlops& flops, const Cut& cut) {
  double least = flops.longest(), most = flops.all();
  while (most - least > 1e-12 * most) {
    const double middle = (least + most) / 2;
    (cut(middle).empty() ? least : most) = middle;
  }
  return most;
}

/// Parts that begin at these layers.
std::vector<StagePart> parts_from(const std::vector<LayerSpec>& layers, const std::vector<std::size_t>& first,
                                  std::int64_t mtp_layers) {
  std::vector<StagePart> out(first.size());
  for (std::size_t p = 0; p < first.size(); ++p) {
    const std::size_t end = p + 1 < first.size() ? first[p + 1] : layers.size();
    out[p].layers.assign(layers.begin() + static_cast<std::ptrdiff_t>(first[p]),
                         layers.begin() + static_cast<std::ptrdiff_t>(end));
  }
  out.front().embedding = true;
  out.back().head = true;
  out.back().mtp_layers = mtp_layers;
  return out;
}

}  // namespace

StagePart whole_model(const ModelSpec& model) {
  return {.layers = all_layers(model), .embedding = true, .head = true, .mtp_layers = model.num_mtp_layers};
}

std::vector<StagePart> stage_parts(const ModelSpec& model, std::int64_t sequence_length, std::int64_t parts,
                                   std::int64_t mtp_layers) {
  const std::vector<LayerSpec> layers = all_layers(model);
  assert(parts >= 1 && static_cast<std::size_t>(parts) <= layers.size());
  const ForwardFlops flops(model, sequence_length, mtp_layers);
  const auto cut = [&](double most) { return cuts(flops.layers, flops.head, static_cast<std::size_t>(parts), most); };
  return parts_from(layers, cut(least_most(flops, cut)), mtp_layers);
}

std::int64_t mtp_layers_of(const Workload& workload, const Candidate& candidate) {
  return candidate.layout.empty() ? workload.mtp_layers : candidate.layout.mtp_layers();
}

std::vector<StagePart> stage_parts(const ModelSpec& model, const Workload& workload, const Candidate& candidate) {
  const PipelineLayout& layout = candidate.layout;
  const std::vector<LayerSpec> layers = all_layers(model);
  if (layout.empty() && candidate.pipeline == PipelineShape::V) {
    const ForwardFlops flops(model, workload.sequence_length, workload.mtp_layers);
    const auto stages = static_cast<std::size_t>(candidate.degrees.pp);
    const double most = least_most(flops, [&](double m) { return cuts_in_v(flops, stages, m, m); });
    const auto cut = [&](double most_of_part) { return cuts_in_v(flops, stages, most, most_of_part); };
    return parts_from(layers, cut(least_most(flops, cut)), workload.mtp_layers);
  }
  if (layout.empty()) {
    return stage_parts(model, workload.sequence_length, candidate.degrees.pp * candidate.virtual_stages,
                       workload.mtp_layers);
  }
  assert(layout.layers() == std::ssize(layers) && "infeasibility() checks the layout");
  std::vector<StagePart> out;
  auto next = layers.begin();
  for (const LayoutPart& part : layout.parts) {
    out.push_back({.layers = {next, next + part.layers},
                   .embedding = part.embedding,
                   .head = part.head,
                   .mtp_layers = part.mtp_layers});
    next += part.layers;
  }
  return out;
}

namespace {

/// The parameters of each of `ranks` on each stage, by stage. `layer_of` returns a layer's parameters by rank, or one
/// value for all ranks; it receives the layer's index among the MoE layers.
template <class Layer>
std::vector<std::vector<StageParameters>> parameters_by_rank(const ModelSpec& model,
                                                             const std::vector<StagePart>& parts,
                                                             const Degrees& degrees, PipelineShape shape,
                                                             std::int64_t ranks, const Layer& layer_of) {
  std::vector<std::vector<StageParameters>> stages(static_cast<std::size_t>(degrees.pp),
                                                   std::vector<StageParameters>(static_cast<std::size_t>(ranks)));
  std::size_t moe_layers_before = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    const auto number = [&](std::size_t part) { return stage_of(shape, degrees.pp, static_cast<std::int64_t>(part)); };
    std::vector<StageParameters>& stage = stages[to_index(number(p))];
    const auto add = [&](const std::vector<UnitParameters>& units) {
      for (std::size_t r = 0; r < stage.size(); ++r) {
        const UnitParameters& unit = units.size() == 1 ? units.front() : units[r];
        stage[r].all += unit;
        if (unit.dense + unit.expert > stage[r].largest.dense + stage[r].largest.expert) stage[r].largest = unit;
      }
    };
    if (parts[p].embedding) add({embedding_parameters(model, degrees)});
    for (const LayerSpec& layer : parts[p].layers) {
      add(layer_of(layer, moe_layers_before));
      if (std::holds_alternative<Moe>(layer.ffn)) ++moe_layers_before;
    }
    for (std::int64_t i = 0; i < parts[p].mtp_layers; ++i) {
      add({mtp_input_parameters(model, degrees)});
      add(layer_of(mtp_layer(model), std::max<std::size_t>(moe_layers_before, 1) - 1));
    }
    if (parts[p].head) add({head_parameters(model, degrees, /*has_embedding=*/number(p) == 0)});
    // Multi-token prediction embeds tokens and predicts them with the model's own tables, of which its stage has
    // copies.
    if (parts[p].mtp_layers > 0 && stages.size() > 1) {
      if (number(p) != 0) add({embedding_parameters(model, degrees)});
      if (number(parts.size() - 1) != number(p)) add({head_parameters(model, degrees, number(p) == 0)});
    }
  }
  return stages;
}

}  // namespace

namespace {

std::vector<StageParameters> contiguous_parameters(const ModelSpec& model, const std::vector<StagePart>& parts,
                                                   const Degrees& degrees, PipelineShape shape) {
  const auto layer_of = [&](const LayerSpec& layer, std::size_t) {
    return std::vector<UnitParameters>{layer_parameters(model, layer, degrees)};
  };
  std::vector<StageParameters> out;
  for (const std::vector<StageParameters>& rank :
       parameters_by_rank(model, parts, degrees, shape, /*ranks=*/1, layer_of)) {
    out.push_back(rank.front());
  }
  return out;
}

}  // namespace

std::vector<StageParameters> stage_parameters(const ModelSpec& model, std::int64_t sequence_length,
                                              const Degrees& degrees, std::int64_t virtual_stages) {
  return contiguous_parameters(model, stage_parts(model, sequence_length, degrees.pp * virtual_stages), degrees,
                               PipelineShape::Interleaved);
}

std::vector<StageParameters> stage_parameters(const ModelSpec& model, const Workload& workload,
                                              const Candidate& candidate) {
  const Degrees& d = candidate.degrees;
  const std::vector<StagePart> parts = stage_parts(model, workload, candidate);
  if (candidate.expert_places.empty()) return contiguous_parameters(model, parts, d, candidate.pipeline);
  const std::vector<std::size_t> kinds = routing_kinds(model, workload.recorded.has_value());
  const auto layer_of = [&](const LayerSpec& layer, std::size_t number) {
    const UnitParameters whole = layer_parameters(model, layer, d);
    const Moe* moe = std::get_if<Moe>(&layer.ffn);
    return moe ? placed_parameters(whole, *moe, candidate.expert_places[kinds[number]], d.ep)
               : std::vector<UnitParameters>{whole};
  };
  std::vector<StageParameters> fullest;
  for (const std::vector<StageParameters>& ranks :
       parameters_by_rank(model, parts, d, candidate.pipeline, d.ep, layer_of)) {
    const auto bytes = [&](const StageParameters& s) { return state_memory(s, workload, d).total(); };
    fullest.push_back(
        *std::max_element(ranks.begin(), ranks.end(),
                          [&](const StageParameters& a, const StageParameters& b) { return bytes(a) < bytes(b); }));
  }
  return fullest;
}

std::vector<UnitParameters> placed_parameters(const UnitParameters& layer, const Moe& moe, const Placement& placement,
                                              std::int64_t ep) {
  const double each = layer.expert / static_cast<double>(ceil_div(moe.num_experts, ep));
  std::vector<UnitParameters> out;
  for (const SlotUse& use : slot_use(placement, ep)) {
    out.push_back({.dense = layer.dense,
                   .expert = each * static_cast<double>(use.homes),
                   .copied = each * static_cast<double>(use.copies)});
  }
  return out;
}

std::vector<Moe> moe_layers(const ModelSpec& model) {
  std::vector<Moe> out;
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const LayerSpec& layer : run.pattern) {
        if (const Moe* moe = std::get_if<Moe>(&layer.ffn)) out.push_back(*moe);
      }
    }
  }
  return out;
}

std::vector<std::size_t> routing_kinds(const ModelSpec& model, bool is_recorded) {
  const std::vector<Moe> layers = moe_layers(model);
  std::vector<std::size_t> kinds;
  std::vector<Moe> known;
  for (const Moe& moe : layers) {
    const auto it = std::find(known.begin(), known.end(), moe);
    kinds.push_back(static_cast<std::size_t>(it - known.begin()));
    if (it == known.end() || is_recorded) {
      kinds.back() = known.size();
      known.push_back(moe);
    }
  }
  return kinds;
}

std::int64_t number_of_routing_kinds(const ModelSpec& model, bool is_recorded) {
  std::size_t count = 0;
  for (const std::size_t kind : routing_kinds(model, is_recorded)) count = std::max(count, kind + 1);
  return static_cast<std::int64_t>(count);
}

}  // namespace moeplan::planner
