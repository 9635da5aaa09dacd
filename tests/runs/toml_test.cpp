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
quantize: {linear: {float8: {enable: true}, a: {b: -1.5e3}}}
)",
                               "t.yaml");
  CHECK(toml.same_content(yaml));
  CHECK(toml.find("parallelism")->find("tensor_parallel_degree")->where == Location{"t.toml", 4, 26});
}

TEST_CASE("Broken TOML is refused with its place") {
  const auto error = [](const std::string& text) { return error_of([&] { (void)runs::parse_toml(text, "t.toml"); }); };
  CHECK(error("a = 1\na = 2\n") == "t.toml:2:1: \"a\" is given twice");
  CHECK(error("a = \n") == "t.toml:1:5: expected a value");
  CHECK(error("a = \"x\n") == "t.toml:1:5: this string does not end");
  CHECK(error("a = [1, 2\n") == "t.toml:2:1: expected ','");
  CHECK(error("a = 1 2\n") == "t.toml:1:7: expected the end of the line");
  CHECK(error("[a\n") == "t.toml:1:3: expected ']'");
  CHECK(error("a = 1\n[a.b]\n") == "t.toml:2:1: \"a\" is a value already");
  CHECK(error("[[a]]\n") == "t.toml:1:1: lists of tables are not read; expected [name]");
  CHECK(error("= 1\n") == "t.toml:1:1: expected a key");
  CHECK(error("a = " + std::string(100, '[') + "\n") == "t.toml:1:69: nested deeper than 64");
  CHECK(error("a = \"\\u00e9\"\n") == "t.toml:1:7: this escape is not read; expected one of \\n, \\t, \\\", \\\\");
}

}  // namespace moeplan::tests::toml_test
