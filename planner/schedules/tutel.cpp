// Tutel's switchable parallelism ([Tutel] sec. 3.1, fig. 6-8, table 4; MODELS section 9). An expert's weights are
// sharded over W/E ranks, so esp is W/E. The shards that a rank owns never move; the effect of r is decided anew in
// every layer.
//
//   r = 0    data parallelism: all weights of all experts are gathered, and every rank computes its own rows
//   r >= 1   each row is sent to r ranks for its expert. Each of them computes a part of the expert's hidden size,
//            whose weights are gathered in groups of esp / r shards; the r partial sums are added at the source
//   r = esp  nothing is gathered: expert and tensor parallelism, which is Parm's S1 if the layer's input is not
//            tensor-parallel
//
// Weights are gathered in the forward pass and kept for the backward pass, which reduce-scatters their gradients: one
// all-gather and one reduce-scatter, as in sec. 3.1.2. Per rank this is O(P) of weights for r = 0, otherwise O(C_g r +
// P / E / r).
//
// Placed experts can be combined with r >= 1: the ranks that gather hold shards of the same experts, including copies.
// With r = 0 no rows are exchanged, and a placement only affects which weights are gathered twice.
//
// Among the esp / r ranks with the same gathered weights, Tutel divides each source's rows. Here all rows of a source
// go to the rank at the source's own position, so that each rank receives all rows of every (esp / r)-th source: as
// many rows and bytes in fewer messages. Gathering starts with the layer, concurrently with gate and dispatch (in
// Tutel's code it starts before the experts). Chunks are those of plain pipelining.
#include <fmt/format.h>

#include "model/costs/memory.hpp"
#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

namespace {

class Tutel : public Schedule {
 public:
  explicit Tutel(std::int64_t r)
      : r_(r),
        name_(fmt::format("tutel_r{}", r)),
        summary_(r == 0
                     ? "the weights of all experts gathered, no all-to-all: data parallelism [Tutel sec. 3.1]"
                     : fmt::format("each row to {} rank{} for its expert, weights gathered in groups [Tutel sec. 3.1]",
                                   r, r == 1 ? "" : "s")) {}

  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return summary_; }

  std::optional<Infeasibility> infeasibility(const Degrees& d, const Candidate& candidate) const override {
    if (r_ > 0 && d.esp % r_ == 0) return std::nullopt;
    if (r_ > 0) return Infeasibility(Constraint::Multiple, d.esp, r_, "tutel's r does not divide an expert's shards");
    if (candidate.pipeline_degree > 1) return "tutel_r0 exchanges no rows, in chunks or not";
    if (candidate.codec != CodecPair{}) return "tutel_r0 exchanges no rows that a codec could make smaller";
    return std::nullopt;
  }
  std::string_view same_as(const Degrees& d, const Candidate& candidate, Mode) const override {
    if (r_ == 0) return d.ep * d.esp == 1 ? "baseline" : "";
    if (r_ < d.esp) return "";
    if (d.esp == 1) return candidate.pipeline_degree == 1 ? "baseline" : "pipelined";
    return d.tp == 1 && candidate.codec == CodecPair{} ? "parm_s1" : "";
  }
  std::vector<std::int64_t> pipeline_degrees(const Degrees& d, std::int64_t ranks_per_node) const override {
    return r_ == 0 ? std::vector<std::int64_t>{1} : Schedule::pipeline_degrees(d, ranks_per_node);
  }
  /// r shards of an expert.
  std::optional<Degrees> least_as_s1(const Degrees& d) const override {
    if (r_ == 0) return std::nullopt;
    Degrees least = d;
    least.esp = r_;
    least.edp = d.ranks_per_stage() / (d.ep * r_);
    return least;
  }
  bool gathers_all_experts() const override { return r_ == 0; }
  std::optional<std::int64_t> tutel_r() const override { return r_; }
  ExchangeFamily exchange(const Degrees& d) const override {
    if (r_ == 0) return {{"", 1, 1}, 1};
    return {{"", d.ep * r_, d.esp / r_}, r_};
  }

  void lower_forward(const MoeLayer& l, BlockBuilder& b) const override {
    const MoeLayer gathered = with_gathered_weights(l, b);
    MoeParts parts(gathered, b);
    ExpertRound expert_round = round(l, gathered);
    expert_round.weights_ready = gather(l, gathered, b);
    parts.gate("ffn.in", expert_round.sources);
    parts.encode("ffn.in", expert_round.sources);
    append(expert_round, gathered, b);
    parts.decode(expert_round.sources, "moe.out");
  }

  void lower_backward(const MoeLayer& l, BlockBuilder& b) const override {
    const MoeLayer gathered = with_gathered_weights(l, b);
    MoeParts parts(gathered, b);
    ExpertRound expert_round = round(l, gathered);
    expert_round.backward = true;
    std::vector<std::int32_t> scattered;
    expert_round.after_experts = [&](std::int64_t chunk, const Path&) {
      if (chunk + 1 == std::ssize(l.chunks)) scattered = scatter_gradients(l, gathered, b);
    };
    parts.decode_backward("d.moe.out", expert_round.sources);
    append(expert_round, gathered, b);
    parts.encode_backward("d.ffn.in", expert_round.sources);
    parts.gate_backward("ffn.in", "d.ffn.in", expert_round.sources);
    add_gradients(scattered, l, b);
  }

