#include "planner/layer/replica_parts.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>
#include <utility>

#include "model/base/whole_numbers.hpp"

namespace moeplan::planner {

namespace {

bool is_expert(const Slice& weight) { return weight.rows.kind == Rows::Kind::PerExpert; }

std::string flat_name(const Slice& weight, const std::string& what) {
  return (is_expert(weight) ? "expert." : "dense.") + what;
}

}  // namespace

/// Calls `write` for dense and for expert parameters, whose replicas are on different ranks.
template <class Write>
void ReplicaParts::each(const UnitParameters& parameters, Write write) const {
  for (const Kind& kind :
       {Kind{"dense", parameters.dense, groups.dp_cp}, Kind{"expert", parameters.expert, groups.edp}}) {
    if (kind.parameters > 0) write(kind, block.program().group(kind.replicas).size);
  }
}

/// The elements of one replica's shard, padded to whole rows.
std::int64_t ReplicaParts::shard(const Kind& kind) const {
  const std::int64_t size = block.program().group(kind.replicas).size;
  return ceil_div(ceil_div(static_cast<std::int64_t>(std::ceil(kind.parameters)), size), kFlatColumns) * kFlatColumns;
}

Slice ReplicaParts::flat(const Kind& kind, std::string_view what, Dtype dtype, Part part, std::int64_t values) const {
  const std::int64_t size = block.program().group(kind.replicas).size;
  Slice out = block.slice(fmt::format("{}.{}", kind.name, what), values * kFlatColumns, dtype,
                          Rows::fixed(shard(kind) * size / kFlatColumns));
  if (part == Part::Own && size > 1) out.rows.path = {{RowStep::Kind::Share, kind.replicas}};
  return out;
}

UnitParameters ReplicaParts::place(const std::vector<Slice>& weights) const {
  Program& program = block.program();
  UnitParameters out;
  for (const Slice& w : weights) {
    const BufferId whole = block.buffer(flat_name(w, "weights"), kFlatColumns, program.buffer(w.buffer).dtype);
    Buffer& weight = program.buffers[w.buffer.index()];
    double& parameters = is_expert(w) ? out.expert : out.dense;
    weight.part = {whole, static_cast<std::int64_t>(parameters)};
    const std::int64_t rows = w.rows.each * (is_expert(w) ? held_experts(program, w.rows.routing) : 1);
    parameters += static_cast<double>(ceil_div(rows * weight.columns, kFlatColumns) * kFlatColumns);
  }
  return out;
}

void ReplicaParts::place_gradients(const std::vector<Slice>& weights) const {
  Program& program = block.program();
  for (const Slice& w : weights) {
    const BufferId whole = block.buffer(flat_name(w, "gradients"), kFlatColumns, workload.gradient_dtype);
    const Buffer weight = program.buffer(w.buffer);
    const BufferId id = block.buffer("d." + weight.name, weight.columns, weight.dtype);
    Buffer& gradient = program.buffers[id.index()];
    gradient.dtype = workload.gradient_dtype;
    gradient.part = {whole, weight.part->first};
  }
}

void ReplicaParts::copy_out(const UnitParameters& parameters) const {
  if (!copies_gathered(workload)) return;
  each(parameters, [&](const Kind& kind, std::int64_t replicas) {
    const Slice all = flat(kind, "weights", workload.dtype, Part::All);
    if (replicas > 1)
      block.then(kernel(fmt::format("{} weights out of the buffer", kind.name), OpClass::WeightGather, Kernel::Copy,
                        {all}, {all}));
  });
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
                                   flat(kind, "weights", workload.dtype, Part::Own),
                                   flat(kind, "weights", workload.dtype, Part::All)));
  });
  block.continue_after(before);
}

void ReplicaParts::reduce_gradients(const UnitParameters& parameters) const {
  const bool sharded = workload.zero_stage >= 1;
  const auto all_of = [&](const Kind& kind) { return flat(kind, "gradients", workload.gradient_dtype, Part::All); };
  if (copies_gathered(workload)) {
    each(parameters, [&](const Kind& kind, std::int64_t replicas) {
      const Slice written = flat(kind, "d.weights", workload.dtype, Part::All);
      if (replicas > 1)
        block.then(kernel(fmt::format("{} gradients into a buffer", kind.name), OpClass::Gradient, Kernel::Copy,
                          {written}, {all_of(kind)}));
    });
  }
  const std::vector<std::int32_t> before = block.last();
  each(parameters, [&](const Kind& kind, std::int64_t replicas) {
    if (replicas == 1) return;
    const Slice all = all_of(kind);
    const Slice sum = sharded ? flat(kind, "gradients", workload.gradient_dtype, Part::Own) : all;
    block.after(
        before,
        collective(std::string(kind.name) + (sharded ? " gradient reduce-scatter" : " gradient all-reduce"),
                   OpClass::Gradient, Stream::Replicas,
                   {.collective = sharded ? Collective::ReduceScatter : Collective::AllReduce, .group = kind.replicas},
                   all, sum));
  });
  block.continue_after(before);
}

