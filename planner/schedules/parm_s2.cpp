// Parm's S2 ([Parm] sec. III-B, fig. 3c; MODELS section 7): the layout of S1, split after the gate.
//
//   forward   gate - encode - (MP-Split) - A2A* - experts - SAA(A2A*, AG_MP) - decode
//   backward  decode' - (split) - A2A* - experts' - SAA(A2A*, AG_MP) - encode' - gate'
//
// SAA is the simultaneous all-to-all and all-gather ([Parm] sec. III-D, fig. 5). The all-to-all runs in N_EP phases, in
// each of which a rank exchanges with the N_ESP shards of one expert-parallel position. The rows received in a phase
// are summed over the shards (on a stream of its own, so as not to wait for a later chunk's experts) and gathered in
// the MP group while the next phase is in progress. Parm's released code ([C] of MODELS section 7) has a phase for each
// of the N_EP N_ESP ranks instead and gathers rows before they are summed: N_ESP times as many.
//
// Deferred, beyond the paper: weight gradients as in S1.
#include <bit>

#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

namespace {

/// The relation between S2's combine all-to-all and its all-gather.
enum class Gathering { Simultaneous, SimultaneousByRank, InTurn };

std::string_view s2_name(Gathering gathering) {
  switch (gathering) {
    case Gathering::Simultaneous: return "parm_s2";
    case Gathering::SimultaneousByRank: return "parm_s2_code";
    case Gathering::InTurn: return "parm_s2_aas";
  }
  return "";
}

class S2 : public Schedule {
 public:
  S2(Gathering gathering, bool defers) : gathering_(gathering), defers_(defers) {}

  std::string_view name() const override { return defers_ ? "s2_deferred" : s2_name(gathering_); }
  std::string_view summary() const override {
    if (defers_)
      return "parm_s2 with weight gradients concurrent with the all-to-all of input gradients [beyond the papers]";
    switch (gathering_) {
      case Gathering::Simultaneous:
        return "Parm S2: split after the gate, gathered with the all-to-all at once (SAA) [Parm fig. 3c, 5]";
      case Gathering::SimultaneousByRank: return "Parm S2 with a phase of SAA for each rank, as in its released code";
      case Gathering::InTurn: return "Parm S2 with all-to-all and all-gather in turn (AAS) [Parm sec. VI-C]";
    }
    return "";
  }
  std::optional<Infeasibility> infeasibility(const Degrees& degrees, const Candidate& candidate) const override {
    if (degrees.tp == 1) return "parm_s2 without tp is parm_s1";
    if (candidate.all_to_all->deduplicates()) return "parm_s2 splits rows, not tokens";
    if (candidate.codec.combine) return "parm_s2 gathers what comes back, which a codec would have to read first";
    if (gathering_ != Gathering::SimultaneousByRank) return std::nullopt;
    if (degrees.esp == 1) return "parm_s2_code without etp is parm_s2";
    if (!is_power_of_two(degrees.ep) || !is_power_of_two(degrees.esp))
      return "parm_s2_code pairs ranks: ep and etp are powers of two";
    const std::int64_t phases = degrees.ep * degrees.esp;
    if (phases <= kMostPhases) return std::nullopt;
    return Infeasibility(Constraint::Limit, kMostPhases, phases, "parm_s2_code is planned with up to 256 phases");
  }
  std::string_view same_as(const Degrees&, const Candidate&, Mode mode) const override {
    return defers_ && mode != Mode::Train ? "parm_s2" : "";
  }
  std::optional<Degrees> least_as_s1(const Degrees& d) const override { return d; }
  ExchangeFamily exchange(const Degrees& d) const override { return {{"", d.ep * d.esp, 1}, d.esp}; }

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

  bool takes_choices_along(const Degrees&) const override { return false; }  // it gathers what it combines

 private:
  /// This rank's part of each expert's rows that the MP group holds.
  static Path split(const MoeLayer& l) { return {share_of(l.groups.tp), union_of(l.groups.tp)}; }
  ExpertRound round(const MoeLayer& l, BlockBuilder& b, bool backward) const {
    ExpertRound r{.group = l.groups.ep_esp,
                  .sources = split(l),
                  .backward = backward,
                  .shards = true,
                  .order = opt_sche(std::ssize(l.chunks)),
                  .defers_weight_gradients = defers_};
    r.combine = [&l, &b, backward, this](const Path& chunk) {
      const std::string from = backward ? "d.expert.in" : "expert.out",
                        to = backward ? "d.moe.encoded" : "moe.returned";
      gathering_ == Gathering::SimultaneousByRank ? exchange_and_gather_by_rank(l, b, from, to, chunk)
                                                  : exchange_and_gather(l, b, from, to, chunk);
    };
    return r;
  }

