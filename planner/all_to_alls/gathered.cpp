// All-gather and reduce-scatter (Megatron-LM's --moe-token-dispatcher-type allgather: token_dispatcher.py,
// MoEAllGatherTokenDispatcher). Dispatch: every rank gathers the tokens of all ranks of the group and takes those that
// its experts are to compute (expert_round.hpp). Combine: every rank returns a row for each token, zero for those that
// selected none of its experts, and the rows of a token are added up on their way to its source.
//
// A rank sends (n - 1) / n of n ranks' rows each way whatever the routing, in rings: with few ranks and many experts
// per token fewer than an all-to-all, which sends top_k (n - 1) / n rows a token, and never unevenly.
#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

namespace {

class Gathered : public AllToAll {
 public:
  std::string_view name() const override { return "all_gather"; }
  std::string_view summary() const override {
    return "every rank gathers all tokens; results are reduced and scattered [Megatron-LM]";
  }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.family.size == 1) return Infeasibility(Constraint::Limit, 1, 2, "all_gather needs several ranks");
    if (group.shards == 1) return std::nullopt;
    return Infeasibility(Constraint::Limit, 1, group.shards, "all_gather sends no partial sums of expert shards");
  }
  bool deduplicates() const override { return true; }
  bool gathers() const override { return true; }
  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    block.then(
        {.name = exchange.name,
         .op_class = exchange.op_class,
         .stream = Stream::Inter,
         .work = Communication{.collective = exchange.is_combine ? Collective::ReduceScatter : Collective::AllGather,
                               .group = exchange.group},
         .reads = {exchange.from},
         .writes = {exchange.to},
         .after = {}});
  }
};

}  // namespace

std::unique_ptr<AllToAll> make_gathered_all_to_all() { return std::make_unique<Gathered>(); }

}  // namespace moeplan::planner
