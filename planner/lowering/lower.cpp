#include "planner/lowering/lower.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/costs/memory.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/copy_parts.hpp"
#include "planner/layer/dense_parts.hpp"
#include "planner/layer/moe_parts.hpp"
#include "planner/layer/replica_parts.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/gated_routing.hpp"
#include "planner/placement/slots.hpp"
#include "planner/placement/strategies/strategy.hpp"

namespace moeplan::planner {

namespace {

/// The transfers that a block performs for the replicas of the parameters (ZeRO, data parallelism), in addition to its
/// part of the model.
struct Duties {
  bool waits_for_weights = false;
  std::optional<std::size_t> gathers{};  // the unit whose weights it gathers concurrently
  bool reduces = false;                  // reduces its gradients
  // For placed experts with copies (copy_parts.hpp):
  bool waits_for_copies = false;
  std::optional<std::size_t> sends_copies{};  // the unit to whose copies it sends weights concurrently
  bool collects_copies = false;               // sends the gradients of copies home
  auto operator<=>(const Duties&) const = default;
};

/// The workload completed by the candidate's decisions that lowering needs.
Workload decided(Workload workload, const Candidate& candidate) {
  if (!workload.recompute) workload.recompute = candidate.recompute;
  return workload;
}

class Lowering {
 public:
  Lowering(const ModelSpec& model, const Workload& workload, const Candidate& candidate, std::int64_t ranks_per_node)
      : model_(model), workload_(decided(workload, candidate)), candidate_(candidate), d_(candidate.degrees) {
    program_.world_size = d_.world();
    program_.ranks_per_node = ranks_per_node;
    groups_ = add_groups(program_, d_, candidate.rank_order);
    tokens_ = candidate.micro_batch * workload.sequence_length / d_.cp;
    const PlacementStrategy* strategy = find_placement_strategy(candidate.placement);
    replans_ = train() && strategy != nullptr && strategy->replans();
  }

  Program iteration() {
    kinds_ = routing_kinds(model_, workload_.recorded.has_value());
    const std::int64_t microbatches = workload_.global_batch / (d_.dp * candidate_.micro_batch);
    const std::vector<StagePart> parts =
        stage_parts(model_, workload_.sequence_length, d_.pp * candidate_.virtual_stages);
    std::vector<std::size_t> moe_layers_before{0};
    for (const StagePart& p : parts) {
      const auto in_part = std::count_if(p.layers.begin(), p.layers.end(),
                                         [](const LayerSpec& l) { return std::holds_alternative<Moe>(l.ffn); });
      moe_layers_before.push_back(moe_layers_before.back() + static_cast<std::size_t>(in_part));
    }
    program_.stages.assign(static_cast<std::size_t>(d_.pp), {});
    for (std::int64_t s = 0; s < d_.pp; ++s) {
      Sequence& stage = program_.stages[static_cast<std::size_t>(s)];
      std::vector<Part> own;
      for (std::int64_t v = 0; v < candidate_.virtual_stages; ++v) {
        const std::int64_t p = v * d_.pp + s;
        own.push_back(part(parts[static_cast<std::size_t>(p)], moe_layers_before[static_cast<std::size_t>(p)], p,
                           std::ssize(parts)));
      }
      if (d_.pp == 1 && candidate_.virtual_stages == 1) {
        one_stage(own.front(), microbatches, stage);
      } else {
        for (const PipelineTask& t : pipeline_tasks(d_.pp, s, candidate_.virtual_stages, microbatches, train())) {
          const Part& p = own[static_cast<std::size_t>(t.part)];
          const Sequence& steps = t.forward ? (t.microbatch == 0 ? p.first_forward : p.forward)
                                            : (t.microbatch == microbatches - 1 ? p.last_backward : p.backward);
          stage.insert(stage.end(), steps.begin(), steps.end());
        }
      }
      if (train()) stage.push_back({.block = update_block(own)});
    }
    return std::move(program_);
  }

