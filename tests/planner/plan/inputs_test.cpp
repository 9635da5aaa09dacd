#include "planner/plan/inputs.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::inputs_test {

using namespace moeplan::planner;

TEST_CASE("The folder of configurations is the first place that is one") {
  const tests::TemporaryDirectory dir;
  const std::filesystem::path missing = dir.path() / "missing", file = dir.write("file", ""), there = dir.path();
  CHECK(config_directory({missing, file, there, "/"}) == there);
  SECTION("else all places are named, and how to name another, because a lone executable has none of them") {
    CHECK(tests::error_of([&] {
            (void)config_directory({missing, file});
          }) == "configs: no folder of configurations was found; looked for " + missing.string() + ", " +
                    file.string() + "; name one with the environment variable MOEPLAN_CONFIGS");
  }
}

}  // namespace moeplan::tests::inputs_test
