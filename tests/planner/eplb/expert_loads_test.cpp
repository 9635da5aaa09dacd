#include "planner/eplb/expert_loads.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::expert_loads_test {

using namespace planner;
using Rows = std::vector<std::vector<std::int64_t>>;

namespace {

ExpertLoads read(const std::string& name, const std::string& text) {
  const TemporaryDirectory dir;
  return read_expert_loads(dir.write(name, text));
}

std::string error(const std::string& name, const std::string& text) {
  const TemporaryDirectory dir;
  const std::string path = dir.write(name, text).string();
  const std::string what = error_of([&] { (void)read_expert_loads(path); });
  return what.substr(std::min(what.size(), what.find(name)));
}

}  // namespace

TEST_CASE("SGLang's logical counts are summed over steps") {
  CHECK(read("a.json", R"({"logical_count": [[1, 2], [0, 4]]})").layers == Rows{{1, 2}, {0, 4}});
  const ExpertLoads steps = read("a.json", R"({"rank": 0, "logical_count": [[[1, 2], [0, 0]], [[3, 4], [0, 0]]]})");
  CHECK(steps.layers == Rows{{4, 6}, {0, 0}});
  CHECK(steps.form == "SGLang's logical counts, 2 steps");
  CHECK(steps.moe_layers() == 1);
}

TEST_CASE("Counts of physical experts become those of logical ones by the map that was in use") {
  const char* sglang = R"({"records": [{"global_physical_count": [[1, 2, 4]]}, {"global_physical_count": [[0, 1, 0]]}],
                           "last_physical_to_logical_map": [[1, 0, 1]]})";
  CHECK(read("a.json", sglang).layers == Rows{{3, 5}});
  const char* vllm = R"({"expert_load_window": [[[1, 2, 4]], [[1, 1, 1]]], "physical_to_logical_map": [[0, 1, 0]]})";
  CHECK(read("a.json", vllm).layers == Rows{{7, 3}});
  CHECK(read("a.json", "[[5, 6]]").layers == Rows{{5, 6}});
}

TEST_CASE("CSV is a routing trace or a table of layers") {
  CHECK(read("a.csv", "layer,e0,e1\n0,5,6\n1,7,8\n").layers == Rows{{5, 6}, {7, 8}});
  CHECK(read("a.csv", "iteration,layer,rank,e0,e1\n0,0,0,1,2\n0,0,1,3,4\n9,0,0,1,1\n9,0,1,1,1\n").layers ==
        Rows{{6, 8}});
}

TEST_CASE("What cannot be read is refused where it is wrong") {
  CHECK(error("a.json", "{\"logical_count\": [[1, 2],\n [3}") ==
        "a.json:2: is no JSON at byte 31; expected counts as docs/frameworks.md lists them");
  CHECK(error("a.json", R"({"logical_count": [[1, 2], [3]]})") ==
        "a.json:1:28: logical_count[1]: expected 2 counts, as in the first layer");
  CHECK(error("a.json", R"({"logical_count": [[1, -2]]})") ==
        "a.json:1:24: logical_count[0][1]: \"-2\" is no count; expected a number from 0 to 1e15");
  CHECK(error("a.json", R"({"logical_count": [[0, 0]]})") ==
        "a.json: has no selections of any expert; expected counts above 0");
  CHECK(error("a.json", R"({"counts": []})") ==
        "a.json:1:1: expected logical_count, records, expert_load_window or expert_load_pass");
  CHECK(error("a.json", R"({"expert_load_pass": [[1, 2]]})") ==
        "a.json:1:1: physical_to_logical_map: is missing; expected it, since expert_load_pass counts physical experts");
  CHECK(error("a.json", R"({"expert_load_pass": [[1, 2]], "physical_to_logical_map": [[0, 1, 0]]})") ==
        "a.json:1:22: expert_load_pass: has 1 layers of 2 experts, the map 1 of 3");
  CHECK_THAT(error("a.csv", "layer,e0,e1\n0,5,x\n0,1\n"),
             Catch::StartsWith("a.csv:2:5: e1: \"x\" is no count; expected a whole number\n") &&
                 Catch::Contains("a.csv:3: has 2 fields, expected 3"));
  CHECK_THAT(error("a.pt", "PK"), Catch::Contains("is a file of PyTorch; make JSON of it: python -c"));
}

}  // namespace moeplan::tests::expert_loads_test
