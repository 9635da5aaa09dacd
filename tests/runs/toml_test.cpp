#include "planner/runs/toml.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::toml_test {

TEST_CASE("TOML reads as the same document in YAML") {
  const Node toml = runs::parse_toml(R"(# a comment
title = "a \"b\"\n" # behind a value
[parallelism]
tensor_parallel_degree = 1_024
names = [
  ["tok_embeddings", 'layers.0'],  # with a trailing comma
  [],
]
[quantize.linear]
float8 = {enable = true}
a.b = -1.5e3
)",
                                     "t.toml");
  const Node yaml = parse_yaml(R"(
title: "a \"b\"\n"
parallelism: {tensor_parallel_degree: 1024, names: [["tok_embeddings", "layers.0"], []]}
quantize: {linear: {float8: {enable: true}, a: {b: -1500}}}
)",
                               "t.yaml");
  CHECK(toml.same_content(yaml));
  CHECK(toml.find("parallelism")->find("tensor_parallel_degree")->where == Location{"t.toml", 4, 26});
}

TEST_CASE("Broken TOML is refused with its place") {
  const auto error = [](const std::string& text) { return error_of([&] { (void)runs::parse_toml(text, "t.toml"); }); };
  CHECK_THAT(error("a = 1\na = 2\n"), Catch::StartsWith("t.toml:2:5: is no TOML: ") && Catch::Contains("redefine"));
  CHECK_THAT(error("a = \n"), Catch::StartsWith("t.toml:1:5: ") && Catch::Contains("expected value"));
  CHECK_THAT(error("a = [1, 2\n"), Catch::StartsWith("t.toml:1:11: ") && Catch::Contains("end-of-file"));
  CHECK_THAT(error("[a\n"), Catch::StartsWith("t.toml:1:3: ") && Catch::Contains("expected ']'"));
  CHECK_THAT(error("= 1\n"), Catch::StartsWith("t.toml:1:1: ") && Catch::Contains("expected keys"));
  CHECK_THAT(error("[.]\n"), Catch::StartsWith("t.toml:1:2: ") && Catch::Contains("expected bare key"));
  CHECK_THAT(error("\u03fb5\n"), Catch::StartsWith("t.toml:1:1: "));
  CHECK_THAT(error("a = " + std::string(100'000, '[') + "\n"), Catch::Contains("maximum nested"));
  CHECK(error("\na = 2026-01-01\n") == "t.toml:2:5: dates and times are not read");
}

}  // namespace moeplan::tests::toml_test
