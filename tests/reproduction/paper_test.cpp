#include "planner/reproduction/paper.hpp"

#include <catch2/catch.hpp>

#include "planner/reproduction/reproduction.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::paper_test {

using namespace moeplan::reproduction;

namespace {

PaperRow row(const std::string& id, double value, Agreement agreement = Agreement::Within) {
  return {.paper = "p",
          .id = id,
          .place = "table 1",
          .quantity = "q",
          .value = value,
          .tolerance = {agreement, 0.1, "10%"},
          .is_scored = true,
          .declared = "none",
          .where = {}};
}

const std::string kSweeps = R"(
title: A paper
declarations: [{what: top-2, place: sec. 1}]
sweeps:
  s: {kind: layer, base: {cluster: dgx_h100, model: mixtral_8x7b, workload.micro_batch: 1, ep: 8},
      axes: {world: [8, 16], schedule: [baseline, pipelined]}, outputs: [makespan_s, closed_form_s]}
  t: {kind: layer, base: {cluster: dgx_h100, model: mixtral_8x7b, workload.micro_batch: 1, world: 8},
      axes: {ep: [3, 8], schedule: [baseline, parm_s1]}, outputs: [makespan_s]}
tables:
  times: {from: s, pivot: schedule}
  shares: {from: s, per: [world], max: {longest: makespan_s}}
  fitted: {from: times, per: [world], nearest: {to: 1, of: baseline / pipelined}}
  broken: {from: t, pivot: schedule}
)";

Paper paper(const std::string& rest, const std::vector<PaperRow>& list) {
  return read_paper(parse_yaml(kSweeps + rest, "p.yaml"), "p", "p.yaml", list);
}
std::string error(const std::string& rest, const std::vector<PaperRow>& list = {row("a", 1)}) {
  return tests::error_of([&] { (void)paper(rest, list); });
}

}  // namespace

TEST_CASE("A paper's rows are aggregates of its sweeps' cases") {
  const Paper p = paper(R"(
rows:
  a: {from: times, where: world == 8, one: baseline / pipelined}
  b: {from: broken, one: baseline / parm_s1}
  c: {missing: no model of vision}
  d: {from: shares, max: longest, holds: longest > 0}
  e: {from: fitted, where: world == 16, one: baseline / pipelined}
)",
                        {row("a", 1), row("b", 1), row("c", 1), row("d", 5, Agreement::SameSetting), row("e", 1)});
  ReproductionOptions options{.jobs = 2};
  std::int64_t done = 0;
  options.progress = [&](std::int64_t n, std::int64_t all) {
    done = n;
    CHECK(all == 8);
  };
  const PaperResult result = reproduced(p, options);
  CHECK(done == 8);
  REQUIRE(result.rows.size() == 5);
  SECTION("the pipeline with one chunk is the baseline: the ratio is 1, which is the published number") {
    CHECK(result.rows[0].predicted == 1.0);
    CHECK(result.rows[0].passes);
    CHECK(result.rows[0].relative_error() == 0.0);
  }
  SECTION("a row over a case that is infeasible does not pass, for the case's reason") {
    CHECK_FALSE(result.rows[1].predicted);
    CHECK_FALSE(result.rows[1].passes);
    CHECK(result.rows[1].reason.find("the degrees do not make 8 ranks") == 0);
  }
  SECTION("a row that cannot be computed does not pass") {
    CHECK_FALSE(result.rows[2].passes);
    CHECK(result.rows[2].reason == "no model of vision");
  }
  SECTION("settings agree if the condition holds in every row") { CHECK(result.rows[3].passes); }
  CHECK(result.scored() == 5);
  CHECK(result.passed() == 3);
  const PaperResult alone = reproduced(p);
  for (std::size_t i = 0; i < 5; ++i) CHECK(alone.rows[i].predicted == result.rows[i].predicted);
}

TEST_CASE("Files of papers are read strictly, before anything is computed") {
  const auto has = [](const std::string& text, const std::string& part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  has(error("rows: {}"), "rows: the row a of the list is not there");
  has(error("rows: {a: {missing: x}, b: {missing: y}}"), "rows.b: unknown key");
  has(error("rows: {a: {from: time, one: world}}"),
      "rows.a.from: \"time\" is no sweep or preceding table; did you mean \"times\"?");
  has(error("rows: {a: {from: times}}"),
      "rows.a: expected one of one, min, max, mean, median, sum, share, or missing: REASON");
  has(error("rows: {a: {from: times, one: baseline, max: baseline}}"), "rows.a: expected one of");
  has(error("rows: {a: {from: times, one: basline}}"), "p.yaml:14:");
  has(error("rows: {a: {from: times, one: basline}}"), "did you mean \"baseline\"?");
  has(error("rows: {a: {from: times, where: tp > 1, one: baseline}}"), "rows.a.where");
  has(error("rows: {a: {from: times, one: baseline}}", {row("a", 1, Agreement::SameSetting)}),
      "rows.a: a row with the tolerance \"same setting\" needs `holds`");
}

TEST_CASE("A paper's sweep may be a shipped one with other settings") {
  const std::string text = R"(
title: A paper
sweeps: {aas: {sweep: parm_table3_a, axes: {schedule: [parm_s2]}, when: tp > 1}}
tables: {}
rows: {}
)";
  const Paper p = read_paper(parse_yaml(text, "p.yaml"), "p", "p.yaml", {});
  CHECK(p.sweeps.front().second.cases.size() == 2 * 3 * 162);  // tp 2 and 4; esp 1, 2 and 4; the others
  const std::string wrong = tests::error_of([&] {
    (void)read_paper(parse_yaml("title: x\nsweeps: {s: parm_table4_a}\ntables: {}\nrows: {}", "p.yaml"), "p", "p.yaml",
                     {});
  });
  CHECK(wrong.find("parm_table4_a") != std::string::npos);
}

TEST_CASE("Every paper of configs/papers has all its rows of the list") {
  for (const std::string& name : paper_names()) {
    CAPTURE(name);
    const Paper p = load_paper(name);
    CHECK(p.name == name);
    CHECK_FALSE(p.rows.empty());
    CHECK_FALSE(p.declarations.empty());
  }
}

}  // namespace moeplan::tests::paper_test