void ReplicaParts::pass_over_gradients(const UnitParameters& parameters, const char* what, OpClass op_class, Part part,
                                       bool reads, bool writes) const {
  each(parameters, [&](const Kind& kind, std::int64_t) {
    const std::vector<Slice> gradients{flat(kind, "gradients", workload.gradient_dtype, part)};
    block.then(kernel(fmt::format("{} {}", kind.name, what), op_class, Kernel::Copy,
                      reads ? gradients : std::vector<Slice>{}, writes ? gradients : std::vector<Slice>{}));
  });
}

void ReplicaParts::average_gradients(const UnitParameters& parameters) const {
  if (!keeps_gradients(workload) || block.program().group(groups.dp_cp).size == 1) return;
  pass_over_gradients(parameters, "gradients averaged", OpClass::Gradient, Part::All, /*reads=*/true, /*writes=*/true);
}

void ReplicaParts::clip_gradients(const UnitParameters& parameters) const {
  const Part part = workload.zero_stage >= 1 ? Part::Own : Part::All;
  pass_over_gradients(parameters, "gradient norm", OpClass::Optimizer, part, /*reads=*/true, /*writes=*/false);
  pass_over_gradients(parameters, "gradients clipped", OpClass::Optimizer, part, /*reads=*/true, /*writes=*/true);
}

void ReplicaParts::clear_gradients(const UnitParameters& parameters) const {
  if (!keeps_gradients(workload)) return;
  pass_over_gradients(parameters, "gradients cleared", OpClass::Optimizer, Part::All, /*reads=*/false, /*writes=*/true);
}

ReplicaParts::States ReplicaParts::states(const Kind& kind) const {
  const Part part = workload.zero_stage >= 1 ? Part::Own : Part::All;
  const bool updates_weights = workload.main_weights != MainWeights::Separate;
  // Only the bytes matter.
  const std::int64_t halves =
      (updates_weights ? weight_bytes(workload) : master_bytes(workload)) / size_of(Dtype::Bf16);
  const std::int64_t moments = optimizer_moments(workload);
  if (workload.optimizer_dtype == Dtype::Fp32 && halves % 2 == 0)
    return {flat(kind, "states", Dtype::Fp32, part, halves / 2 + moments), std::nullopt};
  if (workload.optimizer_dtype == Dtype::Fp32)
    return {flat(kind, "states", Dtype::Bf16, part, halves + 2 * moments), std::nullopt};
  return {flat(kind, "masters", Dtype::Bf16, part, halves),
          flat(kind, "moments", workload.optimizer_dtype, part, moments)};
}

void ReplicaParts::move_states(const UnitParameters& parameters, bool to_host) const {
  if (!workload.offload.has(OffloadModule::OptimizerStates)) return;
  std::vector<Slice> rows;
  each(parameters, [&](const Kind& kind, std::int64_t) {
    const States of_kind = states(kind);
    rows.push_back(of_kind.masters);
    if (of_kind.moments) rows.push_back(*of_kind.moments);
  });
  block.then(to_host ? host_copy("states to host", std::move(rows), {})
                     : host_copy("states from host", {}, std::move(rows)));
}

void ReplicaParts::update(const UnitParameters& parameters) const {
  const Part part = workload.zero_stage >= 1 ? Part::Own : Part::All;
  move_states(parameters, /*to_host=*/false);
  each(parameters, [&](const Kind& kind, std::int64_t) {
    const Slice gradients = flat(kind, "gradients", workload.gradient_dtype, part);
    std::vector<Slice> weights;  // that follow from those which are updated
    if (workload.main_weights == MainWeights::Separate) weights.push_back(flat(kind, "weights", workload.dtype, part));
    const auto pass = [&](const char* what, Kernel by, std::vector<Slice> reads, std::vector<Slice> writes) {
      block.then(
          kernel(fmt::format("{} {}", kind.name, what), OpClass::Optimizer, by, std::move(reads), std::move(writes)));
    };
    const auto& [masters, moments] = states(kind);
    if (!moments) {
      weights.insert(weights.begin(), masters);
      return pass("optimizer", Kernel::Optimizer, {gradients, masters}, std::move(weights));
    }
    // PyTorch's fused Adam casts in registers.
    if (weights.empty())
      return pass("optimizer", Kernel::Optimizer, {gradients, masters, *moments}, {masters, *moments});
    const Slice wide = flat(kind, kMomentsInFp32, Dtype::Fp32, part, optimizer_moments(workload));
    pass("moments to fp32", Kernel::Copy, {*moments}, {wide});
    pass("optimizer", Kernel::Optimizer, {gradients, masters, wide}, {masters, weights.front(), wide});
    pass("moments to 16 bits", Kernel::Copy, {wide}, {*moments});
    pass("moments to 16 bits", Kernel::Copy, {*moments}, {*moments});
  });
  move_states(parameters, /*to_host=*/true);
}

}  // namespace moeplan::planner
