// Schedules of an MoE layer: the order of its gate, exchanges and experts. Extension point: a schedule is one class
// that writes operations; simulator and executors are independent of it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/infeasibility.hpp"
#include "model/costs/codec.hpp"
#include "model/transformer/model_spec.hpp"
#include "model/workload/workload.hpp"
#include "planner/candidate/candidate.hpp"
#include "planner/layer/all_to_all.hpp"
#include "planner/layer/block_builder.hpp"

namespace moeplan::planner {

/// An MoE layer on given degrees: the input of a schedule. The layer's input "ffn.in" holds `tokens` rows of
/// hidden_size columns on every rank, the same on all ranks of a tensor-parallel group; the schedule writes as many
/// rows to "moe.out". Its backward pass turns "d.moe.out" into "d.ffn.in". Rank r is the routing source of its own
/// tokens / tp_size tokens.
struct MoeLayer {
  Moe moe;
  std::int64_t hidden_size;   // columns of a dispatched row
  std::int64_t gate_columns;  // of the rows that the gate reads: the model's hidden size
  std::int64_t tokens;
  Dtype dtype;
  std::optional<Precision> precision;  // of the experts' products
  Fusions fusions = Fusions::Default;  // kernels that are not fused are not executed
  bool trains;
  bool recompute_activations;  // backward recomputes the experts' activation function instead of keeping its result
  /// The inputs of the experts' activation function are kept for backward in fp8 (quantised_operands.hpp). Not
  /// executed.
  bool keeps_activation_inputs_in_fp8 = false;
  Degrees degrees;
  Groups groups;
  RoutingId routing;
  /// The exchange of rows: the all-to-all, the codec and the chunks, each of which is dispatched and combined
  /// separately.
  const AllToAll* all_to_all;
  std::int64_t dispatcher_sms = 0;  // 0: the dispatcher's own number
  CodecPair codec;
  CodecOptions codec_options;
  std::vector<RowStep> chunks;  // Chunk steps that together cover all rows
  Encoding encoding;
  /// Of the gate's tensors in dense encoding.
  [[nodiscard]] Dtype gate_dtype() const { return encoding == Encoding::DenseFp32 ? Dtype::Fp32 : dtype; }
  /// The experts multiply by the gate's weights, between the activation and the down projection: the choices travel
  /// with the rows, and what returns is only added up, so that backward does not read it.
  bool weighs_in_experts = false;
  /// Then, the kernels between the experts' products are those of Megatron-Core (2026), not executed:
  ///  - that of the activation function weighs, and those of its backward pass give both gradients
  ///    (weighted_bias_swiglu_impl); otherwise kernels of their own do;
  ///  - each expert's rows are quantised by a kernel of its own, and the router takes many small ones;
  ///  - kernels of their own clamp the halves of an up projection that is clamped (weighted_bias_quick_geglu_impl);
  ///  - others add the biases of the down projection, if it has any, weighted and in fp32 (TEGroupedMLP._apply_bias).
  bool has_megatron_kernels = false;
  /// Elementwise operations are PyTorch's, one by one (PyTorchModules::Eager); not executed.
  bool eager = false;
  /// Training without padding: the dispatch waits until the host has read how many rows each expert takes, and has
  /// launched it. Not executed.
  bool host_reads_loads = false;
  ExpertLayout expert_layout;
  /// The experts that a rank computes: its own or all; and whether their weights and weight gradients are in gathered
  /// buffers that exist only while the layer runs.
  Rows::Experts computed = Rows::Experts::Local;
  bool gathers_weights = false;
  /// Appends operations that can run concurrently with the layer's first dispatch; called once that is in progress. May
  /// be empty.
  std::function<void()> during_dispatch{};
  /// Operations that the experts wait for in addition to their rows and the schedule's own dependencies: weights of
  /// copies.
  std::vector<std::int32_t> copies_ready{};
  /// Exchanged by groups of neighbours ([FasterMoE] sec. 4.2): the rows of a rank's own group, which alone has rows for
  /// copies, are computed last, and they alone wait for copies_ready.
  bool computes_copies_last = false;
  bool gathers_loads = false;  // ranks exchange their gates' counts to plan the placement in every iteration
  /// Operations that the host then launches to plan it before the dispatch (PlacementStrategy::search_launches()). Not
  /// executed.
  std::int64_t search_launches = 0;
};

/// The groups in which a schedule exchanges rows.
struct ExchangeFamily {
  GroupFamily family;
  std::int64_t shards = 1;  // consecutive members that each hold one shard of the same experts
};

/// Base class of all schedules.
class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual std::string_view name() const = 0;
  [[nodiscard]] virtual std::string_view summary() const = 0;  // one line, with its source
  /// The reason why the schedule cannot run with these degrees and chunks, short enough to count by; none if it can.
  [[nodiscard]] virtual std::optional<Infeasibility> infeasibility(const Degrees& degrees,
                                                                   const Candidate& candidate) const = 0;
  /// Another schedule that is equivalent under these arguments, so that a search can skip this one; "" if there is
  /// none.
  [[nodiscard]] virtual std::string_view same_as(const Degrees&, const Candidate&, Mode) const { return ""; }
  /// The numbers of chunks that a search should try with this many ranks per node.
  [[nodiscard]] virtual std::vector<std::int64_t> pipeline_degrees(const Degrees&,
                                                                   std::int64_t /*ranks_per_node*/) const {
    return {1, 2, 4, 8};
  }
  /// Whether every rank computes its rows with the weights of all experts, wherever these are placed.
  [[nodiscard]] virtual bool gathers_all_experts() const { return false; }
  /// Degrees with which Parm's S1 (s1_deferred) has no more computations than this schedule has with `d` (where they
  /// differ, but for the gradients of the experts' weights): a bound that is priced once for all schedules that share
  /// it rules them out together. None: the schedule has bounds of its own only.
  [[nodiscard]] virtual std::optional<Degrees> least_as_s1(const Degrees&) const { return std::nullopt; }
  /// Tutel's r, if the schedule is Tutel's adaptive parallelism: the number of ranks to which a row is sent for one
  /// expert, 0 if it stays on its rank.
  [[nodiscard]] virtual std::optional<std::int64_t> tutel_r() const { return std::nullopt; }
  /// The groups of the schedule's all-to-all; by default the ep ranks that hold the same shard of different experts.
  [[nodiscard]] virtual ExchangeFamily exchange(const Degrees& d) const { return {{"", d.ep, d.esp}, 1}; }
  /// Whether the experts can multiply by the gate's weights: choices then travel with every row, to every shard.
  [[nodiscard]] virtual bool takes_choices_along(const Degrees& d) const { return d.esp == 1; }
  virtual void lower_forward(const MoeLayer& layer, BlockBuilder& block) const = 0;
  virtual void lower_backward(const MoeLayer& layer, BlockBuilder& block) const = 0;
};

/// The table of all built-in schedules, and those of plug-ins after them. Of Tutel's adaptive parallelism it has r = 0,
/// 1, 2, 4 and 8.
[[nodiscard]] std::span<const std::unique_ptr<Schedule>> schedules();

/// The largest r of Tutel's adaptive parallelism.
inline constexpr std::int64_t kMostTutelR = 4096;
/// Tutel's adaptive parallelism with this r, from 0 to kMostTutelR, in the table or not.
[[nodiscard]] const Schedule& tutel_schedule(std::int64_t r);

/// The table, then Tutel's adaptive parallelism with every other r that divides the shards of an expert.
[[nodiscard]] std::vector<const Schedule*> schedules_for(std::int64_t esp);

/// Adds a schedule, before anything else reads the table (a plug-in's: planner/plugin); false if its name is taken.
bool add_schedule(std::unique_ptr<Schedule> entry);

/// The schedule with this name, or null; "tutel_r" with any r has one.
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
[[nodiscard]] std::unique_ptr<Schedule> make_megatron_etp_schedule();         // schedules/megatron_etp.cpp

}  // namespace moeplan::planner