  Program moe_layer_alone(const Moe& moe, std::int64_t tokens, bool moves_copies, std::size_t kind) {
    tokens_ = tokens;
    MoeLayer layer = moe_layer(moe, kind);
    const bool sends = train() && moves_copies && has_copies(kind);
    BlockBuilder forward(program_, "moe layer");
    if (sends) {
      send_copies(layer, forward);
      layer.copies_ready = {CopyParts(layer, forward).wait(/*at_start=*/false)};
    }
    layer.gathers_loads = replans_ && sends;
    schedule_of(kind).lower_forward(layer, forward);
    program_.stages.front().push_back({.block = forward.finish()});
    if (train()) {
      BlockBuilder backward(program_, "moe layer backward");
      layer.copies_ready.clear();
      layer.gathers_loads = false;
      schedule_of(kind).lower_backward(layer, backward);
      if (sends) CopyParts(layer, backward).collect_gradients();
      program_.stages.front().push_back({.block = backward.finish(program_.stages.front().back().block)});
    }
    return std::move(program_);
  }

 private:
  /// A unit of parameters: the embedding, a kind of layer, or the output head.
  struct Unit {
    std::string name;
    std::optional<LayerSpec> layer;
    std::size_t routing;  // kind of routing of an MoE layer
    bool is_head;
    UnitParameters parameters;
    std::map<std::pair<bool, Duties>, BlockId> blocks;  // by forward (or backward) and duties
    std::optional<BlockId> forward;                     // the first one created
  };
  /// A part of the model on a stage, with its sequences for the first, the last and the other microbatches.
  struct Part {
    std::vector<std::size_t> units;
    Sequence first_forward, forward, backward, last_backward;
  };

  bool train() const { return workload_.mode == Mode::Train; }
  std::int64_t replicas() const { return program_.group(groups_.dp_cp).size; }
  std::int64_t expert_replicas() const { return program_.group(groups_.edp).size; }
  bool has_replicas() const { return replicas() > 1 || expert_replicas() > 1; }

  DenseParts dense(BlockBuilder& block) const {
    return {model_, workload_, d_, groups_, tokens_, candidate_.sequence_parallel, block};
  }
  ReplicaParts replica_parts(BlockBuilder& block) const { return {workload_, groups_, block}; }

  // --- Units and their blocks ---

  std::size_t unit(const std::optional<LayerSpec>& layer, std::size_t routing, bool is_head) {
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (units_[i].layer == layer && units_[i].routing == routing && units_[i].is_head == is_head) return i;
    }
    Unit u;
    u.layer = layer;
    u.routing = routing;
    u.is_head = is_head;
    const Moe* moe = layer ? std::get_if<Moe>(&layer->ffn) : nullptr;
    u.name = layer     ? fmt::format("{} {}", moe ? "moe layer" : "dense layer", layers_++)
             : is_head ? "output head"
                       : "embedding";
    u.parameters = layer     ? layer_parameters(model_, *layer, d_)
                   : is_head ? head_parameters(model_, d_)
                             : embedding_parameters(model_, d_);
    if (moe && !candidate_.expert_places.empty()) {
      // Gradients and states belong to homes: the rank with most homes has the most work.
      const auto ranks = placed_parameters(u.parameters, *moe, candidate_.expert_places[routing], d_.ep);
      u.parameters =
          *std::max_element(ranks.begin(), ranks.end(),
                            [](const UnitParameters& a, const UnitParameters& b) { return a.expert < b.expert; });
    }
    units_.push_back(std::move(u));
    return units_.size() - 1;
  }

  BlockId block(std::size_t index, bool forward, const Duties& duties) {
    if (const auto it = units_[index].blocks.find({forward, duties}); it != units_[index].blocks.end())
      return it->second;
    std::string name = units_[index].name + (forward ? "" : " backward");
    if (duties.gathers) name += ", gathering weights";
    if (duties.sends_copies) name += ", sending copies";
    if (duties.reduces) name += ", reducing gradients";
    BlockBuilder b(program_, name);
    const ReplicaParts replicas = replica_parts(b);
    if (duties.waits_for_weights) replicas.wait(OpClass::WeightGather);
    if (duties.gathers) replicas.gather_weights(units_[*duties.gathers].parameters);
    forward ? write_forward(units_[index], duties, b) : write_backward(units_[index], duties, b);
    if (duties.reduces) replicas.reduce_gradients(units_[index].parameters);
    const std::optional<BlockId> known = units_[index].forward;
    const BlockId id = forward ? b.finish(std::nullopt, known) : b.finish(known);
    if (!known) units_[index].forward = id;
    units_[index].blocks[{forward, duties}] = id;
    return id;
  }

