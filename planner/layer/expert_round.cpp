#include "planner/layer/expert_round.hpp"

namespace moeplan::planner {

namespace {

class Writer {
 public:
  Writer(const ExpertRound& round, const MoeLayer& layer, BlockBuilder& block)
      : r_(round), l_(layer), b_(block), parts_(layer, block) {}

  void write() {
    std::vector<std::vector<std::int32_t>> last(l_.chunks.size(), b_.last());
    for (const ChunkStep& step : r_.order) {
      const auto chunk = static_cast<std::size_t>(step.chunk);
      if (step.task == ChunkTask::DecodeCombine) weight_gradients();
      b_.continue_after(last[chunk]);
      task(chunk, step.task);
      last[chunk] = b_.last();
    }
    std::vector<std::int32_t> all = std::move(unordered_);
    for (const auto& operations : last) all.insert(all.end(), operations.begin(), operations.end());
    b_.continue_after(all);
  }

 private:
  /// The rows of a chunk: their path at the source, their path at the holder, and the peers of the exchange.
  struct Part {
    Path own;
    Path held;
    std::function<Slice(Slice)> at_source = [](Slice s) { return s; };
    std::optional<std::int64_t> groups_on{};
    bool is_first = true;
  };

  Part part(std::size_t chunk) {
    const auto count = static_cast<std::int64_t>(l_.chunks.size());
    if (count == 1) return {r_.sources, prepend(union_of(r_.group), r_.sources)};  // all rows
    if (!r_.by_groups) {
      const Path own = prepend(l_.chunks[chunk], r_.sources);
      return {.own = own, .held = prepend(union_of(r_.group), own), .is_first = chunk == 0};
    }
    const auto j = static_cast<std::int64_t>(chunk);
    const GroupFamily family = b_.program().group(r_.group);
    const GroupId neighbours = b_.group(family.name + " neighbours", family.size / count, family.stride);
    const auto for_group = [neighbours, j, count](Slice s) {
      s.rows.experts = Rows::Experts::Held;
      s.rows.holders = neighbours;
      s.rows.behind = (count - j) % count;
      return s;
    };
    return {r_.sources, prepend({RowStep::Kind::Union, r_.group, j, count}, r_.sources), for_group, j};
  }

  void task(std::size_t chunk, ChunkTask task) {
    const Part p = part(chunk);
    const bool back = r_.backward;
    const Slice from = p.at_source(parts_.at_sources(back ? "d.moe.returned" : "moe.encoded", p.own));
    const bool dedup = l_.all_to_all->deduplicates(), with_choices = dedup || l_.weighs_in_experts;
    const std::string operand = back ? "d.expert.out" : "expert.in", result = back ? "d.expert.in" : "expert.out";
    const Slice in = dedup ? parts_.at_holders(back ? "d.moe.arrived" : "moe.arrived", p.held)
                           : own(parts_.routed(operand, l_.computed, p.held));
    const Slice out = dedup ? parts_.at_holders(back ? "d.moe.leaving" : "moe.leaving", p.held)
                            : own(parts_.routed(result, l_.computed, p.held));
    const std::string returned = back ? "d.moe.encoded" : "moe.returned";
    const bool sums = r_.shards && l_.degrees.esp > 1;
    const Slice to =
        p.at_source(sums ? parts_.at_sources(returned + ".partial", prepend(copies_of(l_.groups.esp), p.own))
                         : parts_.at_sources(returned, p.own));
    switch (task) {
      case ChunkTask::Encode:
        if (parts_.dispatches_operands(back))
          return parts_.quantise_for_dispatch(from, wire(*l_.codec.dispatch, from, "dispatch"));
        return transcode(l_.codec.dispatch, from, /*decodes=*/false, "dispatch");
      case ChunkTask::Dispatch:
        if (with_choices && !back) {
          const auto [sent, arrived] = parts_.dispatched_choice(p.own, p.held);
          move("dispatch choices", OpClass::Dispatch, {p.at_source(sent), own(arrived)}, false, p,
               /*accompanies=*/true);
        }
        exchange("dispatch", OpClass::Dispatch, l_.codec.dispatch, from, in, /*is_combine=*/false, p);
        if (l_.during_dispatch) l_.during_dispatch();
        return;
      case ChunkTask::Decode:
        if (!parts_.dispatches_operands(back)) transcode(l_.codec.dispatch, in, /*decodes=*/true, "dispatch");
        if (dedup) parts_.write_out(p.held, back);
        if (r_.gathers_over_shards) gather(p, in, rows_of_experts(operand, p), with_choices && !back);
        return;
      case ChunkTask::Expert: return experts(chunk, path_of_experts(p));
      case ChunkTask::EncodeCombine:
        if (r_.gathers_over_shards) reduce_scatter(p, rows_of_experts(result, p), out, with_choices && back);
        if (dedup) parts_.add_up(p.held, back);
        if (!r_.combine) transcode(l_.codec.combine, out, /*decodes=*/false, "combine");
        return;
      case ChunkTask::Combine:
        if (r_.combine) return r_.combine(p.own);
        if (with_choices && back) {
          const auto [leaving, returned_choice] = parts_.combined_choice_gradient(p.own, p.held);
          move("combine choices", OpClass::Combine, {own(leaving), p.at_source(returned_choice)}, true, p,
               /*accompanies=*/true);
        }
        return exchange("combine", OpClass::Combine, l_.codec.combine, out, to, /*is_combine=*/true, p);
      case ChunkTask::DecodeCombine:
        if (r_.combine) return;
        transcode(l_.codec.combine, to, /*decodes=*/true, "combine");
        if (sums) parts_.sum_shards(returned + ".partial", returned, p.own, Rows::Experts::All);
        return;
    }
  }

