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

TEST_CASE("A recipe without figures of the GPU's products is refused") {
  const auto error = [](const std::string& cluster, const std::string& precision) {
    return tests::error_of([&] {
      (void)read_inputs(load_inputs(cluster, "mixtral_8x7b", "default", {"workload.precision=" + precision}));
    });
  };
  CHECK(error("dgx_h100", "fp8_block") == "");
  CHECK_THAT(error("dgx_h100", "mxfp8"),
             Catch::EndsWith("precision: h100_sxm has no measured products in mxfp8; it has those of fp8_delayed, "
                             "fp8_current, fp8_block"));
  CHECK_THAT(error("dgx_a100", "fp8_current"),
             Catch::EndsWith("precision: a100_sxm_80gb has no measured products in fp8_current"));
  CHECK(error("mi355x_8", "mxfp8") == "");  // no measured kernels at all: by shares of its fp8 peak
  CHECK_THAT(error("parm_testbed_b", "fp8_current"),
             Catch::EndsWith("precision: rtx2080ti has no measured products in fp8_current"));
}

}  // namespace moeplan::tests::inputs_test