  void write_forward(const Unit& u, const Duties& duties, BlockBuilder& b) {
    const DenseParts d = dense(b);
    if (u.layer) return write_layer(u, duties, b);
    if (duties.sends_copies) send_copies(moe_layer_of(units_[*duties.sends_copies]), b);
    u.is_head ? d.head() : d.embed();
  }

  void write_backward(const Unit& u, const Duties& duties, BlockBuilder& b) {
    const DenseParts d = dense(b);
    if (!u.layer) return u.is_head ? d.head_backward() : d.embed_backward();
    if (workload_.recompute == Recompute::Full) write_layer(u, {}, b);
    write_layer_backward(u, duties, b);
  }

  // --- Parts of the model on a stage ---

  Part part(const StagePart& layers, std::size_t moe_layers_before, std::int64_t index, std::int64_t parts) {
    Part p;
    if (layers.embedding) p.units.push_back(unit(std::nullopt, 0, false));
    for (const LayerSpec& layer : layers.layers) {
      const bool is_moe = std::holds_alternative<Moe>(layer.ffn);
      p.units.push_back(unit(layer, is_moe ? kinds_[moe_layers_before++] : 0, false));
    }
    if (layers.head) p.units.push_back(unit(std::nullopt, 0, true));
    const bool sharded = has_replicas() && train();
    const bool always = sharded && workload_.zero_stage == 3;
    const bool first = index == 0, last = index == parts - 1;
    p.forward = pass(p.units, true, {.gathers = always}, first, last);
    p.first_forward =
        pass(p.units, true, {.gathers = sharded && workload_.zero_stage >= 1, .moves_copies = train()}, first, last);
    if (!train()) return p;
    const std::vector<std::size_t> reversed(p.units.rbegin(), p.units.rend());
    p.backward =
        pass(reversed, false, {.gathers = always, .reduces = sharded && workload_.zero_stage >= 2}, first, last);
    p.last_backward = pass(reversed, false, {.gathers = always, .reduces = sharded, .moves_copies = true}, first, last);
    return p;
  }

  /// The transfers of a pass, in addition to the model.
  struct PassDuties {
    bool gathers = false;
    bool reduces = false;
    bool moves_copies = false;  // forward: weights to copies of experts; backward: their gradients home
  };

  /// One microbatch through the units, with the messages from and to the preceding and following parts.
  Sequence pass(const std::vector<std::size_t>& units, bool forward, const PassDuties& does, bool is_first_part,
                bool is_last_part) {
    Sequence out;
    if (does.gathers) out.push_back({.block = gather_block(units.front())});
    const auto copied = [&](std::size_t i) {
      return does.moves_copies && i < units.size() && has_copies(units_[units[i]]);
    };
    if (forward && copied(0)) out.push_back({.block = copies_block(units.front())});
    const bool receives = forward ? !is_first_part : !is_last_part, sends = forward ? !is_last_part : !is_first_part;
    if (receives) out.push_back({.block = message_block(forward, /*sends=*/false)});
    Sequence steps;
    for (std::size_t i = 0; i < units.size(); ++i) {
      Duties duties{.waits_for_weights = does.gathers, .gathers = std::nullopt, .reduces = does.reduces};
      if (does.gathers && i + 1 < units.size()) duties.gathers = units[i + 1];
      duties.waits_for_copies = forward && copied(i);
      if (forward && copied(i + 1)) duties.sends_copies = units[i + 1];
      duties.collects_copies = !forward && copied(i);
      steps.push_back({.block = block(units[i], forward, duties)});
    }
    append_folded(out, steps);
    if (sends) out.push_back({.block = message_block(forward, /*sends=*/true)});
    return out;
  }

