// Resolution of communications: which elements are sent to which rank. Both ends of a pair compute the same order
// independently: that of the sender's rows if it sends all rows that it has for the receiver's experts, otherwise that
// of the receiver's rows.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "cuda_runtime/resolve_work.hpp"
#include "model/base/diagnostics.hpp"
#include "model/program/resolve.hpp"
#include "model/program/row_sets.hpp"

namespace moeplan::runtime {

namespace {

using Counts = std::unordered_map<RowKey, std::size_t, RowKeyHash>;

class Transfers {
 public:
  Transfers(const ResolveContext& context, const Operation& operation, const Communication& c)
      : x_(context),
        in_(operation.reads.front()),
        out_(operation.writes.front()),
        c_(c),
        family_(context.program.group(c.group)),
        adds_(adds_up(context.program, operation)),
        me_(family_.position(context.rank)) {}

  Work work() const {
    switch (c_.collective) {
      case Collective::AllToAll: return exchange();
      case Collective::AllGather: return gather();
      case Collective::ReduceScatter: return scatter();
      case Collective::AllReduce: return reduce();
      case Collective::Broadcast: return broadcast();
      case Collective::SendReceive: break;
    }
    throw InputError(Diagnostic{{"execution"}, "send_receive", "is none of an MoE layer's operations"});
  }

 private:
  RankId member(std::int64_t position) const { return family_.member(x_.rank, position); }
  std::int64_t columns(const Slice& s) const { return x_.program.buffer(s.buffer).columns; }

  Packed pack(const Slice& slice, std::span<const Slot> slots) const {
    Packed out;
    for (const Slot& s : slots) append(out, slice, s);
    return out;
  }
  void append(Packed& packed, const Slice& slice, const Slot& slot) const {
    packed.append({x_.layout.place(slice.buffer, slot) * columns(slice), columns(slice)});
  }

  // --- All-to-all ---

  /// The receiver's key of a row with this key on the sender.
  RowKey arriving(RowKey key, RankId from) const {
    const auto& path = out_.rows.path;
    if (!path.empty() && path.front().kind == RowStep::Kind::Copies) {
      key.copy = x_.program.group(path.front().group).position(from);
    }
    return key;
  }

  Work exchange() const {
    ExchangeWork work{in_.buffer, out_.buffer, {}, {}, {}, {}, adds_, {}, c_.messages};
    const bool sender_orders =
        sources_reached(x_.program, in_.rows.path) <= sources_reached(x_.program, out_.rows.path);
    const std::vector<Slot> mine_in = x_.slots(in_), mine_out = x_.slots(out_);
    if (work.adds) work.cleared = pack(out_, mine_out);
    Counts filled;  // of this rank's rows, those received from earlier senders
    const SlotTable wanted(mine_out);
    for (std::int64_t p = 0; p < family_.size; ++p) {
      const RankId peer = member(p);
      const bool gets = exchanges(c_, family_, me_, p), gives = exchanges(c_, family_, p, me_);
      Packed sent;
      if (gets) sent = to_peer(peer, mine_in, sender_orders);
      // Senders without a part in this step still count among the occurrences.
      const Packed received = from_peer(peer, wanted, mine_out, sender_orders, gives, filled);
      if (peer == x_.rank) {
        if (gives && (work.from != work.to || sent.runs != received.runs)) {
          work.own_from = std::move(sent);
          work.own_to = received;
        }
        continue;
      }
      if (!sent.runs.empty()) work.sends.push_back({peer, std::move(sent)});
      if (gives && !received.runs.empty()) work.receives.push_back({peer, received});
    }
    return work;
  }

  Packed to_peer(RankId to, const std::vector<Slot>& mine, bool sender_orders) const {
    const std::vector<Slot> theirs = x_.slots(out_, to);
    Packed out;
    if (sender_orders) {
      std::unordered_set<RowKey, RowKeyHash> wanted;
      for (const Slot& s : theirs) wanted.insert(s.key);
      for (const Slot& s : mine) {
        if (wanted.contains(arriving(s.key, x_.rank))) append(out, in_, s);
      }
      return out;
    }
    const SlotTable held(mine);
    std::unordered_map<RowKey, RowKey, RowKeyHash> by_arrival;
    for (const auto& [key, occurrences] : held.keys()) by_arrival[arriving(key, x_.rank)] = key;
    for (const Slot& s : theirs) {
      const auto it = by_arrival.find(s.key);
      if (it != by_arrival.end()) append(out, in_, held.at(it->second, s.occurrence));
    }
    return out;
  }

