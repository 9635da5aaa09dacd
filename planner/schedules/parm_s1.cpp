// Parm's S1 ([Parm] sec. III-B, fig. 3b; MODELS section 7), and two schedules of the same layout beyond the paper. Like
// S2, it replaces the ESP collectives and the EP all-to-all by a single all-to-all over the EP x ESP group, and removes
// duplicate work within a tensor-parallel (MP) group.
//
//   forward   (MP-Split) - gate - encode - A2A* - experts - A2A* - local combine - decode - AG_MP
//   backward  (split) - decode' - A2A* - experts' - A2A* - local combine - encode' - gate' - AG_MP
//
// "Dump" is virtual, as in the paper: the same rows are sent to each shard without a copy.
//
// Deferred: an expert's weight gradients, for which no other rank waits, are computed after the input gradients of all
// chunks, concurrently with the all-to-all that returns these. Tapered: in addition, the first and the last chunk,
// whose dispatch and combine nothing overlaps, have half as many rows as the others.
#include <algorithm>

#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

namespace {

/// Extensions of S1 beyond the paper.
enum class Beyond { Nothing, Deferred, Tapered };

class S1 : public Schedule {
 public:
  explicit S1(Beyond beyond) : beyond_(beyond) {}

  std::string_view name() const override {
    switch (beyond_) {
      case Beyond::Nothing: return "parm_s1";
      case Beyond::Deferred: return "s1_deferred";
      case Beyond::Tapered: return "s1_tapered";
    }
    return "";
  }
  std::string_view summary() const override {
    switch (beyond_) {
      case Beyond::Nothing:
        return "Parm S1: tokens split over tensor-parallel ranks before the gate, gathered after decode [Parm fig. 3b]";
      case Beyond::Deferred:
        return "parm_s1 with weight gradients concurrent with the all-to-all of input gradients [beyond the papers]";
      case Beyond::Tapered: return "s1_deferred with a first and a last chunk of half the size [beyond the papers]";
    }
    return "";
  }
  std::optional<Infeasibility> infeasibility(const Degrees& degrees, const Candidate& candidate) const override {
    if (beyond_ == Beyond::Tapered && candidate.pipeline_degree < 3)
      return Infeasibility(Constraint::Limit, candidate.pipeline_degree, 3, "s1_tapered has three chunks at least");
    const bool is_baseline = degrees.tp == 1 && degrees.esp == 1 && candidate.pipeline_degree == 1;
    if (is_baseline && beyond_ == Beyond::Nothing) return "parm_s1 without tp or etp is the baseline";
    return std::nullopt;
  }
  std::string_view same_as(const Degrees& degrees, const Candidate& candidate, Mode mode) const override {
    const bool defers = beyond_ == Beyond::Deferred;
    if (beyond_ == Beyond::Tapered || (defers && mode == Mode::Train)) return "";
    if (degrees.tp == 1 && degrees.esp == 1) return candidate.pipeline_degree == 1 ? "baseline" : "opt_sche";
    return defers ? "parm_s1" : "";
  }
  std::vector<std::int64_t> pipeline_degrees(const Degrees& d, std::int64_t ranks_per_node) const override {
    if (beyond_ == Beyond::Tapered) return {3, 5};
    return Schedule::pipeline_degrees(d, ranks_per_node);
  }
  std::optional<Degrees> least_as_s1(const Degrees& d) const override { return d; }
  ExchangeFamily exchange(const Degrees& d) const override { return {{"", d.ep * d.esp, 1}, d.esp}; }

  void lower_forward(const MoeLayer& l, BlockBuilder& b) const override {
    const MoeLayer in_parts = in_chunks(l);
    MoeParts parts(in_parts, b);
    parts.gate("ffn.in", {});
    parts.encode("ffn.in", {});
    append(round(l, /*backward=*/false), in_parts, b);
    parts.decode({}, "moe.out");
    parts.all_gather(l.groups.tp, OpClass::TensorParallel, "moe.out", "moe.out", {});
  }

  void lower_backward(const MoeLayer& l, BlockBuilder& b) const override {
    const MoeLayer in_parts = in_chunks(l);
    MoeParts parts(in_parts, b);
    parts.decode_backward("d.moe.out", {});
    append(round(l, /*backward=*/true), in_parts, b);
    parts.encode_backward("d.ffn.in", {});
    parts.gate_backward("ffn.in", "d.ffn.in", {});
    parts.all_gather(l.groups.tp, OpClass::TensorParallel, "d.ffn.in", "d.ffn.in", {});
  }

 private:
  ExpertRound round(const MoeLayer& l, bool backward) const {
    return {.group = l.groups.ep_esp,
            .sources = {},
            .backward = backward,
            .shards = true,
            .order = opt_sche(std::ssize(l.chunks)),
            .defers_weight_gradients = beyond_ != Beyond::Nothing};
  }

  MoeLayer in_chunks(const MoeLayer& l) const {
    MoeLayer out = l;
    const std::int64_t n = std::ssize(l.chunks), halves = 2 * n - 2;
    for (std::int64_t i = 0; i < n && beyond_ == Beyond::Tapered; ++i) {
      const bool is_end = i == 0 || i == n - 1;
      out.chunks[static_cast<std::size_t>(i)] = {
          RowStep::Kind::Chunk, {}, std::max<std::int64_t>(0, 2 * i - 1), halves, is_end ? 1 : 2};
    }
    return out;
  }

  Beyond beyond_;
};

}  // namespace

std::unique_ptr<Schedule> make_parm_s1_schedule() { return std::make_unique<S1>(Beyond::Nothing); }
std::unique_ptr<Schedule> make_deferred_s1_schedule() { return std::make_unique<S1>(Beyond::Deferred); }
std::unique_ptr<Schedule> make_tapered_s1_schedule() { return std::make_unique<S1>(Beyond::Tapered); }

}  // namespace moeplan::planner
