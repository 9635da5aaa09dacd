#include "planner/lowering/blocks/model_units.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "planner/candidate/stage_layout.hpp"

namespace moeplan::planner {

std::size_t ModelUnits::layer(const LayerSpec& layer, std::size_t routing, bool recomputes, bool offloads) {
  ModelUnit unit{.name = {}, .layer = layer, .routing = routing};
  if (recomputes) unit.recompute = context_.recompute();
  unit.keeps = !offloads || !context_.workload().offload.has_activations();
  unit.name = fmt::format("{} {}", unit.moe() ? "moe layer" : "dense layer", layers_);
  const std::size_t known = units_.size();
  const std::size_t index = index_of(std::move(unit));
  if (index == known) ++layers_;
  return index;
}

std::size_t ModelUnits::index_of(ModelUnit unit) {
  const auto known = std::find_if(units_.begin(), units_.end(), [&](const ModelUnit& u) {
    return u.layer == unit.layer && u.routing == unit.routing && u.recompute == unit.recompute &&
           u.keeps == unit.keeps && u.is_head == unit.is_head && u.is_mtp_input == unit.is_mtp_input;
  });
  if (known != units_.end()) return static_cast<std::size_t>(known - units_.begin());
  unit.parameters = parameters_of(unit);
  units_.push_back(std::move(unit));
  return units_.size() - 1;
}

UnitParameters ModelUnits::parameters_of(const ModelUnit& unit) const {
  const Degrees& degrees = context_.degrees();
  if (unit.is_mtp_input) return mtp_input_parameters(context_.model(), degrees);
  if (!unit.layer) {
    return unit.is_head ? head_parameters(context_.model(), degrees, /*has_embedding=*/degrees.pp == 1)
                        : embedding_parameters(context_.model(), degrees);
  }
  const UnitParameters parameters = layer_parameters(context_.model(), *unit.layer, degrees);
  const std::vector<Placement>& places = context_.candidate().expert_places;
  if (!unit.moe() || places.empty()) return parameters;
  // Gradients and states belong to homes: the rank with most homes has the most work.
  const auto ranks = placed_parameters(parameters, *unit.moe(), places[unit.routing], degrees.ep);
  return *std::max_element(ranks.begin(), ranks.end(),
                           [](const UnitParameters& a, const UnitParameters& b) { return a.expert < b.expert; });
}

}  // namespace moeplan::planner
