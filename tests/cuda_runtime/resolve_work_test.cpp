// What a rank sends is what the Program is priced by, and what its peers expect.
#include "cuda_runtime/resolve_work.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <map>

#include "cuda_runtime/layer_values.hpp"
#include "model/program/resolve.hpp"
#include "planner/lowering/blocks/gated_routing.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/layer_search.hpp"

namespace moeplan::tests::resolve_work_test {

using namespace moeplan::planner;
using namespace moeplan::runtime;

namespace {

constexpr std::int64_t kHidden = 16, kTokens = 6;

struct Layer {
  Degrees degrees;
  std::int64_t per_node;
  std::int64_t experts;
  RoutingShape shape;
};

Moe moe_of(const Layer& layer) {
  return {.num_experts = layer.experts,
          .top_k = 2,
          .expert = {.hidden_size = 8, .gated = true, .bias = false},
          .shared = {},
          .shared_gate = false,
          .router_bias = false};
}

Workload workload_of(const Layer& layer) {
  Workload w{};
  w.name = "transfers";
  w.mode = Mode::Train;
  w.dtype = Dtype::Bf16;
  w.routing.shape = layer.shape;
  w.routing.sampled = true;
  return w;
}

/// An operation on all ranks.
std::vector<Work> on_all_ranks(const Program& program, const Operation& operation, const TokenChoices& choices,
                               const TokenIndex& tokens, const std::vector<Layout>& layouts) {
  std::vector<Work> out;
  for (std::int32_t r = 0; r < program.world_size; ++r) {
    const ResolveContext context{program, RankId(r), choices, tokens, layouts[static_cast<std::size_t>(r)], {2, true}};
    out.push_back(resolve_work(context, operation));
  }
  return out;
}

/// Bytes of an exchange, by sender and receiver; REQUIREs that both ends say the same.
std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> exchanged(const std::vector<Work>& works,
                                                                        std::int64_t element) {
  std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> sent, received;
  bool owns_agree = true;
  for (std::size_t r = 0; r < works.size(); ++r) {
    const auto& work = std::get<ExchangeWork>(works[r]);
    const auto rank = static_cast<std::int32_t>(r);
    for (const Transfer& t : work.sends) sent[{rank, t.peer.value()}] += t.data.elements() * element;
    for (const Transfer& t : work.receives) received[{t.peer.value(), rank}] += t.data.elements() * element;
    owns_agree &= work.own_from.elements() == work.own_to.elements();
  }
  REQUIRE(owns_agree);
  REQUIRE(sent == received);
  return sent;
}

/// Whether the blocks of one position are equally long on all members.
bool blocks_agree(const Program& program, const Operation& operation, const std::vector<Work>& works) {
  const GroupFamily& family = program.group(operation.communication()->group);
  const auto work = [&](RankId r) -> const CollectiveWork& { return std::get<CollectiveWork>(works[r.index()]); };
  bool agree = true;
  for (std::int32_t r = 0; r < program.world_size; ++r) {
    for (std::int64_t p = 0; p < family.size; ++p) {
      const CollectiveWork &mine = work(RankId(r)), &theirs = work(family.member(RankId(r), p));
      const auto at = static_cast<std::size_t>(p);
      const bool gathers = mine.collective == Collective::AllGather;
      const bool scatters = mine.collective == Collective::ReduceScatter;
      const Packed &here = gathers ? mine.to_blocks[at] : mine.from_blocks[at], &there = gathers ? theirs.from_blocks[0]
                                                                                         : scatters
                                                                                             ? theirs.to_blocks[0]
                                                                                             : theirs.to_blocks[at];
      agree &= here.elements() == there.elements();
    }
  }
  return agree;
}

}  // namespace

TEST_CASE("What ranks send each other is what the Program's flows say, and both ends agree", "[slow]") {
  const std::vector<Layer> layers{{{.dp = 8, .ep = 8}, 2, 11, RoutingShape::Zipf},
                                  {{.dp = 4, .tp = 2, .ep = 4, .esp = 2}, 4, 8, RoutingShape::ZeroLoad},
                                  {{.dp = 4, .tp = 2, .edp = 2, .ep = 4}, 4, 5, RoutingShape::HotExpert}};
  std::int64_t exchanges = 0, collectives = 0;
  for (const Layer& layer : layers) {
    const Moe moe = moe_of(layer);
    const Workload workload = workload_of(layer);
    Candidate base;
    base.degrees = layer.degrees;
    for (const LayerStrategy& run : layer_strategies(kHidden, workload, base, layer.per_node)) {
      // Distinct rows are priced by their expected number.
      if (run.all_to_all == "node_dedup" || run.pipeline_degree > 3 || run.pipeline_degree == 2) continue;
      INFO(strategy_text(run) << " on " << layer.experts);
      const Program program =
          lower_moe_layer(moe, kHidden, kTokens * layer.degrees.tp, workload, run.in(base), layer.per_node);
      const SyntheticLayer made = with_choices({.shape = {kHidden, 8, layer.experts, 2, true},
                                                .asked = routing_counts(moe, workload, kTokens, layer.degrees)},
                                               program.routings.front(), kTokens);
      const std::vector<BlockId> blocks{BlockId(0), BlockId(1)};
      const TokenIndex tokens(made.kept, layer.experts);
      std::vector<Layout> layouts;
      for (std::int32_t r = 0; r < program.world_size; ++r) layouts.emplace_back(program, RankId(r), blocks, made.kept);
      for (const Block& block : program.blocks) {
        for (const Operation& operation : block.operations) {
          if (operation.communication() == nullptr) continue;
          const std::vector<Work> works = on_all_ranks(program, operation, made.kept, tokens, layouts);
          if (std::holds_alternative<CollectiveWork>(works.front())) {
            CHECK(blocks_agree(program, operation, works));
            ++collectives;
            continue;
          }
          std::map<std::pair<std::int32_t, std::int32_t>, std::int64_t> priced;
          for (std::int32_t r = 0; r < program.world_size; ++r) {
            for (const Flow& f : flows_from(program, operation, RankId(r))) priced[{r, f.to.value()}] += f.bytes;
          }
          CHECK(exchanged(works, size_of(Dtype::Bf16)) == priced);
          ++exchanges;
        }
      }
    }
  }
  CHECK(exchanges > 500);
  CHECK(collectives > 100);
}

TEST_CASE("Packed elements") {
  Packed packed;
  packed.append({4, 2});
  packed.append({6, 3});
  packed.append({20, 0});
  packed.append({0, 1});
  SECTION("are one run where they are neighbours, because fewer pieces are faster to copy") {
    CHECK(packed.runs == std::vector<Run>{{4, 5}, {0, 1}});
    CHECK(packed.elements() == 6);
  }
}

TEST_CASE("Rows are contiguous where each follows the one before") {
  CHECK(RowList{{}, {3, 4, 5}}.is_contiguous());
  CHECK_FALSE(RowList{{}, {3, 5}}.is_contiguous());
  CHECK_FALSE(RowList{{}, {-1, 0}}.is_contiguous());
}

TEST_CASE("Fixed rows are at their ordinals, so that ranks gather and scatter flat buffers in place") {
  Program program;
  program.groups = {{"replicas", 2, 1}};
  program.buffers = {{"flat", 4, Dtype::Fp32}};
  Slice own{BufferId(0), Rows::fixed(6)};
  const Slice all = own;
  own.rows.path = {{RowStep::Kind::Share, GroupId(0)}};
  const auto collective = [](Collective c, const Slice& from, const Slice& to) {
    return Operation{.name = "collective",
                     .work = Communication{.collective = c, .group = GroupId(0)},
                     .reads = {from},
                     .writes = {to},
                     .after = {}};
  };
  program.blocks.push_back(
      {"block",
       {collective(Collective::AllGather, own, all),  // the part first
        collective(Collective::ReduceScatter, all, own), collective(Collective::AllReduce, all, all)}});
  const TokenChoices choices(1);
  const std::vector<BlockId> blocks{BlockId(0)};
  const TokenIndex tokens(choices, 1);
  const Layout layout(program, RankId(1), blocks, choices);
  CHECK(layout.rows(BufferId(0)) == 6);
  const ResolveContext context{program, RankId(1), choices, tokens, layout, {}};
  const auto work = [&](std::size_t operation) {
    return std::get<CollectiveWork>(resolve_work(context, program.blocks.front().operations[operation]));
  };
  const Packed first{{{0, 12}}}, second{{{12, 12}}};
  CHECK(work(0).from_blocks == std::vector<Packed>{second});
  CHECK(work(0).to_blocks == std::vector<Packed>{first, second});
  CHECK(work(1).from_blocks == std::vector<Packed>{first, second});
  CHECK(work(1).to_blocks == std::vector<Packed>{second});
  CHECK(work(2).from_blocks == std::vector<Packed>{first, second});
}

TEST_CASE("An optimizer is executed in the formats that its kernel has") {
  Program program;
  program.groups = {{"own", 1, 1}};
  program.buffers = {{"w", 4, Dtype::Bf16}, {"d.w", 4, Dtype::Bf16}, {"states", 12, Dtype::Fp32}};
  const auto work = [&] {
    const auto rows = [](std::int32_t buffer) { return Slice{BufferId(buffer), Rows::fixed(2)}; };
    program.blocks = {{"block",
                       {{.name = "optimizer",
                         .work = Kernel::Optimizer,
                         .reads = {rows(1), rows(2)},
                         .writes = {rows(2), rows(0)},
                         .after = {}}}}};
    const TokenChoices choices(1);
    const std::vector<BlockId> blocks{BlockId(0)};
    const TokenIndex tokens(choices, 1);
    const Layout layout(program, RankId(0), blocks, choices);
    const ResolveContext context{program, RankId(0), choices, tokens, layout, {}};
    return std::get<OptimizerWork>(resolve_work(context, program.blocks.front().operations.front()));
  };
  CHECK(work().moments == 2);  // and the weights in fp32
  program.buffers[2].columns = 8;
  CHECK(work().moments == 1);
  program.buffers[2].columns = 4;
  CHECK_THROWS_WITH(work(), Catch::Contains("moments in 16 bits are not executed"));
  program.buffers[2].columns = 12;
  program.buffers[1].dtype = Dtype::Fp32;  // the gradients' own
  CHECK(work().moments == 2);
}

TEST_CASE("Operations that are none of an MoE layer's are refused by name") {
  Program program;
  program.groups = {{"own", 1, 1}};
  program.buffers = {{"x", 4, Dtype::Fp32}};
  const Slice x{BufferId(0), Rows::fixed(2)};
  program.blocks.push_back({"block",
                            {{.name = "norm", .work = Kernel::Norm, .reads = {x}, .writes = {x}, .after = {}},
                             {.name = "exchange", .work = Communication{}, .reads = {x}, .writes = {x}, .after = {}},
                             {.name = "wait", .work = Wait{}, .reads = {}, .writes = {}, .after = {}},
                             {.name = "loss", .work = Kernel::Loss, .reads = {x}, .writes = {x}, .after = {}}}});
  const TokenChoices choices(1);
  const std::vector<BlockId> blocks{BlockId(0)};
  const TokenIndex tokens(choices, 1);
  const Layout layout(program, RankId(0), blocks, choices);
  const ResolveContext context{program, RankId(0), choices, tokens, layout, {}};
  const auto& operations = program.blocks.front().operations;
  CHECK_THROWS_WITH(resolve_work(context, operations[0]),
                    Catch::Contains("norm") && Catch::Contains("a norm without weights is not executed"));
  CHECK_THROWS_WITH(resolve_work(context, operations[3]),
                    Catch::Contains("loss") && Catch::Contains("only the kernels of an MoE layer are executed"));
  CHECK_THROWS_WITH(resolve_work(context, operations[1]), Catch::Contains("rows of no token or expert"));
  CHECK_THROWS_WITH(resolve_work(context, operations[2]), Catch::Contains("only the operations of an MoE layer"));
}

}  // namespace moeplan::tests::resolve_work_test
