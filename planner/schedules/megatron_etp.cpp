// The schedule of Megatron-Core's all-to-all dispatcher with expert tensor parallelism ([Liu et al. 2025], MoE Parallel
// Folding, arXiv:2504.14960, sec. 3.3): every rank dispatches its own tokens to one shard of each expert, and the
// shards of an expert gather the rows that arrived. S1 sends a row to each shard instead, the baseline a row of each
// shard.
//
//   forward   (MP-Split) - gate - encode - A2A_EP - AG_ESP - experts - RS_ESP - A2A_EP - decode - AG_MP
//   backward  (split) - decode' - A2A_EP - AG_ESP - experts' - RS_ESP - A2A_EP - encode' - gate' - AG_MP
#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

namespace {

class MegatronEtp : public Schedule {
 public:
  std::string_view name() const override { return "megatron_etp"; }
  std::string_view summary() const override {
    return "Megatron-Core with expert shards: these gather the rows that arrive, and reduce-scatter their results";
  }
  std::optional<Infeasibility> infeasibility(const Degrees& degrees, const Candidate& candidate) const override {
    if (degrees.esp == 1) return "megatron_etp has expert shards";
    if (candidate.pipeline_degree > 1)
      return Infeasibility(Constraint::Limit, 1, candidate.pipeline_degree, "megatron_etp has one chunk");
    if (candidate.all_to_all->deduplicates()) return "megatron_etp gathers rows, not tokens";
    if (candidate.codec != CodecPair{})
      return "megatron_etp gathers what arrives, which a codec would have to read first";
    return std::nullopt;
  }
  bool takes_choices_along(const Degrees&) const override { return true; }  // gathered with the rows
  std::vector<std::int64_t> pipeline_degrees(const Degrees&, std::int64_t) const override { return {1}; }
  std::optional<Degrees> least_as_s1(const Degrees& d) const override { return d; }

  void lower_forward(const MoeLayer& l, BlockBuilder& b) const override {
    MoeParts parts(l, b);
    parts.gate("ffn.in", {});
    parts.encode("ffn.in", {});
    append(round(l, /*backward=*/false), l, b);
    parts.decode({}, "moe.out");
    parts.all_gather(l.groups.tp, OpClass::TensorParallel, "moe.out", "moe.out", {});
  }

  void lower_backward(const MoeLayer& l, BlockBuilder& b) const override {
    MoeParts parts(l, b);
    parts.decode_backward("d.moe.out", {});
    append(round(l, /*backward=*/true), l, b);
    parts.encode_backward("d.ffn.in", {});
    parts.gate_backward("ffn.in", "d.ffn.in", {});
    parts.all_gather(l.groups.tp, OpClass::TensorParallel, "d.ffn.in", "d.ffn.in", {});
  }

 private:
  static ExpertRound round(const MoeLayer& l, bool backward) {
    return {.group = l.groups.ep,
            .sources = {},
            .backward = backward,
            .gathers_over_shards = true,
            .order = task_by_task(1)};
  }
};

}  // namespace

std::unique_ptr<Schedule> make_megatron_etp_schedule() { return std::make_unique<MegatronEtp>(); }

}  // namespace moeplan::planner
