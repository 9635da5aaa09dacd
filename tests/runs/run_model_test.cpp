#include "planner/runs/run_model.hpp"

#include <catch2/catch.hpp>

#include "planner/plan/inputs.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::run_model_test {

TEST_CASE("Models are found by their Hugging Face id") {
  const auto by_id = planner::models_by_hugging_face_id();
  for (const char* id :
       {"deepseek-ai/DeepSeek-V3", "deepseek-ai/DeepSeek-V2", "Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-235B-A22B",
        "openai/gpt-oss-120b", "openai/gpt-oss-20b", "moonshotai/Moonlight-16B-A3B", "moonshotai/Kimi-K2-Instruct",
        "mistralai/Mixtral-8x7B-v0.1", "mistralai/Mixtral-8x22B-v0.1"}) {
    CAPTURE(id);
    CHECK(runs::named_model(id, by_id).num_moe_layers() > 0);
  }
  CHECK(error_of([&] { (void)runs::named_model("Qwen/Qwen3-30B-A3X", by_id); })
            .find("model: \"Qwen/Qwen3-30B-A3X\" is no file and no Hugging Face id of configs/models; did you mean "
                  "\"Qwen/Qwen3-30B-A3B\"?") != std::string::npos);
}

TEST_CASE("Published parameter counts of the shipped models are met") {
  const auto by_id = planner::models_by_hugging_face_id();
  const auto billions = [&](const char* id) {
    return static_cast<double>(count_parameters(runs::named_model(id, by_id)).total) / 1e9;
  };
  CHECK(billions("Qwen/Qwen3-30B-A3B") == Approx(30.5).epsilon(0.005));
  CHECK(billions("Qwen/Qwen3-235B-A22B") == Approx(235).epsilon(0.005));
  CHECK(billions("openai/gpt-oss-120b") == Approx(116.8).epsilon(0.002));
  CHECK(billions("openai/gpt-oss-20b") == Approx(20.9).epsilon(0.003));
  CHECK(billions("deepseek-ai/DeepSeek-V2") == Approx(236).epsilon(0.005));
  CHECK(billions("moonshotai/Moonlight-16B-A3B") == Approx(16).epsilon(0.01));
  CHECK(billions("moonshotai/Kimi-K2-Instruct") == Approx(1026).epsilon(0.02));
  CHECK(billions("mistralai/Mixtral-8x22B-v0.1") == Approx(141).epsilon(0.005));
}

TEST_CASE("A run changes fields of its model's configuration") {
  const auto by_id = planner::models_by_hugging_face_id();
  const ModelSpec v2 = runs::named_model("deepseek-ai/DeepSeek-V2", by_id);
  const ModelSpec short_v2 = runs::with_overrides(v2, "num_hidden_layers=4;first_k_dense_replace=2");
  CHECK(short_v2.num_layers() == 4);
  CHECK(short_v2.num_moe_layers() == 2);
  CHECK(runs::with_overrides(v2, "num_nextn_predict_layers=1").num_mtp_layers == 1);
  CHECK(runs::with_overrides(v2, "") == v2);
  const auto error = [&](const std::string& text) { return error_of([&] { (void)runs::with_overrides(v2, text); }); };
  CHECK(error("num_hiden_layers=4")
            .find("model_overrides: \"num_hiden_layers\": is no field that can be changed; did "
                  "you mean \"num_hidden_layers\"?") != std::string::npos);
  CHECK(error("num_hidden_layers=x").find("\"num_hidden_layers=x\": expected FIELD=NUMBER") != std::string::npos);
  CHECK(error("num_hidden_layers=0").find("num_hidden_layers: 0 is out of range") != std::string::npos);
  CHECK(error("num_experts_per_tok=1000").find("top_k") != std::string::npos);
}

}  // namespace moeplan::tests::run_model_test
