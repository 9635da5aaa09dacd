// The time of a fused mixture-of-experts layer on one GPU, as inference libraries run it: two grouped products, the
// activation between them, and the kernels around them that route, sort, gather, quantise and add up.
// docs/operators.md derives it and lists the fitted numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/quantity.hpp"
#include "model/operators/grouped_gemm_model.hpp"
#include "model/operators/math_format.hpp"
#include "model/text/reader.hpp"

namespace moeplan {

/// One GPU of a group of ep x tp. `tokens` are those of the whole ep group.
struct FusedMoeShape {
  std::int64_t hidden = 0, expert_hidden = 0;  // expert_hidden before the split by tp
  std::int64_t experts = 1, top_k = 1, ep = 1, tp = 1, tokens = 0;
};

/// Rows of the local experts if the router is exactly even: choice i of token t is expert (t + i x stride) mod experts,
/// stride = ceil(experts / top_k); fewer tokens than that are spread. Equal rows are counted together.
[[nodiscard]] std::vector<ExpertLoad> balanced_loads(const FusedMoeShape& shape);

/// Expected numbers of local experts with so many rows if every token draws its experts evenly: a binomial
/// distribution, in five classes if an expert has more than 400 rows.
[[nodiscard]] std::vector<ExpertLoad> random_loads(const FusedMoeShape& shape);

/// What a library quantises inside the layer.
enum class LayerQuantisation {
  None,
  Tokens,  // before they are gathered
  Rows     // gathered rows, and the activations
};

/// The numbers of a GPU's fused layers in one format with one library.
struct FusedMoeModel {
  MathFormat format = MathFormat::Bf16;
  std::string library;
  std::string products;  // library of the grouped products
  // What the library runs: not fitted.
  LayerQuantisation quantises = LayerQuantisation::None;
  bool gathers = true;   // a kernel writes the gathered rows; else the products read rows in place
  Seconds sort;          // from 256 tokens on the maps of experts take three kernels instead of one
  Seconds router;        // above 128 experts routing runs as several kernels ...
  Seconds router_token;  // ... that take this for each token
  // Fitted.
  Seconds fixed;          // launches of all kernels of the layer
  BytesPerSecond around;  // HBM rate of the kernels around the products
  Seconds local_expert;   // for each local expert: descriptors, prefix sums
  bool fits_all = false;  // fitted to all rows, too few to hold any out
  bool operator==(const FusedMoeModel&) const = default;
};

/// The time of a fused layer, and how it comes about.
struct FusedMoeCost {
  Seconds fixed, routing, around;
  GroupedGemmCost up, down;  // both halves of the gated product, and the product back to hidden
  [[nodiscard]] Seconds time() const { return fixed + routing + around + up.time() + down.time(); }
  /// "launch", "routing", "math" or "memory": the longest part.
  [[nodiscard]] std::string_view bound() const;
};

/// The cost of a layer with these rows of its local experts. `products` are the figures that `model.products` names.
[[nodiscard]] FusedMoeCost fused_moe_cost(const FusedMoeModel& model, const GroupedGemmModel& products,
                                          std::int64_t num_sms, const FusedMoeShape& shape,
                                          std::span<const ExpertLoad> loads);

/// Reads one entry of the list `fused_moe` of a file in configs/operators.
[[nodiscard]] FusedMoeModel read_fused_moe_model(MapReader entry);

}  // namespace moeplan
