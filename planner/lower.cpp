#include "planner/lower.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <map>

#include "model/base/whole_numbers.hpp"
#include "model/costs/memory.hpp"
#include "planner/dense_parts.hpp"
#include "planner/moe_parts.hpp"
#include "planner/schedule.hpp"

namespace moeplan {

namespace {

/// Blocks of one layer.
struct LayerBlocks {
  BlockId forward;
  BlockId backward;
};

class Lowering {
 public:
  Lowering(const ModelSpec& model, const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node)
      : model_(model), workload_(workload), candidate_(candidate), schedule_(*find_schedule(candidate.schedule)) {
    program_.world_size = candidate.degrees.world();
    program_.ranks_per_node = ranks_per_node;
    groups_ = add_groups(program_, candidate.degrees);
    tokens_ = candidate.micro_batch * workload.sequence_length / candidate.degrees.cp;
  }

  Program iteration() {
    const bool train = workload_.mode == Mode::Train;
    Sequence forward, backward;
    forward.push_back({.block = make("embedding", [](const DenseParts& d) { d.embed(); })});
    std::vector<Sequence> runs_backward;
    for (const LayerRun& run : model_.layers) {
      Sequence body, body_backward;
      for (const LayerSpec& layer : run.pattern) {
        const LayerBlocks blocks = layer_blocks(layer);
        body.push_back({.block = blocks.forward});
        body_backward.insert(body_backward.begin(), {.block = blocks.backward});
      }
      append_repeat(forward, run.repeat, body);
      runs_backward.insert(runs_backward.begin(), Sequence{});
      append_repeat(runs_backward.front(), run.repeat, body_backward);
    }
    forward.push_back({.block = make("output head", [](const DenseParts& d) { d.head(); })});
    if (train) {
      backward.push_back(
          {.block = make(
               "output head backward", [](const DenseParts& d) { d.head_backward(); }, forward.back().block)});
      for (const Sequence& run : runs_backward) backward.insert(backward.end(), run.begin(), run.end());
      backward.push_back({.block = make("embedding backward", [](const DenseParts& d) { d.embed_backward(); })});
    }
    Sequence microbatch = std::move(forward);
    microbatch.insert(microbatch.end(), backward.begin(), backward.end());
    const std::int64_t microbatches = workload_.global_batch / (candidate_.degrees.dp * candidate_.micro_batch);
    append_repeat(program_.sequence, microbatches, microbatch);
    if (train) program_.sequence.push_back({.block = update_block()});
    return std::move(program_);
  }

  Program moe_layer_alone(const Moe& moe, std::int64_t tokens) {
    tokens_ = tokens;
    const MoeLayer layer = moe_layer(moe);
    BlockBuilder forward(program_, "moe layer");
    schedule_.lower_forward(layer, forward);
    program_.sequence.push_back({.block = forward.finish()});
    if (workload_.mode == Mode::Train) {
      BlockBuilder backward(program_, "moe layer backward");
      schedule_.lower_backward(layer, backward);
      program_.sequence.push_back({.block = backward.finish(program_.sequence.back().block)});
    }
    return std::move(program_);
  }

 private:
  DenseParts dense(BlockBuilder& block) const {
    return {model_, workload_, candidate_.degrees, groups_, tokens_, block};
  }

  template <class Write>
  BlockId make(const std::string& name, Write write, std::optional<BlockId> backward_of = std::nullopt) {
    BlockBuilder block(program_, name);
    write(dense(block));
    return block.finish(backward_of);
  }

  static void append_repeat(Sequence& sequence, std::int64_t count, const Sequence& body) {
    if (count == 1) {
      sequence.insert(sequence.end(), body.begin(), body.end());
    } else {
      sequence.push_back({.block = {}, .count = count, .body = body});
    }
  }

  MoeLayer moe_layer(const Moe& moe) {
    RoutingId routing{};
    for (; routing.index() < program_.routings.size(); routing = RoutingId(routing.index() + 1)) {
      if (routed_[routing.index()] == moe) break;
    }
    if (routing.index() == program_.routings.size()) {
      routed_.push_back(moe);
      program_.routings.push_back(
          {routing_counts(moe, workload_, tokens_ / candidate_.degrees.tp, candidate_.degrees), groups_.ep});
    }
    return {moe,
            model_.hidden_size,
            tokens_,
            workload_.dtype,
            workload_.recompute == Recompute::Selective,
            candidate_.degrees,
            groups_,
            routing};
  }

  LayerBlocks layer_blocks(const LayerSpec& layer) {
    for (const auto& [known, blocks] : layers_) {
      if (known == layer) return blocks;
    }
    const std::string kind = std::holds_alternative<Moe>(layer.ffn) ? "moe layer" : "dense layer";
    LayerBlocks blocks{};
    BlockBuilder forward(program_, fmt::format("{} {}", kind, layers_.size()));
    write_forward(layer, forward);
    blocks.forward = forward.finish();
    if (workload_.mode == Mode::Train) {
      BlockBuilder backward(program_, fmt::format("{} {} backward", kind, layers_.size()));
      if (workload_.recompute == Recompute::Full) write_forward(layer, backward);
      write_backward(layer, backward);
      blocks.backward = backward.finish(blocks.forward);
    }
    layers_.emplace_back(layer, blocks);
    return blocks;
  }

  void write_forward(const LayerSpec& layer, BlockBuilder& block) {
    const DenseParts d = dense(block);
    d.attention(layer.attention_window);
    d.norm("x.mid", "ffn.in");
    if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
      d.ffn(*ffn, "ffn", OpClass::DenseFfn, "ffn.out");
      d.add("x.mid", "ffn.out", "x");
      return;
    }
    const MoeLayer moe = moe_layer(std::get<Moe>(layer.ffn));
    schedule_.lower_forward(moe, block);
    if (moe.moe.shared.hidden_size > 0) {
      d.ffn(moe.moe.shared, "shared", OpClass::SharedExpert, "shared.out");
      d.add("moe.out", "shared.out", "moe.out");
    }
    d.add("x.mid", "moe.out", "x");
  }

