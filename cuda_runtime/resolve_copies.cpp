// Resolution of the transfers along chains of placed experts, step by step: in step i the i-th rank of every chain
// sends to the next one. Gradients take the reverse direction, each rank adding its own before it sends on.
#include <algorithm>

#include "cuda_runtime/resolve_work.hpp"
#include "model/program/resolve.hpp"

namespace moeplan::runtime {

std::vector<Work> resolve_copies(const ResolveContext& context, const Operation& operation) {
  const Communication& c = *operation.communication();
  const GroupFamily& family = context.program.group(c.group);
  const Slice& weights = operation.reads.front();
  const BufferId buffer = weights.buffer;
  const std::int64_t columns = context.program.buffer(buffer).columns, me = family.position(context.rank);
  const std::vector<ExpertChain> chains = expert_chains(context.program, operation, context.rank);
  std::size_t steps = 0;
  for (const ExpertChain& chain : chains) steps = std::max(steps, chain.positions.size() - 1);

  std::vector<Work> out;
  for (std::size_t i = 0; i < steps; ++i) {
    const std::size_t at = c.reduces ? steps - 1 - i : i;
    ExchangeWork work;
    work.from = work.to = buffer;
    work.adds = c.reduces;
    const auto to_peer = [&](std::vector<Transfer>& transfers, std::int64_t position) -> Packed& {
      const RankId peer = family.member(context.rank, position);
      const auto it =
          std::find_if(transfers.begin(), transfers.end(), [&](const Transfer& t) { return t.peer == peer; });
      if (it != transfers.end()) return it->data;
      transfers.push_back({peer, {}});
      return transfers.back().data;
    };
    for (const ExpertChain& chain : chains) {  // in order of experts, on both ends of a pair
      if (at + 1 >= chain.positions.size()) continue;
      std::int64_t from = chain.positions[at], to = chain.positions[at + 1];
      if (c.reduces) std::swap(from, to);
      if (from != me && to != me) continue;
      Packed& data = from == me ? to_peer(work.sends, to) : to_peer(work.receives, from);
      for (std::int64_t row = 0; row < weights.rows.each; ++row) {
        const Slot slot{{.expert = chain.expert.value(), .ordinal = row}, 0};
        data.append({context.layout.place(buffer, slot) * columns, columns});
      }
    }
    const auto by_peer = [](const Transfer& a, const Transfer& b) { return a.peer < b.peer; };
    std::sort(work.sends.begin(), work.sends.end(), by_peer);
    std::sort(work.receives.begin(), work.receives.end(), by_peer);
    out.emplace_back(std::move(work));
  }
  return out;
}

}  // namespace moeplan::runtime
