#include "planner/layer/all_to_all.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <utility>

#include "model/costs/memory.hpp"
#include "model/program/resolve.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/collective_programs.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_cases.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::all_to_all_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

struct Case {
  std::int64_t nodes, per_node, experts, tokens, top_k;
  RoutingShape shape;
  std::int64_t replicas;  // how many such groups there are
};

Case random_case() {
  return {.nodes = *rc::gen::element(2, 3, 4, 6),
          .per_node = *rc::gen::inRange(2, 5),
          .experts = *rc::gen::inRange(1, 40),
          .tokens = *rc::gen::inRange(1, 60),
          .top_k = 1,
          .shape = *rc::gen::element(RoutingShape::Uniform, RoutingShape::Zipf, RoutingShape::ZeroLoad,
                                     RoutingShape::HotExpert),
          .replicas = *rc::gen::inRange(1, 3)};
}

/// A dispatch (or its return) of the algorithm, as the only block of a Program.
Program exchange_program(const AllToAll& algorithm, const Case& c, bool is_combine, const RowStep& chunk) {
  const std::int64_t ranks = c.nodes * c.per_node;
  Program p;
  p.world_size = ranks * c.replicas;
  p.ranks_per_node = c.per_node;
  p.groups.push_back({"ep", ranks, 1});
  RoutingScenario scenario;
  scenario.shape = c.shape;
  scenario.sampled = true;
  p.routings.push_back({make_routing(scenario, p.world_size, c.experts, c.tokens, c.top_k, 1), GroupId(0), c.top_k});
  BlockBuilder block(p, "exchange");
  const RoutingId routing(0);
  Slice sources = block.slice("at sources", 3, Dtype::Fp16, Rows::routed(routing, Rows::Experts::All, {chunk}));
  sources.rows.distinct = algorithm.deduplicates();
  Slice holders = block.slice("at holders", 3, Dtype::Fp16,
                              Rows::routed(routing, Rows::Experts::Local, {{RowStep::Kind::Union, GroupId(0)}, chunk}));
  holders.rows.distinct = algorithm.deduplicates();
  algorithm.lower({"exchange", OpClass::Dispatch, GroupId(0), is_combine ? holders : sources,
                   is_combine ? sources : holders, is_combine},
                  block);
  p.stages.front().push_back({.block = block.finish()});
  return p;
}