  /// Where shards gather rows, those of one shard before and after.
  Slice own(const Slice& s) {
    if (!r_.gathers_over_shards) return s;
    const Buffer& gathered = b_.program().buffer(s.buffer);
    return b_.slice(gathered.name + ".own", gathered.columns, gathered.dtype, s.rows);
  }
  /// The rows that the experts compute.
  [[nodiscard]] Path path_of_experts(const Part& p) const {
    return r_.gathers_over_shards ? prepend(union_of(l_.groups.esp), p.held) : p.held;
  }
  Slice rows_of_experts(const std::string& name, const Part& p) {
    return parts_.routed(name, l_.computed, path_of_experts(p));
  }
  void gather(const Part& p, const Slice& rows, const Slice& of_shards, bool with_choices) {
    over_shards(Collective::AllGather, rows, of_shards);
    if (with_choices)
      over_shards(Collective::AllGather, own(parts_.dispatched_choice(p.own, p.held).second),
                  parts_.dispatched_choice(p.own, path_of_experts(p)).second);
  }
  void reduce_scatter(const Part& p, const Slice& of_shards, const Slice& rows, bool with_choice_gradients) {
    over_shards(Collective::ReduceScatter, of_shards, rows);
    if (with_choice_gradients)
      over_shards(Collective::ReduceScatter, parts_.combined_choice_gradient(p.own, path_of_experts(p)).first,
                  own(parts_.combined_choice_gradient(p.own, p.held).first));
  }
  void over_shards(Collective kind, const Slice& from, const Slice& to) {
    const bool gathers = kind == Collective::AllGather;
    b_.then(collective(gathers ? "all-gather" : "reduce-scatter", OpClass::ExpertSharding, Stream::Intra,
                       {.collective = kind, .group = l_.groups.esp}, from, to));
  }

  void experts(std::size_t chunk, const Path& held) {
    std::vector<std::int32_t> ready = b_.last();
    ready.insert(ready.end(), r_.weights_ready.begin(), r_.weights_ready.end());
    const bool has_copies = !(r_.by_groups && l_.computes_copies_last) || chunk == 0;
    if (has_copies) ready.insert(ready.end(), l_.copies_ready.begin(), l_.copies_ready.end());
    b_.continue_after(ready);
    const std::size_t first = b_.block().operations.size();
    if (!r_.backward) {
      parts_.experts(held);
    } else if (r_.defers_weight_gradients || l_.all_to_all->is_fused()) {
      parts_.experts_input_gradients(held);
      deferred_.emplace_back(held, b_.last());
    } else {
      parts_.experts_backward(held);
    }
    b_.make_parts(first, l_.all_to_all->fused_parts());
    if (r_.after_experts) r_.after_experts(static_cast<std::int64_t>(chunk), held);
  }

