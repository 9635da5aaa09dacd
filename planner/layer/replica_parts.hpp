// Data-parallel traffic between the replicas of parameters: gradient reduction, weight gathering, and the optimizer.
//
// Gradients are kept and summed in fp32, which is Megatron-LM's default for 16-bit training. ZeRO (S. Rajbhandari et
// al., SC'20): stage 0 all-reduces gradients; stages 1 and 2 reduce-scatter them and all-gather the updated weights
// before their first use; stage 3 gathers weights before every use. All of it runs on the replicas' background stream.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "model/costs/memory.hpp"
#include "model/workload/workload.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

/// Columns of the flat buffers of gradients, weights and optimizer states (for each value that the optimizer keeps):
/// Megatron-LM pads each replica's shard of them to a multiple of 64 elements.
inline constexpr std::int64_t kFlatColumns = 64;

/// Writes the traffic of a unit of parameters into a block.
struct ReplicaParts {
  const Workload& workload;
  Groups groups;
  BlockBuilder& block;

  /// Places weights in the flat buffers, in which executors then find them, each from the start of a row. Returns the
  /// parameters of both kinds, those of experts on the rank that has the most.
  [[nodiscard]] UnitParameters place(const std::vector<Slice>& weights) const;
  /// Places the gradients of placed weights in the same way, once the backward pass is written: its products then add
  /// to them in the format of gradients.
  void place_gradients(const std::vector<Slice>& weights) const;

  /// Waits until the operations that earlier blocks put on the background stream have ended.
  void wait(OpClass op_class) const;
  /// Gathers weights concurrently with the operations appended next.
  void gather_weights(const UnitParameters& parameters) const;
  /// Copies gathered weights out of their buffer, where they are gathered into one (copies_gathered()).
  void copy_out(const UnitParameters& parameters) const;
  /// Reduces gradients after all operations appended before; operations appended next do not wait for it.
  void reduce_gradients(const UnitParameters& parameters) const;
  /// Divides gradients by the number of their replicas, before they are reduced, where they are kept in buffers
  /// (keeps_gradients()). Not executed.
  void average_gradients(const UnitParameters& parameters) const;
  /// The sum of their squares, and their multiplication with what limits it. Not executed.
  void clip_gradients(const UnitParameters& parameters) const;
  /// Sets the buffers of gradients to zero, if there are any (keeps_gradients()). Not executed.
  void clear_gradients(const UnitParameters& parameters) const;
  /// Updates weights. Moments in 16 bits are cast to fp32 before and back after, those of all dense or of all experts'
  /// weights at once, back by way of a 16-bit copy (TransformerEngine's FusedAdam). States in host memory come before
  /// and leave after.
  void update(const UnitParameters& parameters) const;

 private:
  struct Kind {
    const char* name;
    double parameters;
    GroupId replicas;
  };
  /// What the optimizer reads and writes: the weights that it updates, with moments in fp32, or moments in 16 bits
  /// apart.
  struct States {
    Slice masters;
    std::optional<Slice> moments;
  };
  [[nodiscard]] States states(const Kind& kind) const;
  /// Moves all states, if they are in host memory between the updates.
  void move_states(const UnitParameters& parameters, bool to_host) const;
  template <class Write>
  void each(const UnitParameters& parameters, Write write) const;
  [[nodiscard]] std::int64_t shard(const Kind& kind) const;
  /// A flat buffer over all replicas' shards, or the rank's own part of it. `values`: per parameter.
  enum class Part { Own, All };
  [[nodiscard]] Slice flat(const Kind& kind, std::string_view what, Dtype dtype, Part part,
                           std::int64_t values = 1) const;
  void pass_over_gradients(const UnitParameters& parameters, const char* what, OpClass op_class, Part part, bool reads,
                           bool writes) const;
};

}  // namespace moeplan::planner
