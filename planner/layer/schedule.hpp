// Schedules of an MoE layer: how its gate, exchanges and experts follow one another. An extension point: a schedule is
// one class that writes operations; simulator and executors never see its name.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/costs/codec.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

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
  /// The experts that a rank computes: its own, or all, and whether their weights, and the gradients of these, are
  /// gathered ones that live as long as the layer runs.
  Rows::Experts computed = Rows::Experts::Local;
  bool gathers_weights = false;
  /// Appends what can run beside the layer's first dispatch; the parts call it once that is under way. Perhaps empty.
  std::function<void()> during_dispatch{};
  /// What the experts wait for besides their rows and what their schedule asks for: weights of copies.
  std::vector<std::int32_t> copies_ready{};
  bool gathers_loads = false;  // ranks tell each other what their gates chose: the placement is planned every iteration
};

/// The groups in which a schedule exchanges rows.
struct ExchangeFamily {
  GroupFamily family;
  std::int64_t shards = 1;  // consecutive members that hold a shard each of the same experts
};

class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// Why it cannot run with these degrees and so many chunks, as a short counted reason; "" if it can.
  [[nodiscard]] virtual std::string infeasibility(const Degrees& degrees, const Candidate& candidate) const = 0;
  /// Another schedule of the table that does the same with these, so that a search need not look at this one; or "".
  [[nodiscard]] virtual std::string_view same_as(const Degrees&, const Candidate&, Mode) const { return ""; }
  /// The numbers of chunks that are worth a try on a machine with so many ranks a node.
  [[nodiscard]] virtual std::vector<std::int64_t> pipeline_degrees(const Degrees&,
                                                                   std::int64_t /*ranks_per_node*/) const {
    return {1, 2, 4, 8};
  }
  /// Every rank computes its rows with the weights of all experts, wherever these are placed.
  [[nodiscard]] virtual bool gathers_all_experts() const { return false; }
  /// Tutel's r where it is Tutel's adaptive parallelism: ranks that a row goes to for its expert, 0 where it stays.
  [[nodiscard]] virtual std::optional<std::int64_t> tutel_r() const { return std::nullopt; }
  /// The groups of its all-to-all: of ep ranks that hold the same shard of different experts, or others.
  [[nodiscard]] virtual ExchangeFamily exchange(const Degrees& d) const { return {{"", d.ep, d.esp}, 1}; }
  virtual void lower_forward(const MoeLayer& layer, BlockBuilder& block) const = 0;
  virtual void lower_backward(const MoeLayer& layer, BlockBuilder& block) const = 0;
};

/// All built-in schedules: the one visible table.
[[nodiscard]] std::span<const std::unique_ptr<Schedule>> schedules();

/// The schedule of this name, or null.
[[nodiscard]] const Schedule* find_schedule(std::string_view name);

[[nodiscard]] std::unique_ptr<Schedule> make_baseline_schedule();             // schedules/baseline.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_pipelined_schedule();            // schedules/pipelined.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_opt_sche_schedule();             // schedules/opt_sche.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_smart_schedule();                // schedules/smart.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_tutel_schedule(std::int64_t r);  // schedules/tutel.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_parm_s1_schedule();              // schedules/parm_s1.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_parm_s2_schedule();              // schedules/parm_s2.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_parm_s2_code_schedule();         // schedules/parm_s2.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_parm_s2_in_turn_schedule();      // schedules/parm_s2.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_deferred_s1_schedule();          // schedules/parm_s1.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_tapered_s1_schedule();           // schedules/parm_s1.cpp
[[nodiscard]] std::unique_ptr<Schedule> make_deferred_s2_schedule();          // schedules/parm_s2.cpp

}  // namespace moeplan::planner
