// Pipelines of `moeplan plan`: overlap of microbatches, stages in a V.
#include <sstream>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::plan_pipelines_test {

namespace {

/// The best plan with these options, separated by spaces.
Json planned(const Cli& cli, const std::string& options, const std::vector<std::string>& more) {
  std::vector<std::string> words{"plan", "--cluster", "dgx_h100", "--tp", "1", "--schedule", "baseline", "--json"};
  std::istringstream each(options);
  for (std::string word; each >> word;) words.push_back(word);
  return parsed(cli.run(with(words, more))).at("best");
}

}  // namespace

TEST_CASE("plan --ep-overlap plans exchanges overlap the neighbouring microbatch, and simulate runs it again") {
  const Cli cli;
  const auto with_options = [&](const std::vector<std::string>& more) {
    return planned(cli,
                   "--model schemoe_gpt2_tiny_moe --world 16 --pp 1 --ep 16 -C workload.micro_batch=1 "
                   "-C workload.cuda_graph=full_iteration",
                   more);
  };
  const Json in_turn = with_options({"--no-ep-overlap"});
  const Json overlapped = with_options({"--ep-overlap", "--no-delay-wgrad", "-o", "plan.yaml"});
  const Json delayed = with_options({"--ep-overlap", "--delay-wgrad", "-o", "delayed.yaml"});
  CHECK(with_options({}).at("makespan_s") == delayed.at("makespan_s"));  // the search finds it
  CHECK(delayed.at("delay_wgrad") == true);
  CHECK(overlapped.at("delay_wgrad") == false);
  CHECK(delayed.at("exposed_communication_s") < overlapped.at("exposed_communication_s"));
  CHECK_THAT(cli.run({"explain", "delayed.yaml"}).out, Catch::Contains("weight gradients delayed"));
  CHECK(in_turn.at("ep_overlap") == false);
  CHECK(overlapped.at("ep_overlap") == true);
  CHECK(overlapped.at("memory_bytes") == in_turn.at("memory_bytes"));
  CHECK(overlapped.at("makespan_s") < in_turn.at("makespan_s"));
  CHECK(overlapped.at("exposed_communication_s") < in_turn.at("exposed_communication_s"));
  CHECK(parsed(cli.run({"simulate", "plan.yaml", "--json"})).at("makespan_s") == overlapped.at("makespan_s"));
  CHECK_THAT(cli.run({"explain", "plan.yaml"}).out, Catch::Contains("exchanges overlap the neighbouring microbatch"));
}

TEST_CASE("plan pins stages in a V, which keep fewer activations") {
  const Cli cli;
  const auto with_options = [&](const std::vector<std::string>& more) {
    return planned(cli, "--model qwen3_30b_a3b --world 32 --pp 4 --vp 2 --ep 8 --micro-batch 1", more);
  };
  const Json interleaved = with_options({"--pipeline", "interleaved"}),
             v = with_options({"--pipeline", "v", "-o", "v.yaml"});
  CHECK(interleaved.at("pipeline") == "interleaved");
  CHECK(v.at("pipeline") == "v");
  CHECK(v.at("memory_bytes") < interleaved.at("memory_bytes"));
  CHECK(parsed(cli.run({"simulate", "v.yaml", "--json"})).at("makespan_s") == v.at("makespan_s"));
  CHECK_THAT(cli.run({"explain", "v.yaml"}).out, Catch::Contains("stages in a V"));
}

}  // namespace moeplan::tests::plan_pipelines_test