std::int64_t sum(const std::vector<Flow>& flows) {
  std::int64_t bytes = 0;
  for (const Flow& f : flows) bytes += f.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("An all-to-all brings every row from where it is to where it is wanted") {
  for (const auto& algorithm : all_to_alls()) {
    if (algorithm->deduplicates()) continue;  // rows are added up on the way back
    DYNAMIC_SECTION(
        algorithm->name() << ": what each step receives is what its slice holds, because slices say it all") {
      rc::prop("", [&] {
        Case c = random_case();
        if (algorithm->name() == "3dh" && c.nodes < 4) c.nodes *= 2;  // a number that divides
        if (algorithm->is_fused()) c.per_node *= std::exchange(c.nodes, 1);
        const std::int64_t ranks = c.nodes * c.per_node;
        RC_ASSERT(!algorithm->infeasibility({{"ep", ranks, 1}, c.per_node, 1}));
        const bool is_combine = *rc::gen::arbitrary<bool>();
        const RowStep chunk{RowStep::Kind::Chunk, {}, *rc::gen::inRange(0, 3), 3};
        const Program p = exchange_program(*algorithm, c, is_combine, chunk);
        for (std::int32_t r = 0; r < p.world_size; ++r) {
          const RankId rank(r);
          std::int64_t sent = 0, received = 0, in = 0, out = 0;
          const Block& block = p.blocks.front();
          const Slice* before = nullptr;
          for (const Operation& op : block.operations) {
            if (op.computes()) {
              RC_ASSERT(byte_count(p, op.reads.front(), rank) == byte_count(p, op.writes.front(), rank));
              continue;
            }
            // Operations between the same two slices are parts of one exchange.
            if (before == nullptr || *before != op.writes.front()) {
              RC_ASSERT(sent == in);
              RC_ASSERT(received == out);
              sent = received = 0;
              in = byte_count(p, op.reads.front(), rank);
              out = byte_count(p, op.writes.front(), rank);
            }
            before = &op.writes.front();
            const std::int64_t own = message_size(p, op, rank) - sum(flows_from(p, op, rank));
            sent += message_size(p, op, rank);
            received += sum(flows_to(p, op, rank)) + own;
          }
          RC_ASSERT(sent == in);
          RC_ASSERT(received == out);
        }
      });
    }
  }
}

TEST_CASE("Node-deduplicated dispatch sends a token once to a node") {
  // MODELS section 2: a token reaches G (1 - C(E - E/G, k) / C(E, k)) nodes, its own included, of which a share of
  // (G - 1) / G is others.
  const std::int64_t nodes = 4, per_node = 2, experts = 16, top_k = 3, tokens = 1600;
  const auto choose = [](double n, double k) {
    return std::tgamma(n + 1) / std::tgamma(k + 1) / std::tgamma(n - k + 1);
  };
  const double crossings = static_cast<double>(nodes - 1) *
                           (1 - choose(static_cast<double>(experts - experts / nodes), top_k) / choose(experts, top_k));
  const Case c{nodes, per_node, experts, tokens, top_k, RoutingShape::Uniform, 1};
  Program p = exchange_program(*find_all_to_all("node_dedup"), c, false, {RowStep::Kind::Chunk, {}, 0, 1});
  p.routings.front().counts = RoutingCounts::uniform(p.world_size, experts, tokens * top_k / experts);
  const std::int64_t row = 3 * 2;
  CHECK(static_cast<double>(sum(flows_from(p, p.blocks.front().operations.front(), RankId(0)))) / row ==
        Approx(crossings * tokens).epsilon(1e-3));
  Program linear = exchange_program(*find_all_to_all("linear"), c, false, {RowStep::Kind::Chunk, {}, 0, 1});
  linear.routings = p.routings;
  CHECK(sum(flows_from(p, p.blocks.front().operations.front(), RankId(0))) <
        sum(flows_from(linear, linear.blocks.front().operations.front(), RankId(0))));
}

TEST_CASE("A dispatcher relays the rows that node_dedup sends in two steps, in one operation") {
  rc::prop("", [] {
    Case c = random_case();
    c.top_k = *rc::gen::inRange<std::int64_t>(1, std::min<std::int64_t>(c.experts, 4) + 1);
    const bool is_combine = *rc::gen::arbitrary<bool>();
    const RowStep chunk{RowStep::Kind::Chunk, {}, *rc::gen::inRange(0, 2), 2};
    const Program relayed = exchange_program(*find_all_to_all("deepep"), c, is_combine, chunk);
    const Program steps = exchange_program(*find_all_to_all("node_dedup"), c, is_combine, chunk);
    RC_ASSERT(relayed.blocks.front().operations.size() == 1u);
    const auto flows = [](const Program& p, RankId r, bool sent) {
      std::vector<Flow> all;
      for (const Operation& op : p.blocks.front().operations) {
        for (const Flow& f : sent ? flows_from(p, op, r) : flows_to(p, op, r)) all.push_back(f);
      }
      std::sort(all.begin(), all.end(),
                [](const Flow& a, const Flow& b) { return std::pair(a.from, a.to) < std::pair(b.from, b.to); });
      return all;
    };
    for (std::int32_t r = 0; r < relayed.world_size; ++r) {
      RC_ASSERT(flows(relayed, RankId(r), true) == flows(steps, RankId(r), true));
      RC_ASSERT(flows(relayed, RankId(r), false) == flows(steps, RankId(r), false));
    }
  });
}

TEST_CASE("Pipe-A2A takes the longer of its two streams, one stream the sum") {
  // [ScheMoE] eq. (16)-(18): max(m t1, (P - m) t2) against m t1 + (P - m) t2. On a machine whose GPUs reach their node
  // and their NIC by links apart. A rank's own rows do not travel: m - 1 of t1.
  const std::int64_t m = 8, ranks = 32, size = ranks << 20;
  ClusterSpec spec = tests::load_cluster(tests::cluster_path("maxmin_reference"));
  for (const double rate : {450e9, 10e9}) {
    std::get<NvSwitch>(std::get<ClusterTemplate>(spec.machine).intra_node).bandwidth = BytesPerSecond(rate);
    const Cluster cluster = build_cluster(spec, ranks);
    Program pipe = collective_program(*find_algorithm(Collective::AllToAll, "pipe"), ranks, size, m);
    const double t1 = (1 << 20) / rate, t2 = (1 << 20) / 50e9;
    const double intra = static_cast<double>(m - 1) * t1, inter = static_cast<double>(ranks - m) * t2;
    CHECK(simulate(pipe, cluster).makespan.seconds().value() == Approx(std::max(intra, inter)));
    for (Operation& op : pipe.blocks.front().operations) op.stream = Stream::Inter;
    CHECK(simulate(pipe, cluster).makespan.seconds().value() == Approx(intra + inter));
  }
}

TEST_CASE("1DH's leaders need memory for the rows of their node, and plans without it are refused") {
  tests::SmallCase c;
  c.nodes = 2;
  c.mode = "forward";
  c.micro_batch = "1";
  c.top_k = 8;  // the exchange is where most memory is needed
  c.expert_hidden = 64;
  tests::Small s = tests::small(c);
  Candidate candidate;
  candidate.degrees = {.pp = 1, .dp = 8, .cp = 1, .tp = 1, .edp = 1, .ep = 8, .esp = 1};
  const auto memory = [&](const char* all_to_all) {
    candidate.all_to_all = all_to_all;
    const Program p = lower_iteration(s.model, s.workload, candidate, s.cluster.ranks_per_node());
    return memory_use(p, stage_parameters(s.model, s.workload.sequence_length, candidate.degrees, 1), s.workload,
                      candidate.degrees);
  };
  const MemoryUse linear = memory("linear"), leaders = memory("1dh");
  // Rows of m = 4 ranks gathered, and as many exchanged, beside the little else in use.
  const double rows = 128.0 * 8 * 256 * 2;
  CHECK(leaders.working.value() > 2 * 4 * rows);
  CHECK(leaders.working.value() < (2 * 4 + 1) * rows);
  CHECK(linear.working.value() < 5 * rows);
  SECTION("between the two: 1dh has no plan, linear one") {
    s.cluster.gpu.memory = Bytes((linear.total().value() + leaders.total().value()) / 2);
    SearchSpace space{.schedule = "baseline", .tp = 1, .cp = 1, .ep = 8, .esp = 1, .pp = 1, .threads = 1};
    space.all_to_all = "linear";
    CHECK_FALSE(search({s.model, s.workload, s.cluster}, space).ranked.empty());
    space.all_to_all = "1dh";
    const SearchResult refused = search({s.model, s.workload, s.cluster}, space);
    CHECK(refused.ranked.empty());
    CHECK(refused.rejected.at("memory") == 1);
    REQUIRE(refused.nearest_miss);
    CHECK(refused.nearest_miss->memory.total() == leaders.total());
  }
}

}  // namespace moeplan::tests::all_to_all_test
