#include "planner/plan/inputs.hpp"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>

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

TEST_CASE("A kind of configurations that is there and cannot be listed is no empty one") {
  const tests::TemporaryDirectory dir;
  const std::string file = dir.write("gpus", "no folder").string();
  const char* before = std::getenv("MOEPLAN_CONFIGS");
  const std::optional<std::string> old = before ? std::optional<std::string>(before) : std::nullopt;
  ::setenv("MOEPLAN_CONFIGS", dir.path().c_str(), 1);
  const std::string error = tests::error_of([] { (void)config_names("gpus"); });
  const std::vector<std::string> none = config_names("models");
  old ? ::setenv("MOEPLAN_CONFIGS", old->c_str(), 1) : ::unsetenv("MOEPLAN_CONFIGS");
  CHECK(error == file + ": cannot be read: Not a directory");
  CHECK(none.empty());
}

TEST_CASE("The origin of a replaced value says that it was set on the command line") {
  const PlanInputs inputs =
      load_inputs("dgx_h100", "mixtral_8x7b", "default", {"workload.recompute=full", "workload.routing={shape: zipf}"});
  const Node* origins = inputs.workload.find("origins");
  REQUIRE(origins);
  CHECK(origins->find("recompute")->scalar == "assumed: set on the command line");
  CHECK(origins->find("routing")->scalar == "assumed: set on the command line");
  CHECK(origins->find("dtype")->scalar == "assumed: bf16, what the models are published in");
}

TEST_CASE("A value set for a whole map drops the origins of the keys that it no longer has") {
  const tests::TemporaryDirectory dir;
  std::string text = read_text_file(find_config("models", "mixtral_8x7b"), std::size_t{1} << 20);
  text += "  attention.num_heads: \"published: a table\"\n  attention.head_dim: \"published: another one\"\n";
  const PlanInputs inputs = load_inputs("dgx_h100", dir.write("m.yaml", text).string(), "default",
                                        {"model.attention={kind: latent, num_heads: 32, kv_lora_rank: 512, "
                                         "qk_nope_head_dim: 128, qk_rope_head_dim: 64, v_head_dim: 128}"});
  const Node* origins = inputs.model.find("origins");
  REQUIRE(origins);
  CHECK(origins->find("attention.num_heads"));
  CHECK_FALSE(origins->find("attention.head_dim"));
  CHECK_NOTHROW(read_model(parse_yaml(to_yaml(inputs.model), "a plan file")));
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