 private:
  /// The number of ranks that gather each other's weights.
  std::int64_t gatherers(const Degrees& d) const { return r_ == 0 ? d.ep * d.esp : d.esp / r_; }

  /// The layer after its weights are gathered: with r shards per expert.
  MoeLayer with_gathered_weights(const MoeLayer& l, BlockBuilder& b) const {
    MoeLayer out = l;
    if (gatherers(l.degrees) == 1) return out;
    out.gathers_weights = true;
    out.degrees.esp = std::max<std::int64_t>(r_, 1);
    if (r_ == 0) {
      out.computed = Rows::Experts::All;
      out.groups.esp = out.groups.ep_esp = l.groups.own;
    } else {
      const std::int64_t stride = l.degrees.esp / r_;
      out.groups.esp = b.group(fmt::format("esp {} apart", stride), r_, stride);
      out.groups.ep_esp = b.group(fmt::format("ep_esp {} apart", stride), l.degrees.ep * r_, stride);
    }
    return out;
  }

  ExpertRound round(const MoeLayer& l, const MoeLayer& gathered) const {
    ExpertRound out;
    out.group = gathered.groups.ep_esp;
    if (l.degrees.tp > 1) out.sources = {union_of(l.groups.tp)};
    out.shards = true;
    out.order = task_by_task(std::ssize(l.chunks));
    return out;
  }

  GroupId group(const MoeLayer& l, BlockBuilder& b) const {
    return r_ == 0 ? l.groups.ep_esp : b.group("expert weights", gatherers(l.degrees), 1);
  }
  /// The stream of the gathering. Over all ranks it does not conflict with another exchange.
  Stream stream() const { return r_ == 0 ? Stream::Inter : Stream::Intra; }

  /// All-gathers that start after the operation appended last and after the weights of copies; later operations do not
  /// wait for them.
  std::vector<std::int32_t> gather(const MoeLayer& l, const MoeLayer& gathered, BlockBuilder& b) const {
    if (gatherers(l.degrees) == 1) return {};
    MoeParts own(l, b), whole(gathered, b);
    const std::vector<std::int32_t> before = b.last();
    std::vector<std::int32_t> ready = before, out;
    ready.insert(ready.end(), l.copies_ready.begin(), l.copies_ready.end());
    const auto add = [&](const Slice& from, const Slice& to) {
      out.push_back(b.after(ready, collective("expert weight all-gather", OpClass::WeightGather, stream(),
                                              {.collective = Collective::AllGather, .group = group(l, b)}, from, to)));
    };
    add(own.w_up(), whole.w_up());
    add(own.w_down(), whole.w_down());
    b.continue_after(before);
    return out;
  }

  /// Reduce-scatters the gradients to their owners, concurrently with the operations that follow.
  std::vector<std::int32_t> scatter_gradients(const MoeLayer& l, const MoeLayer& gathered, BlockBuilder& b) const {
    if (gatherers(l.degrees) == 1) return {};
    MoeParts own(l, b), whole(gathered, b);
    const std::vector<std::int32_t> before = b.last();
    std::vector<std::int32_t> out;
    const auto add = [&](const Slice& from, const Slice& to) {
      out.push_back(b.after(
          before, collective("expert gradient reduce-scatter", OpClass::Gradient, stream(),
                             {.collective = Collective::ReduceScatter, .group = group(l, b)}, from, arrived(to, b))));
    };
    add(whole.w_down("d."), own.w_down("d."));
    add(whole.w_up("d."), own.w_up("d."));
    b.continue_after(before);
    return out;
  }

  /// Accumulates the gradients into those of earlier microbatches.
  static void add_gradients(const std::vector<std::int32_t>& scattered, const MoeLayer& l, BlockBuilder& b) {
    if (scattered.empty()) return;
    MoeParts own(l, b);
    std::vector<std::int32_t> all = b.last();
    for (std::size_t i = 0; i < scattered.size(); ++i) {
      const Slice sum = i == 0 ? own.w_down("d.") : own.w_up("d.");
      all.push_back(b.after(
          {scattered[i]}, kernel("add expert gradient", OpClass::Expert, Kernel::Add, {sum, arrived(sum, b)}, {sum})));
    }
    b.continue_after(all);
  }

  /// This layer's gradient of the rank's own weights.
  static Slice arrived(const Slice& gradient, BlockBuilder& b) {
    const Buffer buffer = b.program().buffer(gradient.buffer);
    return b.slice(buffer.name + ".own" + std::string(kGatheredWeights), buffer.columns, buffer.dtype, gradient.rows);
  }

  std::int64_t r_;
  std::string name_;
  std::string summary_;
};

}  // namespace

std::unique_ptr<Schedule> make_tutel_schedule(std::int64_t r) { return std::make_unique<Tutel>(r); }

}  // namespace moeplan::planner
