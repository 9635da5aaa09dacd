#include <fmt/format.h>

#include <algorithm>

#include "planner/candidate/stage_layout.hpp"
#include "planner/launch/exporters.hpp"

namespace moeplan::planner {

PipelineLayout layout_of(const ModelSpec& model, const Workload& workload, const Candidate& candidate) {
  PipelineLayout layout;
  for (const StagePart& part : stage_parts(model, workload, candidate)) {
    layout.parts.push_back({.embedding = part.embedding,
                            .layers = std::ssize(part.layers),
                            .mtp_layers = part.mtp_layers,
                            .head = part.head});
  }
  return layout;
}

std::int64_t gpus_per_host(const Cluster& cluster) {
  constexpr std::int64_t kLargestHost = 16, kOfRack = 4;
  return cluster.ranks_per_node() > kLargestHost ? kOfRack : cluster.ranks_per_node();
}

void leave_moe_decisions(const LaunchInput& input, Launch& launch) {
  const Candidate& c = input.plan.candidate;
  const Framework& f = input.framework;
  if (!c.runs.empty()) {
    launch.leave("strategies by layer (" + strategies_text(c.runs) + "): one would have to implement them");
  } else if (!f.has(FrameworkDecision::Schedules, c.schedule.name())) {
    launch.leave(
        fmt::format("schedule {} with {} chunks: one would have to implement it; {} runs dispatch, experts and "
                    "combine one after the other",
                    c.schedule.name(), c.pipeline_degree, f.title));
  }
  if (c.codec != CodecPair{} && !f.has(FrameworkDecision::Codecs, codec_pair_name(c.codec)))
    launch.leave("codec " + codec_pair_name(c.codec) + ": rows travel as they are");
  if (c.degrees.ep > 1 && !f.has(FrameworkDecision::AllToAlls, c.all_to_all.name()))
    launch.leave(fmt::format("all-to-all {}: one would have to implement it", c.all_to_all.name()));
  if (!f.has(FrameworkDecision::Orders, name_of(c.order)))
    launch.leave("the order of operations that the search found");
  if (!f.has(FrameworkDecision::RankOrders, name_of(c.rank_order))) launch.leave("rank order " + name_of(c.rank_order));
  if (!f.has(FrameworkDecision::Placements, c.placement.name()))
    launch.leave("placement " + c.placement.name() + ": experts stay contiguous");
  if (c.pipeline != PipelineShape::Interleaved && !f.has(FrameworkDecision::Pipelines, name_of(c.pipeline)))
    launch.leave("stages in a V: parts are interleaved");
  if (c.ep_overlap && !f.has(FrameworkDecision::Overlaps, "ep_overlap"))
    launch.leave("exchanges concurrent with a neighbouring microbatch");
  if (c.delays_weight_gradients && !f.has(FrameworkDecision::Overlaps, "delay_wgrad"))
    launch.leave("delayed weight gradients");
}

void leave_workload(const LaunchInput& input, Launch& launch) {
  const Workload& w = input.inputs.workload;
  const Node given = workload_document(w);
  const auto leave_other = [&](const std::string& key, const std::string& theirs) {
    const Node* ours = given.find(key);
    if (ours && ours->scalar != theirs)
      launch.leave(fmt::format("{} {}: {} has {}", key, ours->scalar, input.framework.title, theirs));
  };
  for (const std::string& override : input.framework.overrides) {
    for (const std::string key : {"gate_weights", "expert_layout"}) {
      const std::string start = "workload." + key + "=";
      if (override.starts_with(start)) leave_other(key, override.substr(start.size()));
    }
  }
  if (w.gate.kind != GateKind::TopK) launch.leave("the gate of the workload: top-k");
  if (is_dense(w.encoding)) launch.leave("encoding by products with masks");
}

UniformModel uniform_model(const ModelSpec& model) {
  UniformModel out;
  const auto differs = [&](const std::string& what) {
    if (std::find(out.left_out.begin(), out.left_out.end(), what) == out.left_out.end()) out.left_out.push_back(what);
  };
  out.mixer = &mixer_of(model, model.layers.front().pattern.front());
  for (const RepeatedLayers& run : model.layers) {
    for (std::int64_t i = 0; i < run.repeat; ++i) {
      for (const LayerSpec& layer : run.pattern) {
        const Moe* moe = std::get_if<Moe>(&layer.ffn);
        out.is_moe.push_back(moe != nullptr);
        if (out.mixer && !(*out.mixer == mixer_of(model, layer))) out.mixer = nullptr;
        out.windows.push_back(layer.attention_window > 0);
        if (layer.attention_window > 0 && out.window > 0 && out.window != layer.attention_window)
          differs("attention windows of several sizes");
        if (layer.attention_window > 0) out.window = layer.attention_window;
        if (moe) {
          if (out.moe && !(*out.moe == *moe)) differs("MoE layers of several kinds");
          out.moe = moe;
        } else {
          const Ffn& dense = std::get<Ffn>(layer.ffn);
          if (out.dense.hidden_size > 0 && !(out.dense == dense)) differs("dense FFNs of several kinds");
          out.dense = dense;
        }
      }
    }
  }
  if (!out.mixer) differs("token mixers of several kinds: attention has to be configured by hand");
  return out;
}

}  // namespace moeplan::planner