  /// Appends steps with the model's repeated patterns folded into repeats: of equal steps, or of a whole pattern.
  void append_folded(Sequence& out, const Sequence& steps) const {
    std::size_t longest = 1;
    for (const RepeatedLayers& run : model_.layers) longest = std::max(longest, run.pattern.size());
    for (std::size_t i = 0; i < steps.size();) {
      std::size_t best_length = 1, best_count = 1;
      for (std::size_t length = 1; length <= longest; ++length) {
        std::size_t count = 1;
        while (
            i + (count + 1) * length <= steps.size() &&
            std::equal(steps.begin() + at(i), steps.begin() + at(i + length), steps.begin() + at(i + count * length))) {
          ++count;
        }
        if (count > 1 && count * length > best_count * best_length) {
          best_length = length;
          best_count = count;
        }
      }
      const Sequence body(steps.begin() + at(i), steps.begin() + at(i + best_length));
      append_repeat(out, static_cast<std::int64_t>(best_count), body);
      i += best_length * best_count;
    }
  }
  static std::ptrdiff_t at(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

  static void append_repeat(Sequence& sequence, std::int64_t count, const Sequence& body) {
    if (count <= 0) return;
    if (count == 1) {
      sequence.insert(sequence.end(), body.begin(), body.end());
    } else {
      sequence.push_back({.block = {}, .count = count, .body = body});
    }
  }

  static void one_stage(const Part& p, std::int64_t microbatches, Sequence& stage) {
    const auto microbatch = [](const Sequence& forward, const Sequence& backward) {
      Sequence both = forward;
      both.insert(both.end(), backward.begin(), backward.end());
      return both;
    };
    const Sequence usual = microbatch(p.forward, p.backward);
    if (microbatches == 1) {
      append_repeat(stage, 1, microbatch(p.first_forward, p.last_backward));
      return;
    }
    const Sequence first = microbatch(p.first_forward, p.backward), last = microbatch(p.forward, p.last_backward);
    const std::int64_t begin = first == usual ? 0 : 1, end = last == usual ? 0 : 1;
    append_repeat(stage, begin, first);
    append_repeat(stage, microbatches - begin - end, usual);
    append_repeat(stage, end, last);
  }

  BlockId gather_block(std::size_t unit) {
    const auto [it, is_new] = gather_blocks_.try_emplace(unit);
    if (is_new) {
      BlockBuilder b(program_, units_[unit].name + " weights");
      replica_parts(b).gather_weights(units_[unit].parameters);
      it->second = b.finish();
    }
    return it->second;
  }

  BlockId copies_block(std::size_t unit) {
    const auto [it, is_new] = copies_blocks_.try_emplace(unit);
    if (is_new) {
      BlockBuilder b(program_, units_[unit].name + " copies");
      send_copies(moe_layer_of(units_[unit]), b);
      it->second = b.finish();
    }
    return it->second;
  }

  BlockId message_block(bool forward, bool sends) {
    const auto [it, is_new] = message_blocks_.try_emplace({forward, sends});
    if (is_new) {
      BlockBuilder b(program_, fmt::format("{} {}", sends ? "send" : "receive", forward ? "activations" : "gradients"));
      const Slice message = dense(b).own(forward ? "x" : "d.x");
      const std::int64_t shift = forward ? 1 : -1;
      const std::int32_t channel = forward ? 0 : 1;
      Operation op{.name = fmt::format("{} {}", sends ? "send" : "receive", forward ? "activations" : "gradients"),
                   .op_class = OpClass::Pipeline,
                   .stream = sends ? Stream::Pipeline : Stream::Compute,
                   .work = Send{groups_.stages, shift, channel},
                   .reads = {},
                   .writes = {},
                   .after = {}};
      if (sends) {
        op.reads = {message};
      } else {
        op.work = Receive{groups_.stages, shift, channel};
        op.writes = {message};
      }
      b.then(std::move(op));
      it->second = b.finish();
    }
    return it->second;
  }

  BlockId update_block(const std::vector<Part>& parts) {
    UnitParameters sum;
    for (const Part& p : parts) {
      for (const std::size_t u : p.units) {
        sum += units_[u].parameters;
      }
    }
    for (const auto& [known, id] : update_blocks_) {
      if (known == sum) return id;
    }
    BlockBuilder b(program_, "optimizer");
    const ReplicaParts replicas = replica_parts(b);
    if (has_replicas()) replicas.wait(OpClass::Gradient);
    replicas.update(sum);
    update_blocks_.emplace_back(sum, b.finish());
    return update_blocks_.back().second;
  }

  // --- Layers ---

  bool has_copies(std::size_t routing) const {
    if (candidate_.expert_places.empty()) return false;
    const std::vector<ExpertPlacement>& places = candidate_.expert_places[routing].experts;
    return std::any_of(places.begin(), places.end(), [](const ExpertPlacement& p) { return p.holders.size() > 1; });
  }
  bool has_copies(const Unit& u) const {
    return u.layer && std::holds_alternative<Moe>(u.layer->ffn) && has_copies(u.routing);
  }
  MoeLayer moe_layer_of(const Unit& u) { return moe_layer(std::get<Moe>(u.layer->ffn), u.routing); }

  static void send_copies(const MoeLayer& layer, BlockBuilder& b) {
    CopyParts copies(layer, b);
    copies.send_up();
    copies.send_down();
  }

  const Schedule& schedule_of(std::size_t routing) const {
    return *find_schedule(LayerStrategy::of(candidate_, routing).schedule);
  }

  MoeLayer moe_layer(const Moe& moe, std::size_t routing) {
    const LayerStrategy run = LayerStrategy::of(candidate_, routing);
    // With sequence parallelism every rank has tokens of its own, as without tensor parallelism.
    MoeLayer layer{.moe = moe,
                   .hidden_size = model_.hidden_size,
                   .tokens = tokens_,
                   .dtype = workload_.dtype,
                   .recompute_activations = workload_.recompute == Recompute::Selective,
                   .degrees = d_,
                   .groups = groups_,
                   .routing = {},
                   .all_to_all = find_all_to_all(run.all_to_all),
                   .codec = *parse_codec_pair(run.codec),
                   .codec_options = workload_.codecs,
                   .chunks = {},
                   .encoding = workload_.encoding,
                   .expert_layout = workload_.expert_layout,
                   .during_dispatch = {}};
    if (candidate_.sequence_parallel) {
      layer.tokens = tokens_ / d_.tp;
      layer.degrees.tp = 1;
      layer.groups.tp = groups_.own;
    }
    for (std::int64_t i = 0; i < run.pipeline_degree; ++i) {
      layer.chunks.push_back({RowStep::Kind::Chunk, {}, i, run.pipeline_degree});
    }
    const auto [known, is_new] = routings_.try_emplace(routing, program_.routings.size());
    layer.routing = known->second;
    if (is_new) program_.routings.push_back(routing_table(moe, routing));
    return layer;
  }

  RoutingTable routing_table(const Moe& moe, std::size_t routing) const {
    RoutingCounts counts =
        gated_routing(moe, workload_, tokens_ / d_.tp, candidate_, program_.ranks_per_node, routing).counts;
    const ExpertGroups groups{moe.expert_groups, moe.groups_per_token};
    if (candidate_.expert_places.empty()) return {std::move(counts), groups_.ep, moe.top_k, {}, groups};
    const GroupFamily& holders = program_.group(groups_.ep);
    PlacedRouting table =
        placed(counts, candidate_.expert_places[routing], holders, members_per_node(program_, holders));
    return {std::move(table.counts), groups_.ep, moe.top_k, std::move(table.slots), groups};
  }

  /// Appends `write` concurrently with the schedule's first dispatch if it calls during_dispatch, otherwise after the
  /// schedule; both must end before the next operations. `during` appends operations that start after the first
  /// dispatch.
  template <class Write, class During>
  void with_shared(const Schedule& schedule, MoeLayer& layer, BlockBuilder& block, bool forward, Write write,
                   During during) {
    std::vector<std::int32_t> shared;
    bool is_done = false;
    const std::vector<std::int32_t> ready = block.last();
    layer.during_dispatch = [&] {
      if (is_done) return;
      is_done = true;
      const std::vector<std::int32_t> before = block.last();
      if (layer.moe.shared.hidden_size > 0) {
        block.continue_after(ready);
        write();
        shared = block.last();
        block.continue_after(before);
      }
      during();
      block.continue_after(before);
    };
    forward ? schedule.lower_forward(layer, block) : schedule.lower_backward(layer, block);
    layer.during_dispatch();
    std::vector<std::int32_t> both = block.last();
    both.insert(both.end(), shared.begin(), shared.end());
    block.continue_after(both);
  }

  void write_layer(const Unit& u, const Duties& duties, BlockBuilder& block) {
    const DenseParts d = dense(block);
    const LayerSpec& layer = *u.layer;
    const Ffn* ffn = std::get_if<Ffn>(&layer.ffn);
    std::optional<MoeLayer> next;  // the layer whose copies receive weights
    if (duties.sends_copies) next = moe_layer_of(units_[*duties.sends_copies]);
    if (ffn && next) send_copies(*next, block);
    std::vector<std::int32_t> copies_ready;
    if (duties.waits_for_copies) copies_ready.push_back(wait_for_copies(u, block));
    d.attention(layer.attention_window);
    d.norm("x.mid", "ffn.in");
    if (ffn) {
      d.ffn(*ffn, "ffn", OpClass::DenseFfn, "ffn.out");
      d.add("x.mid", "ffn.out", "x");
      return;
    }
    MoeLayer moe = moe_layer_of(u);
    moe.copies_ready = std::move(copies_ready);
    moe.gathers_loads = replans_ && duties.waits_for_copies;
    with_shared(
        schedule_of(u.routing), moe, block, /*forward=*/true,
        [&] { d.ffn(moe.moe.shared, "shared", OpClass::SharedExpert, "shared.out"); },
        [&] {
          if (next) CopyParts(*next, block).send_up();
        });
    if (next) CopyParts(*next, block).send_down();
    if (moe.moe.shared.hidden_size > 0) d.add("moe.out", "shared.out", "moe.out");
    d.add("x.mid", "moe.out", "x");
  }

  /// Waits for copies. Segments of pipelines start with their waits; without a pipeline only the experts wait.
  std::int32_t wait_for_copies(const Unit& u, BlockBuilder& block) {
    return CopyParts(moe_layer_of(u), block).wait(/*at_start=*/d_.pp > 1);
  }

  void write_layer_backward(const Unit& u, const Duties& duties, BlockBuilder& block) {
    const DenseParts d = dense(block);
    const LayerSpec& layer = *u.layer;
    // Selective recomputation ([Korthikanti] sec. 5, Megatron-LM): memory-bound results, those of norms and
    // activations, are recomputed. FlashAttention stores no scores in any case, and its backward FLOPs include their
    // recomputation.
    const bool selective = workload_.recompute == Recompute::Selective;
    if (selective) d.norm("x.mid", "ffn.in");
    if (const Ffn* ffn = std::get_if<Ffn>(&layer.ffn)) {
      d.ffn_backward(*ffn, "ffn", OpClass::DenseFfn, "d.x", "d.ffn.in");
    } else {
      MoeLayer moe = moe_layer_of(u);
      with_shared(
          schedule_of(u.routing), moe, block, /*forward=*/false,
          [&] { d.ffn_backward(moe.moe.shared, "shared", OpClass::SharedExpert, "d.x", "d.shared.in"); }, [] {});
      if (duties.collects_copies) CopyParts(moe, block).collect_gradients();
      if (moe.moe.shared.hidden_size > 0) d.add("d.ffn.in", "d.shared.in", "d.ffn.in");
    }
    d.norm_backward("d.ffn.in", "x.mid", "d.ffn.x");
    d.add("d.x", "d.ffn.x", "d.x");
    if (selective) d.norm("x", "attn.in");
    d.attention_backward(layer.attention_window);
  }

  const ModelSpec& model_;
  const Workload workload_;
  const Candidate& candidate_;
  const Degrees& d_;
  Program program_;
  Groups groups_;
  std::int64_t tokens_ = 0;                    // rows that a tensor-parallel group works on
  bool replans_ = false;                       // the placement is planned in every iteration
  std::vector<std::size_t> kinds_;             // of routing, by MoE layer
  std::map<std::size_t, RoutingId> routings_;  // by kind of routing
  std::vector<Unit> units_;
  std::int64_t layers_ = 0;                                  // number of kinds of layers
  std::map<std::size_t, BlockId> gather_blocks_;             // by unit
  std::map<std::size_t, BlockId> copies_blocks_;             // by unit
  std::map<std::pair<bool, bool>, BlockId> message_blocks_;  // by forward, sends
  std::vector<std::pair<UnitParameters, BlockId>> update_blocks_;
};

}  // namespace

Program lower_iteration(const ModelSpec& model, const Workload& workload, const Candidate& candidate,
                        std::int64_t ranks_per_node) {
  return Lowering(model, workload, candidate, ranks_per_node).iteration();
}

Program lower_moe_layer(const Moe& moe, std::int64_t hidden_size, std::int64_t tokens, const Workload& workload,
                        const Candidate& candidate, std::int64_t ranks_per_node, bool moves_copies, std::size_t kind) {
  ModelSpec shell{};
  shell.hidden_size = hidden_size;
  return Lowering(shell, workload, candidate, ranks_per_node).moe_layer_alone(moe, tokens, moves_copies, kind);
}

}  // namespace moeplan::planner
