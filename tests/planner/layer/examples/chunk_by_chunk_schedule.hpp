#pragma once

#include "planner/layer/expert_round.hpp"

namespace moeplan {

using namespace planner;

/// A schedule for expert parallelism without shards: each chunk of tokens is dispatched once the previous chunk has
/// been combined.
class ChunkByChunk : public Schedule {
 public:
  std::string_view name() const override { return "chunk_by_chunk"; }
  std::string_view summary() const override { return "each chunk once the one before it is back"; }
  std::optional<Infeasibility> infeasibility(const Degrees& degrees, const Candidate&) const override {
    if (degrees.esp > 1 || degrees.tp > 1) return "chunk_by_chunk is for whole experts and whole tokens";
    return std::nullopt;
  }

  void lower_forward(const MoeLayer& layer, BlockBuilder& block) const override {
    MoeParts parts(layer, block);
    parts.gate("ffn.in", sources(layer));
    parts.encode("ffn.in", sources(layer));
    append({.group = layer.groups.ep, .sources = sources(layer), .order = order(layer)}, layer, block);
    parts.decode(sources(layer), "moe.out");
  }

  void lower_backward(const MoeLayer& layer, BlockBuilder& block) const override {
    MoeParts parts(layer, block);
    parts.decode_backward("d.moe.out", sources(layer));
    append({.group = layer.groups.ep, .sources = sources(layer), .backward = true, .order = order(layer)}, layer,
           block);
    parts.encode_backward("d.ffn.in", sources(layer));
    parts.gate_backward("ffn.in", "d.ffn.in", {union_of(layer.groups.tp)});
  }

 private:
  /// The path from a rank to the sources of the rows that it sends: the rank itself, as the only shard of its tokens.
  static Path sources(const MoeLayer& layer) { return {union_of(layer.groups.esp), union_of(layer.groups.tp)}; }
  static std::vector<ChunkStep> order(const MoeLayer& layer) {
    std::vector<ChunkStep> steps;
    for (std::int64_t chunk = 0; chunk < std::ssize(layer.chunks); ++chunk) {
      for (std::size_t task = 0; task < kChunkTasks; ++task) steps.push_back({chunk, static_cast<ChunkTask>(task)});
    }
    return steps;
  }
};

}  // namespace moeplan
