#include "planner/lowering/ordered.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/lowering/lower.hpp"
#include "planner/plan/plan.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::ordered_test {

using namespace moeplan::planner;
using moeplan::tests::small;
using moeplan::tests::Small;
using moeplan::tests::SmallCase;

namespace {

/// The shared expert takes longer than the dispatch: computed whole beside it, as listed, it holds up the experts,
/// while the combine has nothing beside it.
Small with_shared_expert(std::int64_t nodes) {
  SmallCase c;
  c.nodes = nodes;
  c.gpus_per_node = 4 / nodes;
  c.shared_hidden = 8192;
  c.sequence = 1024;
  return small(c);
}

Candidate candidate_of(std::int64_t pp) {
  Candidate c;
  c.degrees = {.pp = pp, .dp = 4 / pp, .cp = 1, .tp = 1, .edp = 1, .ep = 4 / pp, .esp = 1};
  return c;
}

SimTime makespan_of(const Small& s, const Program& program) {
  StageClusters machines(s.cluster);
  return sim::simulate(program, machines, {.keep_spans = false}).makespan;
}

std::vector<std::string> sorted_names(const Block& block) {
  std::vector<std::string> out;
  for (const Operation& op : block.operations) out.push_back(op.name);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("A candidate's Program has the order of operations that the candidate decides") {
  const std::int64_t pp = GENERATE(1, 2);
  CAPTURE(pp);
  const Small s = with_shared_expert(1);
  Candidate c = candidate_of(pp);
  StageClusters machines(s.cluster);
  const Program listed = lowered(s.model, s.workload, machines, c);
  CHECK(listed == lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node()));
  c.order = OperationOrder::Searched;
  const Program searched = lowered(s.model, s.workload, machines, c);
  const SearchedOrder found = searched_order(listed, machines);

  SECTION("searched it is that of the search, every time, and faster here because nothing shares links") {
    CHECK(found.search.answered_by == "exact");
    CHECK(found.search.improved > 0);
    CHECK(found.search.fixed + found.search.improved <= found.search.blocks);
    CHECK(found.search.blocks == std::ssize(listed.blocks));
    CHECK(searched == found.program);
    CHECK(searched == lowered(s.model, s.workload, machines, c));
    CHECK(makespan_of(s, searched) < makespan_of(s, listed));
  }
  SECTION("blocks keep their operations and what they belong to, messages of a pipeline included") {
    REQUIRE(searched.blocks.size() == listed.blocks.size());
    for (std::size_t b = 0; b < listed.blocks.size(); ++b) {
      CHECK(sorted_names(searched.blocks[b]) == sorted_names(listed.blocks[b]));
      CHECK(searched.blocks[b].backward_of == listed.blocks[b].backward_of);
      CHECK(searched.blocks[b].variant_of == listed.blocks[b].variant_of);
      for (std::size_t i = 0; i < listed.blocks[b].operations.size(); ++i) {
        if (!std::holds_alternative<Receive>(listed.blocks[b].operations[i].work)) continue;
        CHECK(searched.blocks[b].operations[i] == listed.blocks[b].operations[i]);
      }
    }
    CHECK(searched.stages == listed.stages);
  }
  SECTION("a prediction is of the order decided, so that a plan read again takes as long") {
    CHECK(predict({s.model, s.workload, s.cluster}, c).program == searched);
    CHECK(predict({s.model, s.workload, s.cluster}, c).makespan == makespan_of(s, searched));
  }
}

TEST_CASE("Where stages of a pipeline differ their blocks stay as listed, because no one machine stands for all") {
  Small s = with_shared_expert(1);
  for (Link& link : s.cluster.topology.links) {
    if (link.to == s.cluster.gpu_of_rank.back()) link.bandwidth = link.bandwidth / 2;
  }
  s.cluster.routes = Routes(s.cluster.topology);
  StageClusters machines(s.cluster);
  const Program listed = lowered(s.model, s.workload, machines, candidate_of(2));
  const SearchedOrder found = searched_order(listed, machines);
  CHECK(found.program == listed);
  CHECK(found.search.answered_by == "listed");
  CHECK(found.search.blocks == std::ssize(listed.blocks));
}

TEST_CASE("A block whose dependencies leave one order is not searched") {
  SmallCase c;  // without a shared expert every operation waits for the one before
  c.routing = "{shape: zipf, sampled: true, seed: 3}";
  const Small s = small(c);
  StageClusters machines(s.cluster);
  const SearchedOrder found = searched_order(lowered(s.model, s.workload, machines, candidate_of(1)), machines);
  CHECK(found.search.fixed == found.search.blocks);
  CHECK(found.search.states == 0);
  CHECK(found.search.answered_by == "exact");  // though ranks differ: there is nothing to choose
}

}  // namespace moeplan::tests::ordered_test