  void write_backward(const LayerSpec& layer, BlockBuilder& block) {
    const DenseParts d = dense(block);
    // Selective recomputation ([Korthikanti] sec. 5, Megatron-LM): memory-bound results, the norms' and the
    // activations', are made again. FlashAttention keeps no scores anyway, and its backward FLOPs count their
    // recomputation.
    const bool selective = workload_.recompute == Recompute::Selective;
    if (selective) d.norm("x.mid", "ffn.in");
    if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
      d.ffn_backward(*ffn, "ffn", OpClass::DenseFfn, "d.x", "d.ffn.in");
    } else {
      const MoeLayer moe = moe_layer(std::get<Moe>(layer.ffn));
      if (moe.moe.shared.hidden_size > 0) {
        d.ffn_backward(moe.moe.shared, "shared", OpClass::SharedExpert, "d.x", "d.shared.in");
      }
      schedule_.lower_backward(moe, block);
    }
    d.norm_backward("d.ffn.in", "x.mid", "d.ffn.x");
    d.add("d.x", "d.ffn.x", "d.x");
    if (selective) d.norm("x", "attn.in");
    d.attention_backward(layer.attention_window);
  }

  BlockId update_block() {
    BlockBuilder block(program_, "gradients and optimizer");
    const DenseParts d = dense(block);
    const RankParameters parameters = rank_parameters(model_, candidate_.degrees);
    d.update("dense", parameters.dense, groups_.dp);
    if (parameters.expert > 0) d.update("expert", parameters.expert, groups_.edp);
    return block.finish();
  }

  const ModelSpec& model_;
  const Workload& workload_;
  const Candidate& candidate_;
  const Schedule& schedule_;
  Program program_;
  Groups groups_;
  std::int64_t tokens_ = 0;
  std::vector<Moe> routed_;  // by RoutingId
  std::vector<std::pair<LayerSpec, LayerBlocks>> layers_;
};

std::int64_t attention_heads(const ModelSpec& model) {
  return std::visit([](const auto& a) { return a.num_heads; }, model.attention);
}

bool shares_evenly(const ModelSpec& model, std::int64_t tp) {
  const auto* heads = std::get_if<HeadAttention>(&model.attention);
  return !heads || heads->num_kv_heads % tp == 0 || tp % heads->num_kv_heads == 0;
}

}  // namespace

std::optional<std::string> obstacle(const ModelSpec& model, const Workload& workload, const Candidate& candidate) {
  const Degrees& d = candidate.degrees;
  assert(d.pp == 1 && d.cp == 1 && "pipeline and context parallelism are refused before");
  if (d.dp * d.tp != d.edp * d.ep * d.esp) return "dp tp is not edp ep esp";
  if (attention_heads(model) % d.tp != 0) return "tp does not divide the attention heads";
  if (!shares_evenly(model, d.tp)) return "tp and the key-value heads do not divide";
  if (workload.global_batch % d.dp != 0) return "dp does not divide the global batch";
  if (workload.global_batch / d.dp % candidate.micro_batch != 0)
    return "the micro batch does not divide a replica's batch";
  if (candidate.micro_batch * workload.sequence_length % d.tp != 0) return "tp does not divide the tokens";
  for (const LayerRun& run : model.layers) {
    for (const LayerSpec& layer : run.pattern) {
      if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
        if (ffn->hidden_size % d.tp != 0) return "tp does not divide the dense FFN";
        continue;
      }
      const Moe& moe = std::get<Moe>(layer.ffn);
      if (d.ep > moe.num_experts) return "ep exceeds the experts";
      if (moe.expert.hidden_size % d.esp != 0) return "esp does not divide the expert's FFN";
      if (moe.shared.hidden_size % d.tp != 0) return "tp does not divide the shared expert";
    }
  }
  if (model.num_moe_layers() == 0 && (d.ep > 1 || d.esp > 1)) return "the model has no experts";
  const Schedule* schedule = find_schedule(candidate.schedule);
  assert(schedule && "schedule names are checked at the edge");
  if (const std::string reason = schedule->obstacle(d); !reason.empty()) return reason;
  return std::nullopt;
}

Program lower_iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                        std::int64_t ranks_per_node) {
  return Lowering(model, workload, candidate, ranks_per_node).iteration();
}

Program lower_moe_layer(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens, const Workload& workload,
                        const Candidate& candidate, std::int64_t ranks_per_node) {
  ModelSpec shell{};
  shell.hidden_size = hidden_size;
  return Lowering(shell, workload, candidate, ranks_per_node).moe_layer_alone(moe, tokens);
}

RoutingCounts routing_counts(const Moe& moe, const Workload& workload, std::int64_t tokens_per_rank,
                             const Degrees& degrees) {
  if (workload.capacity_factor) {
    const double capacity = std::ceil(static_cast<double>(moe.top_k) * *workload.capacity_factor *
                                      static_cast<double>(tokens_per_rank) / static_cast<double>(moe.num_experts));
    return RoutingCounts::uniform(degrees.world(), moe.num_experts, static_cast<std::int64_t>(capacity));
  }
  const std::int64_t held = ceil_div(moe.num_experts, degrees.ep);
  return make_routing(workload.routing, degrees.world(), moe.num_experts, tokens_per_rank, moe.top_k, held);
}

}  // namespace moeplan
