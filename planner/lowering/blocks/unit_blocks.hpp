// The blocks of a Program by what they do: a pass through a unit of the model, a transfer of weights or activations,
// the optimizer. A block that is asked for again is the same one.
#pragma once

#include <compare>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/lowering/blocks/model_units.hpp"
#include "planner/lowering/blocks/offloaded.hpp"

namespace moeplan::planner {

/// The transfers that a block performs for the replicas of the parameters (ZeRO, data parallelism), in addition to its
/// part of the model.
struct UnitDuties {
  bool waits_for_weights = false;
  std::optional<std::size_t> gathers{};            // the unit whose weights it gathers concurrently
  bool reduces = false;                            // reduces its gradients, once they are complete
  std::optional<std::size_t> reduces_preceding{};  // the unit before it, whose gradients it reduces concurrently
  bool plans_placement = false;                    // of a strategy that plans in every iteration
  // For placed experts with copies (copy_parts.hpp):
  bool waits_for_copies = false;
  std::optional<std::size_t> sends_copies{};  // the unit to whose copies it sends weights concurrently
  bool collects_copies = false;               // sends the gradients of copies home
  auto operator<=>(const UnitDuties&) const = default;
};

/// Writes blocks into the context's Program, each at its first use.
class UnitBlocks {
 public:
  UnitBlocks(LoweringContext& context, const ModelUnits& units) : context_(context), units_(units) {}

  /// The forward or backward pass of one microbatch through a unit.
  BlockId pass(std::size_t unit, bool forward, const UnitDuties& duties);
  /// The backward pass of one microbatch through a unit, concurrently with the forward pass of another one through
  /// another unit (paired_blocks.hpp).
  BlockId pair(std::size_t backward, std::size_t forward);
  /// Gathers a unit's weights from their ZeRO shards.
  BlockId gather_weights(std::size_t unit);
  /// Reduces a unit's gradients to their ZeRO shards.
  BlockId reduce_gradients(std::size_t unit);
  /// Sends weights to the copies of a unit's experts.
  BlockId send_copies(std::size_t unit);
  /// Sends activations to the stage `shift` stages ahead, which holds the next part of the model, or receives them from
  /// the one as far behind, which holds the preceding part; backward: gradients, in the opposite order of parts.
  BlockId message(bool forward, bool sends, std::int64_t shift);
  /// The optimizer's step on the parameters of these units. The host launches it for the tensors of those whose
  /// backward pass was written before.
  BlockId update(const std::vector<std::size_t>& units);

 private:
  struct Passes {
    std::map<std::pair<bool, UnitDuties>, BlockId> blocks;  // by forward (or backward) and duties
    std::optional<BlockId> forward;                         // the first one created
  };

  /// What a unit's layer keeps in host memory from its forward to its backward pass.
  [[nodiscard]] const std::vector<OffloadedModule>& offloaded(std::size_t unit);
  /// Appends the host's launches of this many operations.
  void launch(std::int64_t operations, BlockBuilder& block) const;
  /// Appends the reduction of gradients, averaged before.
  void reduce_gradients(const UnitParameters& parameters, BlockBuilder& block) const;
  /// Weight tensors of a unit, from its backward pass; 0 if none was written.
  [[nodiscard]] std::int64_t tensors_of(std::size_t unit) const;
  /// The block that is known of the unit, or else a new one, named after the unit and `suffix`, as `write` fills it.
  BlockId once(std::map<std::size_t, BlockId>& known, std::size_t unit, const char* suffix,
               const std::function<void(BlockBuilder&)>& write);
  void write_forward(const ModelUnit& unit, const UnitDuties& duties, BlockBuilder& block);
  void write_backward(const ModelUnit& unit, const UnitDuties& duties, BlockBuilder& block);
  [[nodiscard]] MoeLayer moe_layer(std::size_t unit) {
    return context_.moe_layer(*units_[unit].moe(), units_[unit].routing, units_[unit].recompute);
  }

  LoweringContext& context_;
  const ModelUnits& units_;
  std::map<std::size_t, Passes> passes_;                              // by unit
  std::map<std::size_t, std::vector<OffloadedModule>> offloaded_;     // by unit
  std::map<std::pair<std::size_t, std::size_t>, BlockId> pairs_;      // by backward, forward unit
  std::map<std::size_t, BlockId> gathers_;                            // by unit
  std::map<std::size_t, BlockId> reductions_;                         // by unit
  std::map<std::size_t, BlockId> copies_;                             // by unit
  std::map<std::tuple<bool, bool, std::int64_t>, BlockId> messages_;  // by forward, sends, shift
  std::vector<std::pair<UnitParameters, BlockId>> updates_;
};

}  // namespace moeplan::planner
