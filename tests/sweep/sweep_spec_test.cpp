#include "planner/sweep/sweep_spec.hpp"

#include <catch2/catch.hpp>

#include "planner/sweep/case_inputs.hpp"
#include "planner/sweep/read_sweep.hpp"
#include "planner/sweep/sweep_outputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::sweep_spec_test {

using namespace moeplan::sweep;

namespace {

const std::string kBase = R"(
name: test
kind: layer
base: {cluster: dgx_h100, model: mixtral_8x7b, workload.micro_batch: 1}
)";

SweepSpec spec(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return read_sweep(parse_yaml(yaml, "s.yaml"), "s.yaml", overrides);
}
std::string error(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return tests::error_of([&] { (void)spec(yaml, overrides); });
}
bool contains(const std::string& text, const std::string& part) {
  INFO(text);
  CHECK(text.find(part) != std::string::npos);
  return text.find(part) != std::string::npos;
}

/// Values of one column over all cases.
std::vector<std::string> column(const SweepSpec& s, const std::string& name) {
  const std::vector<std::string> names = s.columns();
  const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  std::vector<std::string> out;
  for (const std::int64_t place : s.cases) out.push_back(cell_text(s.cells_at(place)[s.base.size() + at]));
  return out;
}

}  // namespace

TEST_CASE("A sweep's cases are the combinations of its axes, the last one fastest") {
  const SweepSpec s = spec(kBase + "axes: {world: [8, 16], ep: [1, 2, 4]}");
  CHECK(s.cases.size() == 6);
  CHECK(column(s, "world") == std::vector<std::string>{"8", "8", "8", "16", "16", "16"});
  CHECK(column(s, "ep") == std::vector<std::string>{"1", "2", "4", "1", "2", "4"});
}

TEST_CASE("Zipped axes vary together, and `when` leaves combinations out") {
  const SweepSpec s = spec(kBase +
                           "axes: {ep: [1, 2, 4]}\nzip: [{world: [8, 16], workload.dtype: [bf16, fp16]}]\n"
                           "when: [world * ep <= 32, ep != 2]");
  CHECK(column(s, "world") == std::vector<std::string>{"8", "16", "8"});
  CHECK(column(s, "workload.dtype") == std::vector<std::string>{"bf16", "fp16", "bf16"});
  CHECK(column(s, "ep") == std::vector<std::string>{"1", "1", "4"});
  CHECK(s.grid_size() == 6);
}

TEST_CASE("Values of zipped axes may occur again, all of a group together may not") {
  const SweepSpec s = spec(kBase + "zip: [{schedule: [baseline, pipelined, pipelined], ep: [8, 8, 4]}]");
  CHECK(column(s, "schedule") == std::vector<std::string>{"baseline", "pipelined", "pipelined"});
  CHECK(column(s, "ep") == std::vector<std::string>{"8", "8", "4"});
  contains(error(kBase + "zip: [{schedule: [baseline, pipelined, baseline], ep: [8, 4, 8]}]"),
           "zip[0]: \"baseline, 8\" occur together twice");
  contains(error(kBase + "axes: {ep: [8, 8]}"), "axes.ep[1]: \"8\" occurs twice");
}

TEST_CASE("Names of one's own and derived settings say what a case sets") {
  const SweepSpec s = spec(kBase +
                               "axes: {B: {key: workload.global_batch, values: [2]}, x: {values: [3]}}\n"
                               "derived: {double: 2 * x, world: double + B, workload.name: \"'w'\"}",
                           {});
  REQUIRE(s.columns() == std::vector<std::string>{"B", "x", "double", "world", "workload.name"});
  const std::vector<Assignment> all = s.assignments_at(0);
  const std::vector<Assignment> own(all.begin() + 3, all.end());
  CHECK(own == std::vector<Assignment>{
                   {"workload.global_batch", "2"}, {"", "3"}, {"", "6"}, {"world", "8"}, {"workload.name", "w"}});
}

TEST_CASE("-C adds base values, in place of those of the file") {
  const SweepSpec s = spec(kBase + "axes: {ep: [1]}", {"cluster=hgx_h200", "world=16"});
  CHECK(s.base.size() == 4);
  CHECK(error(kBase + "axes: {ep: [1]}", {"ep=2"}) == "s.yaml:5:8: ep: \"ep\" is set twice");
  contains(error(kBase + "axes: {ep: [1]}", {"eq=2"}), "-C eq=2: expected SETTING=VALUE");
}

