// Dispatchers: kernels made for the exchange of an MoE layer's rows, which hold SMs while rows move. The figures of the
// cluster price them by name (model/costs/communication.hpp); docs/communication.md has the sources.
//
//   deepep, deepep_v2, hybridep  a row goes once to each rank that holds any of the token's experts; between nodes once
//                                to each node, where it is forwarded while later rows still cross
//   deepep_low_latency           a row for each expert, directly, written where the expert reads it
//   fused                        the same by the kernels that multiply: dispatch, both products with the activation,
//                                combine and the sum of a token's rows, part by part (DeepGEMM's and Primus-Turbo's
//                                MegaMoE). Rows are read where the tokens are and written where the experts, or the
//                                tokens' ranks, read them; no kernel copies them on the way
#include "planner/all_to_alls/exchange_parts.hpp"

namespace moeplan::planner {

namespace {

class Dispatcher : public AllToAll {
 public:
  /// `kernels`: the name of its figures.
  Dispatcher(std::string_view name, std::string_view kernels, std::string_view summary, bool deduplicates)
      : name_(name), kernels_(kernels), summary_(summary), deduplicates_(deduplicates) {}

  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return summary_; }
  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.shards == 1) return std::nullopt;
    return Infeasibility(Constraint::Limit, 1, group.shards, "dispatchers send no partial sums of expert shards");
  }
  bool deduplicates() const override { return deduplicates_; }
  std::string_view kernels() const override { return kernels_; }
  bool sorts_by_expert() const override { return !deduplicates_; }

  void lower(const Exchange& exchange, BlockBuilder& block) const override {
    Communication work;
    work.kernels = RowKernels{.name = std::string(kernels_),
                              .combines = exchange.is_combine,
                              .sms = exchange.sms,
                              .accompanies = exchange.accompanies};
    work.continues = exchange.continues;
    if (deduplicates_ && exchange_group(block.program(), exchange.group, 1).nodes() > 1) {
      work.relays = node_levels(exchange.group, block).inside;
    }
    move_rows(exchange, Stream::Inter, std::move(work), block);
  }

 private:
  std::string_view name_, kernels_, summary_;
  bool deduplicates_;
};

class Fused : public Dispatcher {
 public:
  Fused()
      : Dispatcher("fused", "mega_moe", "dispatch, experts and combine in one kernel, part by part (MegaMoE)",
                   /*deduplicates=*/false) {}

  std::optional<Infeasibility> infeasibility(const ExchangeGroup& group) const override {
    if (group.nodes() == 1) return Dispatcher::infeasibility(group);
    return Infeasibility(Constraint::Limit, 1, group.nodes(), "fused kernels write to ranks of one NVLink domain");
  }
  /// assumed: kernels interleave their phases wave by wave, of which a rank's experts have some eight.
  std::int64_t fused_parts() const override { return 8; }
};

/// Its dispatch pads the rows of each expert (pad_multiple).
class HybridEp : public Dispatcher {
 public:
  HybridEp()
      : Dispatcher("hybridep", "hybridep", "NVIDIA's HybridEP: as deepep, with TMA and fewer SMs",
                   /*deduplicates=*/true) {}
  bool pads_rows() const override { return true; }
};

}  // namespace

std::unique_ptr<AllToAll> make_fused() { return std::make_unique<Fused>(); }
std::unique_ptr<AllToAll> make_deepep() {
  return std::make_unique<Dispatcher>("deepep", "deepep normal", "DeepEP's normal kernels: one row a rank and token",
                                      /*deduplicates=*/true);
}
std::unique_ptr<AllToAll> make_deepep_low_latency() {
  return std::make_unique<Dispatcher>("deepep_low_latency", "deepep low_latency",
                                      "DeepEP's low-latency kernels: one row an expert, for few tokens",
                                      /*deduplicates=*/false);
}
std::unique_ptr<AllToAll> make_deepep_v2() {
  return std::make_unique<Dispatcher>("deepep_v2", "deepep v2", "DeepEP V2: as deepep, with fewer SMs",
                                      /*deduplicates=*/true);
}
std::unique_ptr<AllToAll> make_hybridep() { return std::make_unique<HybridEp>(); }

}  // namespace moeplan::planner
