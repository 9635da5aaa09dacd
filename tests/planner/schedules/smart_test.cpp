// FasterMoE's smart schedule: planner/schedules/smart.cpp.
#include <algorithm>
#include <catch2/catch.hpp>

#include "model/costs/memory.hpp"
#include "planner/candidate/stage_layout.hpp"
#include "planner/ordering/reorder.hpp"
#include "tests/support/layer_cases.hpp"

namespace moeplan::tests::smart_test {

using namespace moeplan::planner;

namespace {

std::vector<const Operation*> of_class(const Program& p, std::size_t block, OpClass op_class) {
  std::vector<const Operation*> out;
  for (const Operation& op : p.blocks[block].operations) {
    if (op.op_class == op_class) out.push_back(&op);
  }
  return out;
}

}  // namespace

TEST_CASE("FasterMoE's smart schedule exchanges with one group after the other") {
  for (const std::int64_t n : {2, 4, 8}) {
    const Program p = layer_program(layer_candidate("smart", 1, 8, 1, n));
    const std::int64_t group = 8 / n;
    for (const std::size_t block : {0U, 1U}) {
      CAPTURE(n, block);
      const auto s = of_class(p, block, OpClass::Dispatch), r = of_class(p, block, OpClass::Combine);
      REQUIRE(s.size() == static_cast<std::size_t>(n));
      REQUIRE(r.size() == static_cast<std::size_t>(n));
      for (std::int64_t j = 0; j < n; ++j) {
        for (std::int32_t rank = 0; rank < 8; ++rank) {
          for (const Flow& f : flows_from(p, *s[static_cast<std::size_t>(j)], RankId(rank))) {
            CHECK(f.to.value() / group == (rank / group + j) % n);
          }
          for (const Flow& f : flows_to(p, *r[static_cast<std::size_t>(j)], RankId(rank))) {
            CHECK(f.from.value() / group == (rank / group + j) % n);
          }
        }
      }
    }
    SECTION("S_0 .. S_n-1, then R_0 .. R_n-1 on one stream, fastest first and last, " + std::to_string(n)) {
      std::vector<OpClass> order;
      for (const Operation& op : p.blocks[0].operations) {
        if (op.stream == Stream::Inter) order.push_back(op.op_class);
      }
      CHECK(std::is_partitioned(order.begin(), order.end(), [](OpClass c) { return c == OpClass::Dispatch; }));
      // S_0 leaves no group; in the last step all groups are a ring of neighbours.
      const Operation& last = *of_class(p, 0, OpClass::Combine).back();
      for (const Flow& f : flows_from(p, last, RankId(0))) CHECK(f.to.value() / group == 1 % n);
    }
  }
}

TEST_CASE("The smart schedule gains at most (comm + comp) / max(comm, comp)") {
  for (const double capacity : {0.5, 2.0, 8.0}) {
    Workload w = layer_workload(Mode::Forward);
    w.capacity_factor = capacity;
    const Program base = layer_program(layer_candidate("baseline", 1, 8, 1), w);
    const auto time_of = [&](auto keep) {
      Program part = base;
      std::vector<Operation>& ops = part.blocks[0].operations;
      std::erase_if(ops, [&](const Operation& op) { return !keep(op.op_class); });
      for (Operation& op : ops) op.after.clear();
      return layer_time(part);
    };
    const auto moves = [](OpClass c) { return c == OpClass::Dispatch || c == OpClass::Combine; };
    const double comm = time_of(moves), comp = time_of([](OpClass c) { return c == OpClass::Expert; });
    const double rest = layer_time(base) - comm - comp;  // gate, encode and decode
    for (const std::int64_t n : {2, 4, 8}) {
      CAPTURE(capacity, n, comm, comp);
      const double smart = layer_time(layer_program(layer_candidate("smart", 1, 8, 1, n), w)) - rest;
      CHECK((comm + comp) / smart <= (comm + comp) / std::max(comm, comp) * (1 + 1e-6));
      CHECK(smart > 0);
    }
  }
}

TEST_CASE("The smart schedule offers groups of 4 and those of a node") {
  const Schedule& smart = *find_schedule("smart");
  using Degree = std::vector<std::int64_t>;
  CHECK(smart.pipeline_degrees({.dp = 64, .ep = 64}, 8) == Degree{1, 8, 16});
  CHECK(smart.pipeline_degrees({.dp = 8, .ep = 8}, 8) == Degree{1, 2});
  CHECK(smart.pipeline_degrees({.dp = 6, .ep = 6}, 2) == Degree{1, 3});
  Candidate c = layer_candidate("smart", 1, 8, 1, 3);
  CHECK(smart.infeasibility(c.degrees, c)->text == "smart needs groups of equal size");
  c.pipeline_degree = 2;
  c.all_to_all = "2dh";
  CHECK(smart.infeasibility(c.degrees, c)->text == "smart has an exchange of its own");
}

TEST_CASE("The steps of the smart schedule use rows apart, which together are the buffer") {
  const Program p = layer_program(layer_candidate("smart", 1, 8, 1, 4));
  const auto s = of_class(p, 0, OpClass::Dispatch);
  REQUIRE(s.size() == 4);
  CHECK_FALSE(may_overlap(s[0]->reads.front(), s[1]->reads.front()));
  CHECK_FALSE(may_overlap(s[0]->writes.front(), s[1]->writes.front()));
  CHECK(may_overlap(s[0]->reads.front(), s[0]->reads.front()));
  // While chunks are under way, rows sent, received, computed and returned are all in use; the baseline's are one after
  // the other.
  const ModelSpec model = layer_model();
  const Workload w = layer_workload();
  const auto memory = [&](const Candidate& c) {
    const Program whole = lower_iteration(model, w, c, kLayerPerNode);
    return memory_use(whole, stage_parameters(model, w.sequence_length, c.degrees, 1), w, c.degrees).total().value();
  };
  const double rows = 2.0 * 2 * kLayerTokens * kLayerM * 4;  // top 2 with capacity factor 2
  CHECK(memory(layer_candidate("smart", 1, 8, 1, 4)) - memory(layer_candidate("baseline", 1, 8, 1)) == 3 * rows);
}

}  // namespace moeplan::tests::smart_test