TEST_CASE("Everything that is wrong with a sweep is said, with its place") {
  const std::string all = error(
      "name: x\nkind: layer\nbase: {cluster: dgx_h100, modle: gpt2_moe, world: [8]}\n"
      "axes: {epp: [1], B: {key: workload, vals: [1]}}\nzip: [{tp: [1, 2], ep: [1]}]\nwhen: [tp ==]\noutputs: "
      "[makespan]\nbudget: 3\n");
  contains(all, "base.modle: \"modle\" is no setting of a sweep of this kind; did you mean \"model\"?");
  contains(all, "base.world: expected one value; several stand in axes");
  contains(all, "axes.epp: \"epp\" is no setting");
  contains(all, "axes.B: has no values");
  contains(all, "axes.B.vals: unknown key");
  contains(all, "zip[0].ep: has 1 values, the first of this group has 2");
  contains(all, "expected a value, not the end");
  contains(all, "outputs[0]: \"makespan\" is no output of a sweep of this kind; did you mean \"makespan_s\"?");
  contains(all, "budget: unknown key");
  contains(all, "base: names no model");
  contains(error(kBase + "axes: {ep: [1], EP: {values: [1]}}"), "EP: this name is taken already");
  contains(error(kBase + "axes: {key: {values: [1]}}"), "key: this name is taken already");
  contains(error(kBase + "axes: {Makespan_s: {values: [1]}}"), "Makespan_s: this name is taken already");
  contains(error(kBase + "axes: {a b: {values: [1]}}"), "a name is letters, digits");
  contains(error(kBase + "axes: {cluster: [a]}"), "is set twice");
  contains(error("name: x\nkind: layer\nbase: {model: gpt2_moe}\naxes: {cluster: [dgx_h10]}"),
           "dgx_h10: is no file of configs/clusters; did you mean \"dgx_h100\"?");
  contains(error(kBase + "axes: {schedule: [parm_s3]}"), "\"parm_s3\" is not known; did you mean");
  contains(error(kBase + "axes: {all_to_all: [deepeep]}"), "\"deepeep\" is not known; did you mean \"deepep\"?");
  contains(error(kBase + "axes: {codec: [none, fp9]}"), "codec: \"fp9\" is not known");
  contains(error(kBase), "has neither axes nor zip: nothing varies");
  contains(error(kBase + "axes: {ep: [1]}\nwhen: ep > 1"), "no combination of values is left");
  contains(error(kBase + "axes: {ep: [1, x]}\nwhen: ep > 1"), "cannot be compared");
  contains(error(kBase + "axes: {a: {values: 1:2000:+1}, b: {values: 1:2000:+1}}"), "make 4000000 combinations");
  contains(error(kBase + "axes: {a: {values: 1:2000:+1}, b: {values: 1:600:+1}}"), "make 1200000 cases");
}

TEST_CASE("Equal inputs of a case have one key, whatever its files are called and comment on") {
  const tests::TemporaryDirectory dir;
  const std::string model = read_text_file(std::filesystem::path(MOEPLAN_SOURCE_DIR) / "configs/models/gpt2_moe.yaml");
  (void)dir.write("m.yaml", model);
  const auto digest = [&](const std::string& text) {
    (void)dir.write("m.yaml", text);
    const SweepSpec s = read_sweep(
        parse_yaml("name: x\nkind: layer\nbase: {cluster: dgx_h100, model: ./m.yaml}\naxes: {ep: [1]}", "s.yaml"),
        (dir.path() / "s.yaml").string());
    return CaseResolver(s).fingerprint();
  };
  const std::string before = digest(model);
  CHECK(digest("# a comment\n" + model) == before);
  std::string renamed = model;
  renamed.replace(renamed.find("gpt2_moe"), 8, "my_moe");
  CHECK(digest(renamed) == before);
  std::string larger = model;
  larger.replace(larger.find("3072"), 4, "4096");
  CHECK(digest(larger) != before);
}

TEST_CASE("Outputs are known by kind, and a setting is not kept twice") {
  CHECK(spec(kBase + "axes: {ep: [1]}").outputs == usual_outputs(SweepKind::Layer));
  CHECK(spec(kBase + "axes: {ep: [1]}\noutputs: [makespan_s, ep]").outputs == std::vector<std::string>{"makespan_s"});
  for (const SweepKind kind : {SweepKind::Plan, SweepKind::Candidate, SweepKind::Layer}) {
    const std::vector<std::string> possible = possible_outputs(kind);
    for (const std::string& name : usual_outputs(kind)) {
      CHECK(std::find(possible.begin(), possible.end(), name) != possible.end());
    }
  }
}

}  // namespace moeplan::tests::sweep_spec_test
