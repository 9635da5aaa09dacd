#include "cuda_runtime/validate/validation.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "cuda_runtime/validate/suite.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/toy_cluster.hpp"

namespace moeplan::tests::validation_test {

using namespace moeplan::planner;
using namespace moeplan::profiler;
using namespace moeplan::runtime;
using namespace moeplan::validate;

TEST_CASE("How well predictions order what was measured") {
  SECTION("is 1 where every order agrees, -1 where all are reversed") {
    CHECK(*rank_correlation({1, 2, 3}, {10, 20, 90}) == Approx(1));
    CHECK(*rank_correlation({1, 2, 3}, {3, 2, 1}) == Approx(-1));
  }
  SECTION("counts ties as their mean place") {
    // Places 0.5 0.5 2 and 0 1 2: covariance (0.5 + 0 + 1), variances 1.5 and 2.
    CHECK(*rank_correlation({5, 5, 7}, {1, 2, 3}) == Approx(1.5 / std::sqrt(1.5 * 2)));
  }
  SECTION("is unknown of two, and where all are equal") {
    CHECK_FALSE(rank_correlation({1, 2}, {1, 2}));
    CHECK_FALSE(rank_correlation({1, 1, 1}, {1, 2, 3}));
  }
}

TEST_CASE("The regret of choosing by prediction is what the chosen one takes longer than the fastest") {
  CHECK(regret({1, 2, 3}, {12, 10, 11}) == Approx(0.2));
  CHECK(regret({2, 1, 3}, {12, 10, 11}) == 0);
}

TEST_CASE("r2 is 1 for exact predictions and 0 for the mean") {
  CHECK(r_squared({1, 2, 3}, {1, 2, 3}) == 1);
  CHECK(r_squared({2, 2, 2}, {1, 2, 3}) == 0);
  CHECK(r_squared({1, 1}, {1, 1}) == 0);
}

namespace {

LayerCase small_layer() {
  Workload w{};
  w.name = "w";
  w.global_batch = 2;
  w.sequence_length = 8;
  w.mode = Mode::Train;
  w.dtype = Dtype::Fp32;
  w.recompute = Recompute::None;
  w.optimizer = Optimizer::Adam;
  Candidate c;
  c.degrees = {.dp = 2, .ep = 2};
  return {.moe = {4, 2, {8, true, false}, {0, false, false}, false, false},
          .hidden_size = 16,
          .tokens = 8,
          .workload = w,
          .candidate = c,
          .ranks_per_node = 2};
}

/// Every operation of rank r takes (r + 1) * step, one after the other.
ExecutionResult result_of(const Program& program, std::int64_t step) {
  ExecutionResult out;
  out.is_right = true;
  for (std::int64_t run = 1; run <= 3; ++run) {
    auto& ranks = out.runs.emplace_back();
    for (std::int64_t r = 0; r < program.world_size; ++r) {
      auto& spans = ranks.emplace_back();
      std::int64_t now = 0;
      for (const Block& b : program.blocks) {
        for (std::size_t o = 0; o < b.operations.size(); ++o) {
          spans.push_back({now, now + run * (r + 1) * step});
          now = spans.back().end;
        }
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("A prediction is compared by class with the median of runs") {
  const LayerCase layer = small_layer();
  const Program program = lower(layer);
  std::size_t operations = 0, gates = 0;
  for (const Block& b : program.blocks) {
    operations += b.operations.size();
    for (const Operation& o : b.operations) gates += b.name == "moe layer" && o.op_class == OpClass::Gate ? 1U : 0U;
  }
  const ExecutionResult result = result_of(program, 1000);
  const CaseValidation v = compare(program, tests::toy_cluster(1, 2), result);
  SECTION("the layer's time is that of the slowest rank, because all wait for it") {
    CHECK(v.layer.measured.value() == Approx(2 * 2 * 1e-6 * static_cast<double>(operations)));
    CHECK(v.layer.predicted == v.predicted.makespan.seconds());
    CHECK(v.measured.makespan.seconds().value() == Approx(v.layer.measured.value()));
    CHECK_FALSE(v.layer.interval);  // three runs
  }
  SECTION("a class's time is the sum of its operations, mean over ranks") {
    REQUIRE(v.classes.front().op_class == OpClass::Gate);
    CHECK(v.classes.front().time.measured.value() == Approx(static_cast<double>(gates) * 1.5 * 2e-6));
  }
  SECTION("the trace has both") {
    const auto trace = nlohmann::json::parse(overlaid_trace(program, v));
    bool measured = false, predicted = false;
    for (const auto& event : trace.at("traceEvents")) {
      if (event.value("name", "") != "process_name") continue;
      const std::string name = event.at("args").at("name");
      measured |= name.starts_with("measured");
      predicted |= name.starts_with("predicted");
    }
    CHECK(measured);
    CHECK(predicted);
  }
}

TEST_CASE("What ranks are asked and what they answer reads back as it was written") {
  const LayerCase layer = small_layer();
  ExecuteJob job{{.time_out = Seconds(3), .budget = Seconds(1.5), .iterations = 7}, {layer, layer}};
  const ExecuteJob again = read_job(job_document(job));
  CHECK(again.cases == job.cases);
  job.measure = MeasureJob{0, Seconds(9), BenchmarkScale::Gpus};
  const auto measure = read_job(job_document(job)).measure;
  REQUIRE(measure);
  CHECK((measure->ranks == 0 && measure->budget == Seconds(9) && measure->scale == BenchmarkScale::Gpus));
  CHECK(again.limits.iterations == 7);
  CHECK(again.limits.time_out == Seconds(3));
  Answer answer{{"a", "b"}, {"processor", 2}, {result_of(lower(layer), 10)}};
  answer.processor = {"GPU", 8, 80e9, 132, true};
  answer.clocks = {{1500, 1980, 2619, 2619}, {1980, 1980, 2619, 2619}, 3};
  const Answer back = read_answer(answer_text(answer));
  CHECK(back.processor == answer.processor);
  CHECK(back.clocks == answer.clocks);
  CHECK(back.hosts == answer.hosts);
  CHECK(back.cases.front().runs == answer.cases.front().runs);
  CHECK_THROWS_WITH(read_answer("{"), Catch::Contains("answer of the ranks"));
}

TEST_CASE("A suite's store has what was executed before it was interrupted") {
  const tests::TemporaryDirectory dir;
  const auto file = dir.path() / "s.jsonl";
  LayerCase one = small_layer(), other = small_layer();
  other.candidate.schedule = "pipelined";
  {
    SuiteStore store(file, false);
    store.add(one, {{"h"}, {"p", 1}, {result_of(lower(one), 10)}});
  }
  std::ofstream(file, std::ios::app) << "{\"case\": \"cut o";
  SECTION("and a line that was cut off counts as not done") {
    const SuiteStore store(file, true);
    CHECK(store.find(one)->cases.size() == 1);
    CHECK_FALSE(store.find(other));
  }
  SECTION("and begins anew where it is not resumed") { CHECK_FALSE(SuiteStore(file, false).find(one)); }
}

}  // namespace moeplan::tests::validation_test
