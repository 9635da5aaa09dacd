#include "model/analysis/operation_list.hpp"

#include <catch2/catch.hpp>

#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::operation_list_test {

TEST_CASE("A rank's operations have the time of all their executions") {
  Program program = tests::one_block(1);
  program.buffers = {{"a", 4, Dtype::Bf16}, {"b", 8, Dtype::Bf16}, {"c", 8, Dtype::Bf16}};
  const auto slice = [](std::int32_t buffer, std::int64_t rows) { return Slice{BufferId(buffer), Rows::fixed(rows)}; };
  Operation product{.name = "product",
                    .op_class = OpClass::Gate,
                    .stream = Stream::Compute,
                    .work = Gemm{},
                    .reads = {slice(0, 3), slice(1, 4)},
                    .writes = {slice(2, 3)},
                    .after = {}};
  Operation nothing = product;
  program.blocks.front().operations = {product, nothing};
  // Three executions: the recorded one and two copies of it, each of 100 ps, and a further one of 50 ps.
  const auto span = [](std::int32_t op, std::int64_t start, std::int64_t end, std::int32_t repeat) {
    return TimelineSpan{RankId(0), BlockId(0), op, repeat, SimTime(start), SimTime(end)};
  };
  const Timeline timeline{.makespan = SimTime(1000),
                          .joined_end = SimTime(1000),
                          .spans = {span(0, 0, 100, 0), span(1, 100, 100, 0), span(0, 900, 950, -1)},
                          .repeats = {{-1, 3, SimTime(0), SimTime(300)}},
                          .links = {}};
  const std::vector<OperationRow> rows = operation_list(program, timeline, RankId(0));
  REQUIRE(rows.size() == 1);  // the other one takes no time
  CHECK(rows[0].executions == 4);
  CHECK(rows[0].time.value() == Approx(350e-12));
  CHECK(rows[0].each().value() == Approx(350e-12 / 4));
  CHECK(rows[0].flops == 2.0 * 3 * 4 * 8);
  CHECK(rows[0].bytes == 2 * (3 * 4 + 4 * 8 + 3 * 8));
}

TEST_CASE("A rank's messages to the next stage have their bytes") {
  Program program = tests::one_block(1);
  program.buffers = {{"a", 4, Dtype::Bf16}};
  program.blocks.front().operations = {{.name = "send",
                                        .op_class = OpClass::Pipeline,
                                        .stream = Stream::Pipeline,
                                        .work = Send{},
                                        .reads = {{BufferId(0), Rows::fixed(3)}},
                                        .writes = {},
                                        .after = {}}};
  const Timeline timeline{.makespan = SimTime(100),
                          .joined_end = SimTime(100),
                          .spans = {{RankId(0), BlockId(0), 0, -1, SimTime(0), SimTime(100)}},
                          .repeats = {},
                          .links = {}};
  const std::vector<OperationRow> rows = operation_list(program, timeline, RankId(0));
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].bytes == 3 * 4 * 2);
}

}  // namespace moeplan::tests::operation_list_test