  struct Phase {
    std::int64_t number, of;
    bool paired;
  };
  /// One phase of A2A*: a part of the local experts' rows to the ranks of the group.
  static Operation combine_phase(const MoeLayer& l, MoeParts& parts, const std::string& from, const Path& own_path,
                                 const Phase& phase, const Slice& received) {
    return collective("combine", OpClass::Combine, Stream::Inter,
                      {.collective = Collective::AllToAll,
                       .group = l.groups.ep_esp,
                       .first = phase.number,
                       .count = 1,
                       .of = phase.of,
                       .paired = phase.paired},
                      parts.routed(from, Rows::Experts::Local, prepend(union_of(l.groups.ep_esp), own_path)), received);
  }

  /// A2A* of the experts' rows to their sources, and AG_MP, in overlapping phases or in turn. `own_path` is the path of
  /// the rows that the rank sent, i.e. of its part of the MP group's rows.
  void exchange_and_gather(const MoeLayer& l, BlockBuilder& b, const std::string& from, const std::string& to,
                           const Path& own_path) const {
    MoeParts parts(l, b);
    const bool shards = l.degrees.esp > 1;
    const std::string part = to + ".part", arrived = shards ? part + ".partial" : part;
    const std::int64_t phases = gathering_ == Gathering::Simultaneous ? l.degrees.ep : 1;
    const std::vector<std::int32_t> ready = b.last();
    std::vector<std::int32_t> gathered;
    for (std::int64_t j = 0; j < phases; ++j) {
      // Across nodes ranks exchange in pairs, so that every phase is the same for all ranks; within a node they
      // exchange in turn, so that every phase mixes near and far peers.
      const bool paired = is_power_of_two(phases) && l.degrees.ep * l.degrees.esp > b.program().ranks_per_node;
      const auto in_part = paired ? Rows::Experts::Paired : Rows::Experts::Behind;
      const auto experts = phases == 1 ? Rows::Experts::All : in_part;
      Slice received = parts.routed(arrived, experts, shards ? prepend(copies_of(l.groups.esp), own_path) : own_path);
      Slice own = parts.routed(part, experts, own_path);
      // Rows of the experts, from every member of the MP group.
      const Slice whole = parts.routed(to, Rows::Experts::All, prepend(union_of(l.groups.tp), own_path));
      received.rows.behind = own.rows.behind = j;
      b.after(ready, combine_phase(l, parts, from, own_path, {j, phases, paired}, received));
      parts.sum_shards(arrived, part, own_path, experts, j, Stream::Copy);
      gathered.push_back(b.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                                           {.collective = Collective::AllGather, .group = l.groups.tp}, own, whole)));
    }
    b.continue_after(gathered);
  }

  /// The same with one phase per rank of the group. The shards' parts are gathered in separate buffers, indexed by the
  /// distance of the shard from the rank's own, and then summed.
  static void exchange_and_gather_by_rank(const MoeLayer& l, BlockBuilder& b, const std::string& from,
                                          const std::string& to, const Path& own_path) {
    MoeParts parts(l, b);
    const std::int64_t shards = l.degrees.esp, phases = l.degrees.ep * shards;
    const Path whole_path = prepend(union_of(l.groups.tp), own_path);
    const std::vector<std::int32_t> ready = b.last();
    std::vector<std::int32_t> gathered;
    std::vector<Slice> partial;
    for (std::int64_t j = 0; j < phases; ++j) {
      const std::string suffix = ".shard" + std::to_string(j % shards);
      Slice received = parts.routed(to + ".part" + suffix, Rows::Experts::Paired, own_path);
      const Slice whole = parts.routed(to + suffix, Rows::Experts::All, whole_path);
      received.rows.behind = j / shards;
      b.after(ready, combine_phase(l, parts, from, own_path, {j, phases, /*paired=*/true}, received));
      gathered.push_back(
          b.then(collective("all-gather", OpClass::TensorParallel, Stream::Intra,
                            {.collective = Collective::AllGather, .group = l.groups.tp}, received, whole)));
      if (j < shards) partial.push_back(whole);
    }
    b.continue_after(gathered);
    Operation sum = kernel("local combine", OpClass::Permute, Kernel::SumShards, partial,
                           {parts.routed(to, Rows::Experts::All, whole_path)});
    sum.stream = Stream::Copy;
    b.then(std::move(sum));
  }

  static bool is_power_of_two(std::int64_t n) { return std::has_single_bit(static_cast<std::uint64_t>(n)); }

  static constexpr std::int64_t kMostPhases = 256;  // two operations each; assumed: enough
  Gathering gathering_;
  bool defers_;
};

}  // namespace

std::unique_ptr<Schedule> make_parm_s2_schedule() {
  return std::make_unique<S2>(Gathering::Simultaneous, /*defers=*/false);
}
std::unique_ptr<Schedule> make_parm_s2_code_schedule() {
  return std::make_unique<S2>(Gathering::SimultaneousByRank, /*defers=*/false);
}
std::unique_ptr<Schedule> make_parm_s2_in_turn_schedule() {
  return std::make_unique<S2>(Gathering::InTurn, /*defers=*/false);
}
std::unique_ptr<Schedule> make_deferred_s2_schedule() {
  return std::make_unique<S2>(Gathering::Simultaneous, /*defers=*/true);
}

}  // namespace moeplan::planner
