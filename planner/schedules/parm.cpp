// Parm's schedules ([Parm] sec. III-B, fig. 3b and 3c; MODELS section 7). Both replace the ESP collectives and the EP
// all-to-all by one all-to-all over the EP x ESP group, and stop duplicating work within a tensor-parallel (MP) group.
//
//   S1 forward   (MP-Split) - gate - encode - A2A* - experts - A2A* - local combine - decode - AG_MP
//   S1 backward  (split) - decode' - A2A* - experts' - A2A* - local combine - encode' - gate' - AG_MP
//   S2 forward   gate - encode - (MP-Split) - A2A* - experts - SAA(A2A*, AG_MP) - decode
//   S2 backward  decode' - (split) - A2A* - experts' - SAA(A2A*, AG_MP) - encode' - gate'
//
// SAA, the simultaneous all-to-all and all-gather ([Parm] sec. III-D, fig. 5): the all-to-all runs in N_EP phases, in
// each of which a rank exchanges with the N_ESP shards of one expert-parallel position; what a phase brought is summed
// over the shards and gathered in the MP group while the next phase is on the wire. "Dump" is virtual, as in the paper:
// the same rows are sent to each shard, no copy is made.
#include <bit>

#include "planner/expert_round.hpp"

namespace moeplan {

namespace {

class S1 : public Schedule {
 public:
  std::string_view name() const override { return "parm_s1"; }
  std::string_view summary() const override {
    return "Parm S1: tokens split over tensor-parallel ranks before the gate, gathered after decode [Parm fig. 3b]";
  }
  std::string obstacle(const Degrees& degrees, const Candidate& candidate) const override {
    const bool is_baseline = degrees.tp == 1 && degrees.esp == 1 && candidate.pipeline_degree == 1;
    return is_baseline ? "parm_s1 without tp or esp is the baseline" : "";
  }
  bool exchanges_with_shards() const override { return true; }

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
    return {.group = l.groups.ep_esp,
            .sources = {},
            .backward = backward,
            .shards = true,
            .order = opt_sche(std::ssize(l.chunks))};
  }
};

class S2 : public Schedule {
 public:
  explicit S2(bool simultaneous) : simultaneous_(simultaneous) {}

  std::string_view name() const override { return simultaneous_ ? "parm_s2" : "parm_s2_aas"; }
  std::string_view summary() const override {
    return simultaneous_ ? "Parm S2: split after the gate, gathered with the all-to-all at once (SAA) [Parm fig. 3c, 5]"
                         : "Parm S2 with all-to-all and all-gather in turn (AAS) [Parm sec. VI-C]";
  }
  std::string obstacle(const Degrees& degrees, const Candidate& candidate) const override {
    if (degrees.tp == 1) return "parm_s2 without tp is parm_s1";
    if (candidate.all_to_all == "node_dedup") return "parm_s2 splits rows, not tokens";
    const std::optional<CodecPair> codec = parse_codec_pair(candidate.codec);
    return codec && codec->back ? "parm_s2 gathers what comes back, which a codec would have to read first" : "";
  }
  bool exchanges_with_shards() const override { return true; }

  void lower_forward(const MoeLayer& l, BlockBuilder& b) const override {
    MoeParts parts(l, b);
    const Path all{union_of(l.groups.tp)};
    parts.gate("ffn.in", all);
    parts.encode("ffn.in", all);
    append(round(l, b, /*backward=*/false), l, b);
    parts.decode(all, "moe.out");
  }

  void lower_backward(const MoeLayer& l, BlockBuilder& b) const override {
    MoeParts parts(l, b);
    const Path all{union_of(l.groups.tp)};
    parts.decode_backward("d.moe.out", all);
    append(round(l, b, /*backward=*/true), l, b);
    parts.encode_backward("d.ffn.in", all);
    parts.gate_backward("ffn.in", "d.ffn.in", all);
  }

 private:
  /// Of each expert's rows that the MP group holds, this rank's part.
  static Path split(const MoeLayer& l) { return {share_of(l.groups.tp), union_of(l.groups.tp)}; }
  ExpertRound round(const MoeLayer& l, BlockBuilder& b, bool backward) const {
    ExpertRound r{.group = l.groups.ep_esp,
                  .sources = split(l),
                  .backward = backward,
                  .shards = true,
                  .order = opt_sche(std::ssize(l.chunks))};
    r.combine = [&l, &b, backward, this](const Path& chunk) {
      exchange_and_gather(l, b, backward ? "d.expert.in" : "expert.out", backward ? "d.moe.encoded" : "moe.returned",
                          chunk);
    };
    return r;
  }

  /// A2A* of the experts' rows back to their sources, with AG_MP: in phases that overlap, or in turn. `own_path` is the
  /// path of the rows that the rank sent, of what its MP group sent its part.
  void exchange_and_gather(const MoeLayer& l, BlockBuilder& b, const std::string& from, const std::string& to,
                           const Path& own_path) const {
    MoeParts parts(l, b);
    const bool shards = l.degrees.esp > 1;
    const std::string part = to + ".part", arrived = shards ? part + ".partial" : part;
    const std::int64_t phases = simultaneous_ ? l.degrees.ep : 1;
    const std::vector<std::int32_t> ready = b.last();
    std::vector<std::int32_t> gathered;
    for (std::int64_t j = 0; j < phases; ++j) {
      // Over several nodes ranks exchange in pairs, so that every phase looks the same from each of them; inside a node
      // in turn, which mixes near and far peers in each phase.
      const bool paired = std::has_single_bit(static_cast<std::uint64_t>(phases)) &&
                          l.degrees.ep * l.degrees.esp > b.program().ranks_per_node;
      const auto in_part = paired ? Rows::Experts::Paired : Rows::Experts::Behind;
      const auto experts = phases == 1 ? Rows::Experts::All : in_part;
      Slice received = parts.routed(arrived, experts, shards ? prepend(copies_of(l.groups.esp), own_path) : own_path);
      Slice own = parts.routed(part, experts, own_path);
      // Of the experts whose rows came to each member.
      const Slice whole = parts.routed(to, Rows::Experts::All, prepend(union_of(l.groups.tp), own_path));
      received.rows.behind = own.rows.behind = j;
      b.after(ready, collective("combine", OpClass::Combine, Stream::Inter,
                                {.collective = Collective::AllToAll,
                                 .group = l.groups.ep_esp,
                                 .first = j,
                                 .count = 1,
                                 .of = phases,
                                 .paired = paired},
                                parts.routed(from, Rows::Experts::Local, prepend(union_of(l.groups.ep_esp), own_path)),
                                received));
      parts.sum_shards(arrived, part, own_path, experts, j);
      gathered.push_back(b.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                                           {.collective = Collective::AllGather, .group = l.groups.tp}, own, whole)));
    }
    b.continue_after(gathered);
  }

  bool simultaneous_;
};

}  // namespace

std::unique_ptr<Schedule> make_parm_s1_schedule() { return std::make_unique<S1>(); }
std::unique_ptr<Schedule> make_parm_s2_schedule(bool simultaneous) { return std::make_unique<S2>(simultaneous); }

}  // namespace moeplan
