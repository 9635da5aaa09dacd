// Pipelines of `moeplan plan`: overlap of microbatches, stages in a V.
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::plan_pipelines_test {

TEST_CASE("plan --ep-overlap plans exchanges overlap the neighbouring microbatch, and simulate runs it again") {
  const Cli cli;
  const auto planned = [&](const std::vector<std::string>& more) {
    const std::vector<std::string> pinned{"plan",
                                          "--cluster",
                                          "dgx_h100",
                                          "--model",
                                          "schemoe_gpt2_tiny_moe",
                                          "--world",
                                          "16",
                                          "--pp",
                                          "1",
                                          "--tp",
                                          "1",
                                          "--ep",
                                          "16",
                                          "--schedule",
                                          "baseline",
                                          "-C",
                                          "workload.micro_batch=1",
                                          "-C",
                                          "workload.cuda_graph=full_iteration",
                                          "--json"};
    return parsed(cli.run(with(pinned, more))).at("best");
  };
  const Json in_turn = planned({}), overlapped = planned({"--ep-overlap", "-o", "plan.yaml"});
  const Json delayed = planned({"--ep-overlap", "--delay-wgrad", "-o", "delayed.yaml"});
  CHECK(delayed.at("delay_wgrad") == true);
  CHECK(delayed.at("exposed_communication_s") < overlapped.at("exposed_communication_s"));
  CHECK_THAT(cli.run({"explain", "delayed.yaml"}).out, Catch::Contains("weight gradients delayed"));
  CHECK_FALSE(in_turn.contains("ep_overlap"));
  CHECK(overlapped.at("ep_overlap") == true);
  CHECK(overlapped.at("memory_bytes") == in_turn.at("memory_bytes"));
  CHECK(overlapped.at("makespan_s") < in_turn.at("makespan_s"));
  CHECK(overlapped.at("exposed_communication_s") < in_turn.at("exposed_communication_s"));
  CHECK(parsed(cli.run({"simulate", "plan.yaml", "--json"})).at("makespan_s") == overlapped.at("makespan_s"));
  CHECK_THAT(cli.run({"explain", "plan.yaml"}).out, Catch::Contains("exchanges overlap the neighbouring microbatch"));
}

TEST_CASE("plan pins stages in a V, which keep fewer activations") {
  const Cli cli;
  const auto planned = [&](const std::vector<std::string>& more) {
    const std::vector<std::string> pinned{"plan",
                                          "--cluster",
                                          "dgx_h100",
                                          "--model",
                                          "qwen3_30b_a3b",
                                          "--world",
                                          "32",
                                          "--pp",
                                          "4",
                                          "--vp",
                                          "2",
                                          "--tp",
                                          "1",
                                          "--ep",
                                          "8",
                                          "--schedule",
                                          "baseline",
                                          "--micro-batch",
                                          "1",
                                          "--json"};
    return parsed(cli.run(with(pinned, more))).at("best");
  };
  const Json interleaved = planned({}), v = planned({"--pipeline", "v", "-o", "v.yaml"});
  CHECK_FALSE(interleaved.contains("pipeline"));
  CHECK(v.at("pipeline") == "v");
  CHECK(v.at("memory_bytes") < interleaved.at("memory_bytes"));
  CHECK(parsed(cli.run({"simulate", "v.yaml", "--json"})).at("makespan_s") == v.at("makespan_s"));
  CHECK_THAT(cli.run({"explain", "v.yaml"}).out, Catch::Contains("stages in a V"));
}

}  // namespace moeplan::tests::plan_pipelines_test
