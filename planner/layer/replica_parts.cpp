#include "planner/layer/replica_parts.hpp"

#include <cmath>

#include "model/base/whole_numbers.hpp"

namespace moeplan::planner {

/// Calls `write` for dense and for expert parameters, whose replicas are on different ranks.
template <class Write>
void ReplicaParts::each(const UnitParameters& parameters, Write write) const {
  for (const Kind& kind :
       {Kind{"dense", parameters.dense, groups.dp_cp}, Kind{"expert", parameters.expert, groups.edp}}) {
    if (kind.parameters > 0) write(kind, block.program().group(kind.replicas).size);
  }
}

/// The elements of one replica's shard, padded to a multiple of 64 as in Megatron-LM's gradient buffers.
std::int64_t ReplicaParts::shard(const Kind& kind) const {
  const std::int64_t size = block.program().group(kind.replicas).size;
  return ceil_div(ceil_div(static_cast<std::int64_t>(std::ceil(kind.parameters)), size), 64) * 64;
}

Slice ReplicaParts::flat(const Kind& kind, const char* what, Dtype dtype, std::int64_t n, std::int64_t columns) const {
  return block.slice(std::string(kind.name) + "." + what, columns, dtype, Rows::fixed(n));
}

void ReplicaParts::wait(OpClass op_class) const {
  block.then({.name = op_class == OpClass::WeightGather ? "wait for weights" : "wait for gradients",
              .op_class = op_class,
              .stream = Stream::Compute,
              .work = Wait{Stream::Replicas},
              .reads = {},
              .writes = {},
              .after = {}});
}

void ReplicaParts::gather_weights(const UnitParameters& parameters) const {
  const std::vector<std::int32_t> before = block.last();
  each(parameters, [&](const Kind& kind, std::int64_t replicas) {
    if (replicas == 1) return;
    block.after(before, collective(std::string(kind.name) + " weight all-gather", OpClass::WeightGather,
                                   Stream::Replicas, {.collective = Collective::AllGather, .group = kind.replicas},
                                   flat(kind, "weights", workload.dtype, shard(kind)),
                                   flat(kind, "weights", workload.dtype, shard(kind) * replicas)));
  });
  block.continue_after(before);
}

void ReplicaParts::reduce_gradients(const UnitParameters& parameters) const {
  const bool sharded = workload.zero_stage >= 1;
  const std::vector<std::int32_t> before = block.last();
  each(parameters, [&](const Kind& kind, std::int64_t replicas) {
    if (replicas == 1) return;
    const Slice all = flat(kind, "gradients", workload.gradient_dtype, shard(kind) * replicas);
    const Slice sum = sharded ? flat(kind, "gradients", workload.gradient_dtype, shard(kind)) : all;
    block.after(
        before,
        collective(std::string(kind.name) + (sharded ? " gradient reduce-scatter" : " gradient all-reduce"),
                   OpClass::Gradient, Stream::Replicas,
                   {.collective = sharded ? Collective::ReduceScatter : Collective::AllReduce, .group = kind.replicas},
                   all, sum));
  });
  block.continue_after(before);
}

void ReplicaParts::update(const UnitParameters& parameters) const {
  const std::int64_t bytes = optimizer_bytes(workload);
  const bool is_fp32 = bytes % size_of(Dtype::Fp32) == 0;
  const Dtype format = is_fp32 ? Dtype::Fp32 : Dtype::Bf16;  // only the bytes matter
  const std::int64_t states = bytes / size_of(format);
  each(parameters, [&](const Kind& kind, std::int64_t replicas) {
    const std::int64_t n = workload.zero_stage >= 1 ? shard(kind) : shard(kind) * replicas;
    block.then(kernel(std::string(kind.name) + " optimizer", OpClass::Optimizer, Kernel::Optimizer,
                      {flat(kind, "gradients", workload.gradient_dtype, n), flat(kind, "states", format, n, states)},
                      {flat(kind, "states", format, n, states), flat(kind, "weights", workload.dtype, n)}));
  });
}

}  // namespace moeplan::planner
