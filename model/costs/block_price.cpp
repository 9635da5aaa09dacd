#include "model/costs/block_price.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "model/costs/operation_price.hpp"
#include "model/program/equal_ranks.hpp"

namespace moeplan {

class BlockPricer::State {
 public:
  State(const Program& program, const Cluster& cluster, PricedRanks ranks, CommunicationPrices* shared)
      : program_(program),
        cluster_(cluster),
        view_(ranks == PricedRanks::First ? nullptr : representatives_view(program, cluster)),
        operations_(program, cluster, view_, ranks == PricedRanks::First, shared),
        prices_(program.blocks.size()) {}

  const BlockPrice& price(BlockId id) {
    std::optional<BlockPrice>& known = prices_[id.index()];
    if (!known) known = make(program_.blocks[id.index()]);
    return *known;
  }

  std::string link_name(std::size_t index) const {
    std::size_t l = index;
    if (view_) {
      const std::vector<std::int32_t>& orbits = *view_->orbits;
      l = static_cast<std::size_t>(std::find(orbits.begin(), orbits.end(), static_cast<std::int32_t>(index)) -
                                   orbits.begin());
    }
    return cluster_.topology.link_name(LinkId(l));
  }

  std::size_t ranks() const { return operations_.ranks(); }

 private:
  /// The longest chains of the block on every rank from its start, along dependencies and streams.
  BlockPrice make(const Block& block) {
    const std::size_t world = operations_.ranks(), operations = block.operations.size();
    BlockPrice price;
    price.alone.assign(world, 0.0);
    price.compute.assign(world * kStreams, 0.0);
    price.busy.assign(world * kStreams, 0.0);
    price.link_seconds.assign(operations_.links(), 0.0);
    std::vector<double> alone(world * operations, 0.0), together(world * operations, 0.0);
    std::array<std::int64_t, kStreams> last{};  // the previous operation on each stream
    last.fill(-1);
    for (std::size_t i = 0; i < operations; ++i) {
      const Operation& op = block.operations[i];
      const auto stream = static_cast<std::size_t>(op.stream);
      const OperationPrice& priced = operations_.price(op);
      const OperationTimes& c = priced.times;
      for (const auto& [link, seconds] : priced.link_seconds) price.link_seconds[link] += seconds;
      if (op.computes()) {
        for (std::size_t r = 0; r < world; ++r) price.compute[r * kStreams + stream] += c.alone[r];
      }
      double first_alone = 0, first_together = 0;
      for (std::size_t r = 0; r < world; ++r) {
        double start_alone = 0, start_together = 0;
        const auto follow = [&](std::int64_t before) {
          const std::size_t at = r * operations + static_cast<std::size_t>(before);
          start_alone = std::max(start_alone, alone[at]);
          start_together = std::max(start_together, together[at]);
        };
        for (const std::int32_t a : op.after) follow(a);
        if (last[stream] >= 0 && !is_background(op.stream)) follow(last[stream]);
        first_alone = r == 0 ? start_alone : std::min(first_alone, start_alone);
        first_together = std::max(first_together, start_together);
        const std::size_t at = r * operations + i;
        alone[at] = start_alone + c.alone[r];
        together[at] = start_together + c.together[r];
        price.busy[r * kStreams + stream] += c.alone[r];
        if (is_background(op.stream)) continue;
        price.alone[r] = std::max(price.alone[r], alone[at]);
        price.ends_together.joined = std::max(price.ends_together.joined, together[at]);
      }
      if (std::holds_alternative<Send>(op.work)) {
        price.sends_alone.emplace_back(static_cast<std::int32_t>(i), first_alone);
        price.sends_together.emplace_back(static_cast<std::int32_t>(i), first_together);
      }
      last[stream] = static_cast<std::int64_t>(i);
    }
    find_ends(block, price);
    return price;
  }

  /// The ends of a rank's streams, from the beginning of the joined ones or from when the replicas' stream is free.
  /// `time_of(i)` is operation i's time.
  template <class TimeOf>
  static StreamEnds ends_of(const Block& block, TimeOf time_of) {
    StreamEnds out;
    const auto chains = [&](double begin, double free) {
      std::vector<double> ended(block.operations.size());
      std::array<double, kStreams> last{};
      last.fill(begin);
      double joined = begin;
      for (std::size_t i = 0; i < ended.size(); ++i) {
        const Operation& op = block.operations[i];
        const bool is_of_replicas = op.stream == Stream::Replicas;
        double start = is_background(op.stream) ? begin : last[static_cast<std::size_t>(op.stream)];
        for (const std::int32_t before : op.after) start = std::max(start, ended[static_cast<std::size_t>(before)]);
        const Wait* wait = std::get_if<Wait>(&op.work);
        if (is_of_replicas || (wait && wait->stream == Stream::Replicas)) start = std::max(start, free);
        ended[i] = start + time_of(i);
        if (is_of_replicas) free = ended[i];
        if (is_background(op.stream)) continue;
        last[static_cast<std::size_t>(op.stream)] = ended[i];
        joined = std::max(joined, ended[i]);
      }
      return std::pair(joined, free);
    };
    std::tie(out.joined, out.replicas_after_joined) = chains(0, StreamEnds::kNever);
    std::tie(out.joined_after_replicas, out.replicas) = chains(StreamEnds::kNever, 0);
    return out;
  }

  void find_ends(const Block& block, BlockPrice& price) {
    const bool meets_replicas = std::ranges::any_of(block.operations, [](const Operation& op) {
      return op.stream == Stream::Replicas || std::holds_alternative<Wait>(op.work);
    });
    std::vector<const OperationTimes*> times;
    if (meets_replicas) {
      for (const Operation& op : block.operations) times.push_back(&operations_.price(op).times);
    }
    for (std::size_t r = 0; r < price.alone.size(); ++r) {
      price.ends.push_back({.joined = price.alone[r]});
      if (!meets_replicas) continue;
      price.ends.back() = ends_of(block, [&](std::size_t i) { return times[i]->alone[r]; });
      price.ends_together =
          later(price.ends_together, ends_of(block, [&](std::size_t i) { return times[i]->together[r]; }));
    }
  }

  const Program& program_;
  const Cluster& cluster_;
  const SymmetricView* view_;  // if some ranks represent all
  OperationPricer operations_;
  std::vector<std::optional<BlockPrice>> prices_;
};

BlockPricer::BlockPricer(const Program& program, const Cluster& cluster, PricedRanks ranks, CommunicationPrices* shared)
    : state_(std::make_unique<State>(program, cluster, ranks, shared)) {}
BlockPricer::~BlockPricer() = default;

const BlockPrice& BlockPricer::price(BlockId block) { return state_->price(block); }
std::size_t BlockPricer::ranks() const { return state_->ranks(); }
std::string BlockPricer::link_name(std::size_t index) const { return state_->link_name(index); }

}  // namespace moeplan
