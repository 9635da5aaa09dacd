// `moeplan reproduce`, with a paper of two rows.
#include <catch2/catch.hpp>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/json_schema.hpp"

namespace moeplan::tests::reproduce_test {

namespace {

/// A paper whose row a passes, whose row b was calibrated, and whose row c is as given.
void write_paper(const Cli& cli, const std::string& c) {
  (void)cli.write("rows.csv",
                  "paper,id,where_in_paper,quantity,paper_value,tolerance,scored,declared\n"
                  "small,a,table 1,one chunk over none,1,10%,yes,none\n"
                  "small,b,table 1,the same,7,10%,no,none\n"
                  "small,c,table 2,accuracy,2,10%,yes,none\n");
  (void)cli.write(
      "small.yaml",
      "title: A small paper\ndeclarations: [{what: top-2, place: sec. 1}]\n"
      "sweeps:\n  s: {kind: layer, base: {cluster: dgx_h100, model: mixtral_8x7b, workload.micro_batch: 1,"
      " world: 8, ep: 8}, axes: {schedule: [baseline, pipelined]}}\n"
      "tables:\n  times: {from: s, pivot: schedule}\n"
      "rows:\n  a: {from: times, one: baseline / pipelined}\n  b: {from: times, one: baseline / pipelined}\n"
      "  c: " +
          c + "\n");
}

}  // namespace

TEST_CASE("reproduce prints declarations and rows, and fails if a scored row does") {
  const Cli cli;
  write_paper(cli, "{missing: no model of accuracy}");
  const Ran ran = cli.run({"reproduce", cli.path("small.yaml")});
  CHECK(ran.code == 1);
  CHECK(ran.err.empty());
  CHECK(ran.out == R"(small: A small paper

  declared
    top-2
      (sec. 1)

  row     paper      ours    error     tolerance
  a           1         1    +0.0%           10%  pass
      table 1: one chunk over none
  b           7         1   -85.7%           10%  calibrated
      table 1: the same
  c           2         -        -           10%  FAIL
      table 2: accuracy
      not computed: no model of accuracy

  small: 1 of 2 scored rows pass; 1 calibrated
)");
}

TEST_CASE("reproduce ends with 0 if all scored rows pass; its JSON follows the schema") {
  const Cli cli;
  write_paper(cli, "{from: times, one: 2 * baseline / pipelined}");
  const Ran ran = cli.run({"reproduce", cli.path("small.yaml"), "--json"});
  CHECK(ran.code == 0);
  const Json j = Json::parse(ran.out);
  CHECK(schema_errors(j, "reproduce.json") == std::vector<std::string>{});
  CHECK(j.at("papers")[0].at("passed") == 2);
  const Json& row = j.at("rows")[1];
  CHECK(row.at("item") == "b");
  CHECK(row.at("expected") == 7);
  CHECK(row.at("got") == 1);
  CHECK(row.at("relative_error").get<double>() == Approx(1.0 / 7 - 1));
  CHECK(row.at("calibrated") == true);
  CHECK(row.at("pass") == false);
  const Json again = Json::parse(cli.run({"reproduce", cli.path("small.yaml"), "--json", "--jobs", "1"}).out);
  CHECK(again.at("rows") == j.at("rows"));
}

TEST_CASE("reproduce draws the rows of a paper, the same bytes every time") {
  const Cli cli;
  write_paper(cli, "{missing: no model of <accuracy>}");
  CHECK(cli.run({"reproduce", cli.path("small.yaml"), "--plots", cli.path("plots")}).code == 1);
  const std::string plot = whole_file(cli.path("plots/small.svg"));
  CHECK(plot.find("A small paper") != std::string::npos);
  CHECK(plot.find("1 of 2 scored rows pass") != std::string::npos);
  std::size_t dots = 0;
  for (std::size_t at = plot.find("<circle"); at != std::string::npos; at = plot.find("<circle", at + 1)) ++dots;
  CHECK(dots == 2);  // a and b; c was not computed
  (void)cli.run({"reproduce", cli.path("small.yaml"), "--plots", cli.path("plots"), "--jobs", "1"});
  CHECK(whole_file(cli.path("plots/small.svg")) == plot);
  (void)cli.write("file", "");
  const Ran wrong = cli.run({"reproduce", cli.path("small.yaml"), "--plots", cli.path("file")});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.find("--plots: ") == 0);
}

TEST_CASE("reproduce names the papers that there are") {
  const Cli cli;
  const Ran ran = cli.run({"reproduce", "pram"});
  CHECK(ran.code == 2);
  CHECK(ran.err ==
        "pram: is no file of configs/papers; did you mean \"parm\"?; a path is written with a slash, as ./pram\n");
}

}  // namespace moeplan::tests::reproduce_test
