#include "planner/expert_round.hpp"

namespace moeplan {

namespace {

class Writer {
 public:
  Writer(const ExpertRound& round, const MoeLayer& layer, BlockBuilder& block)
      : r_(round), l_(layer), b_(block), parts_(layer, block) {}

  void write() {
    std::vector<std::vector<std::int32_t>> last(l_.chunks.size(), b_.last());
    for (const ChunkStep& step : r_.order) {
      const auto chunk = static_cast<std::size_t>(step.chunk);
      b_.continue_after(last[chunk]);
      task(l_.chunks[chunk], step.task);
      last[chunk] = b_.last();
    }
    std::vector<std::int32_t> all;
    for (const auto& operations : last) all.insert(all.end(), operations.begin(), operations.end());
    b_.continue_after(all);
  }

 private:
  void task(const RowStep& chunk, ChunkTask task) {
    // One chunk is all rows: then no slice needs to say so.
    const Path own = chunk.count == 1 ? r_.sources : prepend(chunk, r_.sources);
    const Path held = prepend(union_of(r_.group), own);
    const bool back = r_.backward;
    const Slice from = parts_.at_sources(back ? "d.moe.returned" : "moe.encoded", own);
    const Slice in = parts_.routed(back ? "d.expert.out" : "expert.in", Rows::Experts::Local, held);
    const Slice out = parts_.routed(back ? "d.expert.in" : "expert.out", Rows::Experts::Local, held);
    const std::string returned = back ? "d.moe.encoded" : "moe.returned";
    const bool sums = r_.shards && l_.degrees.esp > 1;
    const Slice to = sums ? parts_.at_sources(returned + ".partial", prepend(copies_of(l_.groups.esp), own))
                          : parts_.at_sources(returned, own);
    switch (task) {
      case ChunkTask::Encode: return transcode(l_.codec.there, from, /*decodes=*/false, "there");
      case ChunkTask::Dispatch:
        exchange("dispatch", OpClass::Dispatch, l_.codec.there, from, in, /*is_return=*/false);
        if (l_.beside_dispatch) l_.beside_dispatch();
        return;
      case ChunkTask::Decode: return transcode(l_.codec.there, in, /*decodes=*/true, "there");
      case ChunkTask::Expert:
        back ? parts_.experts_backward(held) : parts_.experts(held);
        if (r_.after_experts) r_.after_experts(held);
        return;
      case ChunkTask::EncodeBack:
        if (!r_.combine) transcode(l_.codec.back, out, /*decodes=*/false, "back");
        return;
      case ChunkTask::Combine:
        if (r_.combine) return r_.combine(own);
        return exchange("combine", OpClass::Combine, l_.codec.back, out, to, /*is_return=*/true);
      case ChunkTask::DecodeBack:
        if (r_.combine) return;
        transcode(l_.codec.back, to, /*decodes=*/true, "back");
        if (sums) parts_.sum_shards(returned + ".partial", returned, own, Rows::Experts::All);
        return;
    }
  }

  /// What is sent of the rows of a slice.
  std::vector<Slice> wire(WireFormat format, const Slice& rows, const std::string& way) {
    const std::string name = b_.program().buffer(rows.buffer).name + "." + way;
    std::vector<Slice> out;
    for (const WirePart& p : wire_parts(format, l_.codec_options, l_.hidden_size)) {
      out.push_back(b_.slice(name + std::string(p.suffix), p.columns, p.dtype, rows.rows));
    }
    return out;
  }

  void transcode(const std::optional<WireFormat>& format, const Slice& rows, bool decodes, const std::string& way) {
    if (!format) return;
    const std::vector<Slice> sent = wire(*format, rows, way), plain{rows};
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
                const Slice& to, bool is_return) {
    const auto move = [&](const Slice& a, const Slice& b) {
      l_.all_to_all->lower({name, op_class, r_.group, a, b, is_return}, b_);
    };
    if (!format) return move(from, to);
    const std::string way = is_return ? "back" : "there";
    const std::vector<Slice> sent = wire(*format, from, way), received = wire(*format, to, way);
    for (std::size_t i = 0; i < sent.size(); ++i) move(sent[i], received[i]);
  }

  const ExpertRound& r_;
  const MoeLayer& l_;
  BlockBuilder& b_;
  MoeParts parts_;
};

}  // namespace

void append(const ExpertRound& round, const MoeLayer& layer, BlockBuilder& block) {
  Writer(round, layer, block).write();
}

}  // namespace moeplan