  /// Appends the deferred weight gradients; those of a fused dispatcher's parts as products of all rows.
  void weight_gradients() {
    if (l_.all_to_all->is_fused() && !deferred_.empty())
      deferred_ = {{prepend(union_of(r_.group), r_.sources), deferred_.back().second}};
    for (const auto& [held, input_gradients] : deferred_) {
      b_.continue_after(input_gradients);
      parts_.experts_weight_gradients(held);
      unordered_.push_back(b_.last().front());
    }
    deferred_.clear();
  }

  /// The slices that are sent to represent the rows of a slice in a wire format. The values that the experts multiply
  /// are their operands; the scales of these are not read, since products are priced with them.
  std::vector<Slice> wire(WireFormat format, const Slice& rows, const std::string& phase) {
    const std::string name = b_.program().buffer(rows.buffer).name + "." + phase;
    const bool are_operands = phase == "dispatch" && parts_.dispatches_operands(r_.backward);
    std::vector<Slice> out;
    for (const WirePart& p : wire_parts(format, l_.codec_options, l_.hidden_size)) {
      out.push_back(are_operands && out.empty()
                        ? parts_.dispatched(rows, r_.backward)
                        : b_.slice(name + std::string(p.suffix), p.columns, p.dtype, rows.rows));
    }
    return out;
  }

  void transcode(const std::optional<WireFormat>& format, const Slice& rows, bool decodes, const std::string& phase) {
    if (!format) return;
    const std::vector<Slice> sent = wire(*format, rows, phase), plain{rows};
    b_.then({.name = codec_name(*format, decodes),
             .op_class = OpClass::Codec,
             .stream = Stream::Compute,
             .work = Codec{*format, decodes},
             .reads = decodes ? sent : plain,
             .writes = decodes ? plain : sent,
             .after = {}});
  }

  static std::string codec_name(WireFormat format, bool decodes) {
    return std::string(name_of<WireFormat>(kWireFormatNames, format)) + (decodes ? " decode" : " encode");
  }

  void exchange(const std::string& name, OpClass op_class, const std::optional<WireFormat>& format, const Slice& from,
                const Slice& to, bool is_combine, const Part& p) {
    if (!format) return move(name, op_class, {from, to}, is_combine, p);
    const std::string phase = is_combine ? "combine" : "dispatch";
    const std::vector<Slice> sent = wire(*format, from, phase), received = wire(*format, to, phase);
    for (std::size_t i = 0; i < sent.size(); ++i) {
      move(name, op_class, {sent[i], received[i]}, is_combine, p, /*accompanies=*/i > 0);
    }
  }

  void move(const std::string& name, OpClass op_class, const std::pair<Slice, Slice>& ends, bool is_combine,
            const Part& p, bool accompanies = false) {
    const auto& [from, to] = ends;
    if (!p.groups_on) {
      const bool continues = l_.all_to_all->is_fused() && (is_combine || !p.is_first);
      return l_.all_to_all->lower(
          {name, op_class, r_.group, from, to, is_combine, l_.dispatcher_sms, accompanies, continues}, b_);
    }
    const auto count = static_cast<std::int64_t>(l_.chunks.size());
    b_.then(collective(name, op_class, Stream::Inter,
                       {.collective = Collective::AllToAll,
                        .group = r_.group,
                        .first = is_combine ? (count - *p.groups_on) % count : *p.groups_on,
                        .count = 1,
                        .of = count},
                       from, to));
  }

  const ExpertRound& r_;
  const MoeLayer& l_;
  BlockBuilder& b_;
  MoeParts parts_;
  std::vector<std::pair<Path, std::vector<std::int32_t>>> deferred_;  // rows of chunks, and the operations before them
  std::vector<std::int32_t> unordered_;                               // last operations, for which no chunk waits
};

}  // namespace

void append(const ExpertRound& round, const MoeLayer& layer, BlockBuilder& block) {
  Writer(round, layer, block).write();
}

}  // namespace moeplan::planner
