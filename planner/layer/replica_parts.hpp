// Data-parallel traffic between the replicas of parameters: gradient reduction, weight gathering, and the optimizer.
//
// Gradients are kept and summed in fp32, which is Megatron-LM's default for 16-bit training. ZeRO (S. Rajbhandari et
// al., SC'20): stage 0 all-reduces gradients; stages 1 and 2 reduce-scatter them and all-gather the updated weights
// before their first use; stage 3 gathers weights before every use. All of it runs on the replicas' background stream.
#pragma once

#include "model/costs/memory.hpp"
#include "model/workload/workload.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

/// Writes the traffic of a unit of parameters into a block.
struct ReplicaParts {
  const Workload& workload;
  Groups groups;
  BlockBuilder& block;

  /// Waits until the operations that earlier blocks put on the background stream have ended.
  void wait(OpClass op_class) const;
  /// Gathers weights concurrently with the operations appended next.
  void gather_weights(const UnitParameters& parameters) const;
  /// Reduces gradients after all operations appended before; operations appended next do not wait for it.
  void reduce_gradients(const UnitParameters& parameters) const;
  void update(const UnitParameters& parameters) const;

 private:
  struct Kind {
    const char* name;
    double parameters;
    GroupId replicas;
  };
  template <class Write>
  void each(const UnitParameters& parameters, Write write) const;
  [[nodiscard]] std::int64_t shard(const Kind& kind) const;
  [[nodiscard]] Slice flat(const Kind& kind, const char* what, Dtype dtype, std::int64_t n,
                           std::int64_t columns = 1) const;
};

}  // namespace moeplan::planner
