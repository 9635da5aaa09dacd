// The schedule of DeepSpeed-MoE with expert sharding, as Parm describes it ([Parm] sec. III-A, fig. 3a; MODELS section
// 7):
//
//   forward   AG_ESP - gate - encode - A2A_EP - experts - AR_ESP - A2A_EP - decode - (ESP-Split, local)
//   backward  AG_ESP - decode' - A2A_EP - experts' - A2A_EP - encode' - RS_ESP - gate'
//
// Every step waits for the one before. Tensor-parallel ranks all dispatch the same tokens. Without expert shards the
// ESP collectives vanish and it is the plain expert parallelism of GShard. Backward: the gradient of AR_ESP's result is
// the same on all shards and needs no communication; each shard's input gradient is partial, and the reduce-scatter
// that mirrors AG_ESP adds them. The gate's is the same on all shards, so each adds its own tokens' after that.
#include "planner/expert_round.hpp"

namespace moeplan {

namespace {

class Baseline : public Schedule {
 public:
  std::string_view name() const override { return "baseline"; }
  std::string_view summary() const override {
    return "DeepSpeed-MoE with expert sharding, every step after the one before [Parm fig. 3a]";
  }
  std::string obstacle(const Degrees&, const Candidate& candidate) const override {
    return candidate.pipeline_degree > 1 ? "baseline has one chunk" : "";
  }

  void lower_forward(const MoeLayer& l, BlockBuilder& b) const override {
    MoeParts parts(l, b);
    const std::string input = gathered("ffn.in", l);
    parts.all_gather(l.groups.esp, OpClass::ExpertSharding, "ffn.in", input, own(l));
    parts.gate(input, sources(l));
    parts.encode(input, sources(l));
    ExpertRound round{.group = l.groups.ep, .sources = sources(l), .order = opt_sche(std::ssize(l.chunks))};
    round.after_experts = [&](const Path& held) {
      if (l.degrees.esp == 1) return;
      const Slice out = parts.routed("expert.out", Rows::Experts::Local, held);
      b.then(collective("expert all-reduce", OpClass::ExpertSharding, Stream::Intra,
                        {.collective = Collective::AllReduce, .group = l.groups.esp}, out, out));
    };
    append(round, l, b);
    parts.decode(sources(l), "moe.out");
  }

  void lower_backward(const MoeLayer& l, BlockBuilder& b) const override {
    MoeParts parts(l, b);
    const std::string gradient = gathered("d.ffn.in", l);
    parts.all_gather(l.groups.esp, OpClass::ExpertSharding, "d.moe.out", gathered("d.moe.out", l), own(l));
    parts.decode_backward(gathered("d.moe.out", l), sources(l));
    append({.group = l.groups.ep, .sources = sources(l), .backward = true, .order = opt_sche(std::ssize(l.chunks))}, l,
           b);
    parts.encode_backward(gradient, sources(l));
    parts.reduce_scatter(l.groups.esp, OpClass::ExpertSharding, gradient, "d.ffn.in", own(l));
    parts.gate_backward("ffn.in", "d.ffn.in", own(l));
  }

 private:
  static std::string gathered(const std::string& name, const MoeLayer& l) {
    return l.degrees.esp > 1 ? name + ".gathered" : name;
  }
  static Path own(const MoeLayer& l) { return {union_of(l.groups.tp)}; }
  static Path sources(const MoeLayer& l) { return prepend(union_of(l.groups.esp), own(l)); }
};

}  // namespace

std::unique_ptr<Schedule> make_baseline_schedule() { return std::make_unique<Baseline>(); }

}  // namespace moeplan
