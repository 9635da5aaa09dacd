// Schedules of an MoE layer: how its gate, exchanges and experts follow one another. An extension point: a schedule is
// one class that writes operations; simulator and executors never see its name.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/specs/model_spec.hpp"
#include "planner/all_to_all.hpp"
#include "planner/block_builder.hpp"
#include "planner/candidate.hpp"
#include "planner/codec.hpp"

namespace moeplan {

/// An MoE layer on one set of degrees, as a schedule needs it. The layer's input "ffn.in" holds `tokens` rows of
/// hidden_size on every rank, the same on all ranks of a tensor-parallel group; the schedule leaves as many rows in
/// "moe.out". Backward it turns "d.moe.out" into "d.ffn.in". Rank r is the routing source of its tokens / tp_size own
/// tokens.
struct MoeLayer {
  Moe moe;
  std::int64_t hidden_size;
  std::int64_t tokens;
  Dtype dtype;
  bool recompute_activations;  // backward runs the experts' activation function again instead of keeping its result
  Degrees degrees;
  Groups groups;
  RoutingId routing;
  /// How rows travel, and in how many chunks: each of them goes to the experts and back on its own.
  const AllToAll* all_to_all;
  CodecPair codec;
  CodecOptions codec_options;
  std::vector<RowStep> chunks;  // Chunk steps that together are all rows
  Encoding encoding;
  ExpertLayout expert_layout;
  /// Appends what can run beside the layer's first dispatch; the parts call it once that is under way. Perhaps empty.
  std::function<void()> beside_dispatch{};
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// Why it cannot run with these degrees and so many chunks, as a short counted reason; "" if it can.
  [[nodiscard]] virtual std::string obstacle(const Degrees& degrees, const Candidate& candidate) const = 0;
  /// The groups of its all-to-all: of ep ranks that hold the same shard of different experts, or of all shards too.
  [[nodiscard]] virtual bool exchanges_with_shards() const { return false; }
  virtual void lower_forward(const MoeLayer& layer, BlockBuilder& block) const = 0;
  virtual void lower_backward(const MoeLayer& layer, BlockBuilder& block) const = 0;
};

/// All built-in schedules: the one visible table.
[[nodiscard]] std::span<const std::unique_ptr<Schedule>> schedules();

/// The schedule of this name, or null.
[[nodiscard]] const Schedule* find_schedule(std::string_view name);

[[nodiscard]] std::unique_ptr<Schedule> make_baseline_schedule();                  // schedules/baseline.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_parm_s1_schedule();                   // schedules/parm.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_parm_s2_schedule(bool simultaneous);  // schedules/parm.cpp; SAA or in turn

}  // namespace moeplan
