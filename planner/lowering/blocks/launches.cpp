#include "planner/lowering/blocks/launches.hpp"

#include <algorithm>
#include <array>

namespace moeplan::planner {

namespace {

/// Whether the kernel, of tokens, precedes the dispatch, or follows it in the backward pass.
bool is_preprocessing(const Operation& operation) {
  const auto* kernel = std::get_if<Kernel>(&operation.work);
  if (!kernel) return false;
  const auto of_tokens = [](const Slice& s) { return s.rows.kind == Rows::Kind::Tokens; };
  return (*kernel == Kernel::Encode && of_tokens(operation.reads.front())) ||
         ((*kernel == Kernel::EncodeBackward || *kernel == Kernel::IndexAdd) && of_tokens(operation.writes.front())) ||
         *kernel == Kernel::CountTokens;
}

bool is_captured(const Operation& operation, const CudaGraphs& graphs) {
  if (graphs.has(GraphModule::WholeIteration)) return true;
  if (is_background(operation.stream)) return false;
  switch (operation.op_class) {
    case OpClass::Attention:
    case OpClass::ContextParallel:
    case OpClass::TensorParallel:
    case OpClass::Norm: return graphs.has(GraphModule::Attention);
    case OpClass::DenseFfn: return graphs.has(GraphModule::Mlp);
    case OpClass::Gate:
    case OpClass::SharedExpert: return graphs.has(GraphModule::MoeRouter) || graphs.has(GraphModule::Moe);
    case OpClass::Permute:
      return graphs.has(GraphModule::Moe) || (graphs.has(GraphModule::MoePreprocess) && is_preprocessing(operation));
    case OpClass::Expert:
    case OpClass::Codec:
    case OpClass::Dispatch:
    case OpClass::Combine:
    case OpClass::ExpertSharding: return graphs.has(GraphModule::Moe);
    default: return false;
  }
}

/// Waits need no launch, nor what the kernel of another operation does; the scale of a tensor is launched with its
/// cast, and data that accompany rows, or are further parts of an exchange, with these. A cast takes its time: a linear
/// layer of Transformer Engine takes the host more than twice as long in fp8 (TransformerEngine, thread 761).
bool is_launched(const Operation& operation) {
  const auto* kernel = std::get_if<Kernel>(&operation.work);
  const bool is_part = kernel && (*kernel == Kernel::LargestMagnitude || *kernel == Kernel::Epilogue);
  const Communication* c = operation.communication();
  const bool accompanies = c && (c->continues || (c->kernels && c->kernels->accompanies));
  return operation.kernels > 0 && !is_part && !accompanies && !std::holds_alternative<Wait>(operation.work) &&
         !std::holds_alternative<Launches>(operation.work);
}

constexpr std::int64_t kWhole = 1000, kKernel = 100;

bool is_all_pytorch(const Workload& workload) { return workload.pytorch_modules != PyTorchModules::None; }

/// The host's work for an operation, in thousandths of that for a product, which a module launches.
///
/// PyTorch's kernels for any operands, called apart from a module, take a tenth each. Published (TransformerEngine,
/// thread 2053, a forward pass of torch.nn.Linear): 13.5 us on the host of an H100, 37 us on GB200, of 179 and 237 us
/// an operation. Measured on the host of an H200 (docs/runs.md, "The host"): 0.6 to 1.1 times as long as that.
std::int64_t thousandths_of(const Operation& operation, bool is_all_pytorch) {
  constexpr std::array kOfPyTorch{Kernel::GeneralPass, Kernel::ScatterAdd, Kernel::IndexAdd};
  const auto* kernel = std::get_if<Kernel>(&operation.work);
  const bool is_apart =
      is_all_pytorch || (kernel && std::find(kOfPyTorch.begin(), kOfPyTorch.end(), *kernel) != kOfPyTorch.end());
  return (is_apart ? std::min(kWhole, kKernel * operation.kernels) : kWhole) / operation.parts;
}

std::int64_t launched_thousandths(const Block& block, const Workload& workload) {
  std::int64_t out = 0;
  for (const Operation& operation : block.operations) {
    if (is_launched(operation) && !is_captured(operation, workload.cuda_graphs))
      out += thousandths_of(operation, is_all_pytorch(workload));
  }
  return out;
}

}  // namespace

std::int64_t launched_operations(const Block& block, const Workload& workload) {
  return (launched_thousandths(block, workload) + 500) / 1000;
}

std::int64_t launched_at_least(const Block& block, const Workload& workload) {
  return launched_thousandths(block, workload) / 1000;
}

std::int64_t checkpoints(const ModelSpec& model, const LayerSpec& layer, const Recompute& recompute,
                         const CudaGraphs& graphs) {
  if (graphs.has(GraphModule::WholeIteration)) return 0;
  const bool is_moe = std::holds_alternative<Moe>(layer.ffn);
  const bool has_latents = has_mixer(layer) && std::holds_alternative<LatentAttention>(mixer_of(model, layer));
  std::int64_t out = recompute.has(RecomputeModule::WholeLayer) ? 1 : 0;
  const auto add = [&](RecomputeModule module, GraphModule graph, bool is_there) {
    if (is_there && recompute.has(module) && !graphs.has(graph)) ++out;
  };
  add(RecomputeModule::CoreAttention, GraphModule::Attention, has_mixer(layer));
  add(RecomputeModule::MlaUpProjection, GraphModule::Attention, has_latents);
  add(RecomputeModule::Layernorm, GraphModule::Attention, has_mixer(layer));
  add(RecomputeModule::Layernorm, is_moe ? GraphModule::MoeRouter : GraphModule::Mlp, has_ffn(layer));
  add(RecomputeModule::Mlp, GraphModule::Mlp, has_ffn(layer) && !is_moe);
  add(RecomputeModule::MoeActivation, GraphModule::Moe, is_moe);
  add(RecomputeModule::Moe, GraphModule::Moe, is_moe);
  add(RecomputeModule::SharedExperts, GraphModule::MoeRouter, is_moe);
  return out;
}

std::int64_t launched_updates(std::int64_t tensors, const Workload& workload) {
  if (workload.cuda_graphs.has(GraphModule::WholeIteration)) return 0;
  return is_all_pytorch(workload) ? tensors * kKernel / kWhole : tensors;
}

std::int64_t updated_tensors(const Program& program, const Block& backward) {
  std::int64_t tensors = 0;
  for (const Operation& operation : backward.operations) {
    if (!operation.computes_weight_gradient()) continue;
    const Rows& weights = operation.writes.front().rows;
    if (weights.kind != Rows::Kind::PerExpert) {
      ++tensors;
      continue;
    }
    tensors += held_experts(program, weights.routing);
  }
  return tensors;
}

Operation launches(std::int64_t operations) {
  return {.name = "launches",
          .op_class = OpClass::Host,
          .stream = Stream::Host,
          .work = Launches{operations},
          .reads = {},
          .writes = {},
          .after = {}};
}

}  // namespace moeplan::planner