  Packed from_peer(RankId from, const SlotTable& wanted, const std::vector<Slot>& mine, bool sender_orders, bool gives,
                   Counts& filled) const {
    if (!gives && !sender_orders) return {};
    const std::vector<Slot> theirs = x_.slots(in_, from);
    Packed out;
    if (sender_orders) {
      for (const Slot& s : theirs) {
        const RowKey key = arriving(s.key, from);
        if (wanted.contains(key)) append(out, out_, wanted.nth(key, filled[key]++));
      }
      return out;
    }
    std::unordered_set<RowKey, RowKeyHash> held;
    for (const Slot& s : theirs) held.insert(arriving(s.key, from));
    for (const Slot& s : mine) {
      if (held.contains(s.key)) append(out, out_, s);
    }
    return out;
  }

  // --- Collectives ---

  CollectiveWork collective() const {
    CollectiveWork work{c_.collective, {}, me_, in_.buffer, out_.buffer, {}, {}};
    for (std::int64_t p = 0; p < family_.size; ++p) work.members.push_back(member(p));
    return work;
  }

  /// The positions of each member's rows of the small slice within this rank's large slice.
  std::vector<Packed> blocks(const Slice& small, const Slice& big) const {
    std::vector<Packed> out;
    const SlotTable held(x_.slots(big));
    Counts taken;
    for (std::int64_t p = 0; p < family_.size; ++p) {
      Packed& block = out.emplace_back();
      for (const Slot& s : x_.slots(small, member(p))) {
        if (small.rows.kind == Rows::Kind::PerExpert) {
          append_shard(block, s, p, small, big);
        } else {
          append(block, big, held.nth(s.key, taken[s.key]++));
        }
      }
    }
    return out;
  }

  /// Appends a row of a shard of an expert's weights at its position in the whole. Consecutive members hold the shards
  /// of the same experts, which are concatenated by columns (for a gated up projection, within each half) or by rows.
  void append_shard(Packed& block, const Slot& s, std::int64_t position, const Slice& small, const Slice& big) const {
    const std::int64_t own = columns(small), all = columns(big);
    const std::int64_t shards = big.rows.each * all / (small.rows.each * own), shard = position % shards;
    RowKey key = s.key;
    if (own == all) {
      key.ordinal += shard * small.rows.each;
      return append(block, big, {key, 0});
    }
    const std::int64_t begin = x_.layout.place(big.buffer, {key, 0}) * all, parts = x_.facts.gated ? 2 : 1;
    for (std::int64_t half = 0; half < parts; ++half) {
      block.append({begin + half * all / parts + shard * own / parts, own / parts});
    }
  }

  Work gather() const {
    CollectiveWork work = collective();
    work.from_blocks = {pack(in_, x_.slots(in_))};
    work.to_blocks = blocks(in_, out_);
    return work;
  }

  Work scatter() const {
    CollectiveWork work = collective();
    work.from_blocks = blocks(out_, in_);
    work.to_blocks = {pack(out_, x_.slots(out_))};
    return work;
  }

  Work reduce() const {
    CollectiveWork work = collective();
    const std::vector<Slot> from = x_.slots(in_), to = x_.slots(out_);
    const auto n = std::ssize(from);
    for (std::int64_t p = 0; p < family_.size; ++p) {
      const auto first = static_cast<std::size_t>(n * p / family_.size),
                 last = static_cast<std::size_t>(n * (p + 1) / family_.size);
      work.from_blocks.push_back(pack(in_, std::span(from).subspan(first, last - first)));
      work.to_blocks.push_back(pack(out_, std::span(to).subspan(first, last - first)));
    }
    return work;
  }

  Work broadcast() const {
    CollectiveWork work = collective();
    if (me_ == 0) work.from_blocks = {pack(in_, x_.slots(in_))};
    work.to_blocks = {pack(out_, x_.slots(in_, member(0)))};
    return work;
  }

  const ResolveContext& x_;
  const Slice& in_;
  const Slice& out_;
  const Communication& c_;
  const GroupFamily& family_;
  bool adds_;
  std::int64_t me_;
};

}  // namespace

Work resolve_communication(const ResolveContext& context, const Operation& operation, const Communication& c) {
  if (c.collective == Collective::AllToAll && operation.reads.front().rows.kind == Rows::Kind::Fixed) {
    throw InputError(Diagnostic{{"execution"}, operation.name, "rows of no token or expert are not exchanged here"});
  }
  return Transfers(context, operation, c).work();
}

}  // namespace moeplan::runtime
