// Traffic between the replicas of parameters: gradients to their sums, weights back from their shards, the optimizer.
//
// Gradients are kept and summed in fp32, as Megatron-LM does by default for 16-bit training. ZeRO (S. Rajbhandari et
// al., SC'20): stage 0 all-reduces gradients; 1 and 2 reduce-scatter them and all-gather the updated weights before
// their first use; 3 gathers weights before every use. All of it runs on the replicas' background stream.
#pragma once

#include "model/costs/memory.hpp"
#include "model/workload/workload.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

struct ReplicaParts {
  const Workload& workload;
  Groups groups;
  BlockBuilder& block;

  /// Until what earlier blocks left on the stream has ended.
  void wait(OpClass op_class) const;
  /// Beside what is appended next.
  void gather_weights(const UnitParameters& parameters) const;
  /// After all that was appended; what is appended next does not wait for it.
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
