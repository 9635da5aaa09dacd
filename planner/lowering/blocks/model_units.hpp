// The units of a model: its embedding, each kind of layer, its output head. Equal layers are one unit, whose blocks are
// written once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/costs/memory.hpp"
#include "planner/lowering/blocks/lowering_context.hpp"

namespace moeplan::planner {

struct ModelUnit {
  std::string name;
  std::optional<LayerSpec> layer{};
  std::size_t routing = 0;  // kind of routing of an MoE layer
  Recompute recompute{};    // of a layer
  bool keeps = true;        // of a layer: its activations stay on the GPU
  bool is_head = false;
  bool is_mtp_input = false;  // none of these, and no layer: the embedding
  UnitParameters parameters{};

  /// The feed-forward part of an MoE layer, or null.
  [[nodiscard]] const Moe* moe() const { return layer ? std::get_if<Moe>(&layer->ffn) : nullptr; }
};

/// The units found so far, by index.
class ModelUnits {
 public:
  explicit ModelUnits(const LoweringContext& context) : context_(context) {}

  [[nodiscard]] std::size_t embedding() { return index_of({.name = "embedding"}); }
  [[nodiscard]] std::size_t head() { return index_of({.name = "output head", .is_head = true}); }
  [[nodiscard]] std::size_t mtp_input() { return index_of({.name = "mtp input", .is_mtp_input = true}); }
  /// `recomputes`, `offloads`: whether the workload's recomputation, or what it keeps in host memory, applies to it.
  [[nodiscard]] std::size_t layer(const LayerSpec& layer, std::size_t routing, bool recomputes, bool offloads);

  [[nodiscard]] const ModelUnit& operator[](std::size_t index) const { return units_[index]; }
  /// Whether the unit has experts with copies.
  [[nodiscard]] bool has_copies(std::size_t index) const {
    return units_[index].moe() && context_.has_copies(units_[index].routing);
  }

 private:
  [[nodiscard]] std::size_t index_of(ModelUnit unit);
  [[nodiscard]] UnitParameters parameters_of(const ModelUnit& unit) const;

  const LoweringContext& context_;
  std::vector<ModelUnit> units_;
  std::int64_t layers_ = 0;  // number of kinds of layers
};

}  // namespace moeplan::planner
