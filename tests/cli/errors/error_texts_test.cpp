// The texts of errors, as golden files: they are part of what users meet, and change only on purpose.
#include "tests/cli/support/run_cli.hpp"
#include "tests/support/golden.hpp"

namespace moeplan::tests::error_texts_test {

namespace {

/// A log of commands and what they say on standard error, without the paths of this machine.
class Log {
 public:
  explicit Log(const Cli& cli) : cli_(cli) {}

  void plan(const std::vector<std::string>& more) {
    std::vector<std::string> arguments{"plan", "--world", "8"};
    const auto default_to = [&](const std::string& option, const std::string& value) {
      if (std::find(more.begin(), more.end(), option) != more.end()) return;
      arguments.push_back(option);
      arguments.push_back(value);
    };
    default_to("--cluster", "dgx_h100");
    default_to("--model", "schemoe_gpt2_tiny_moe");
    arguments.insert(arguments.end(), more.begin(), more.end());
    add(arguments, more);
  }
  void add(const std::vector<std::string>& arguments, const std::vector<std::string>& shown) {
    const Ran ran = cli_.run(arguments);
    CHECK(ran.out.empty());
    text_ += "$ moeplan ... ";
    for (const std::string& a : shown) text_ += a + " ";
    text_ += "\n" + ran.err + "exit code " + std::to_string(ran.code) + "\n\n";
  }

  [[nodiscard]] std::string text() const {
    return with_every(with_every(text_, cli_.dir().path().string() + "/", "DIR/"), configs().string(), "CONFIGS");
  }

 private:
  const Cli& cli_;
  std::string text_;
};

}  // namespace

TEST_CASE("Errors of names say what is nearest") {
  const Cli cli;
  Log log(cli);
  log.plan({"--cluster", "dgx_h10"});
  log.plan({"--model", "mixtral_8x7"});
  log.plan({"--workload", "defualt"});
  log.plan({"--workload", "something_else_entirely"});
  log.plan({"--schedule", "parm_s3"});
  log.plan({"--schedule", "unheard_of"});
  log.plan({"--placement", "elsewhere"});
  log.plan({"--cluster", "a", "--model", "b", "--workload", "c"});
  log.plan({"--model", "./none.yaml"});
  log.plan({"--model", ""});
  check_golden("errors/names.txt", log.text());
}

TEST_CASE("Errors of overrides repeat the override") {
  const Cli cli;
  Log log(cli);
  for (const char* o : {"cluster",
                        "=",
                        "gpu.memory=40 GB",
                        "clutser.gpu.memory=40 GB",
                        "cluster.gpu.memroy=40 GB",
                        "cluster.gpu.memory=40",
                        "cluster.gpu.memory=40 gb",
                        "cluster.gpu.memory=",
                        "cluster.gpu.memory=-1 GB",
                        "cluster.gpu.memory=nan",
                        "cluster.gpu=v100",
                        "cluster.gpu.peak.bf16=[1, 2]",
                        "workload.global_batch=many",
                        "workload.global_batch=1.5",
                        "workload.mode=training",
                        "workload.routing.shape=zipff",
                        "workload..mode=train",
                        "model.layers[9].repeat=2",
                        "model.layers[0].repeat=0",
                        "model.ffns.moe.top_k=33",
                        "model.ffns.moe.num_experts=0",
                        "model.attention={num_heads: 3}",
                        "model.layers={"}) {
    log.plan({"-C", o});
  }
  log.plan({"-C", "cluster.gpu.memory=40", "-C", "workload.mode=training"});
  check_golden("errors/overrides.txt", log.text());
}

TEST_CASE("Errors of degrees say what does not divide") {
  const Cli cli;
  Log log(cli);
  log.plan({"--tp", "3"});
  log.plan({"--tp", "16"});
  log.plan({"--tp", "2", "--dp", "2", "--pp", "1", "--cp", "1"});
  log.plan({"--ep", "4", "--esp", "4"});
  log.plan({"--pp", "2", "--cp", "8"});
  log.plan({"--tp", "0"});
  check_golden("errors/degrees.txt", log.text());
}

TEST_CASE("Errors of a cluster file come all at once") {
  const Cli cli;
  Log log(cli);
  (void)cli.write("many.yaml", R"(name: many
gpu: h100_sxm
color: red
collective_startup: 10
message_overhead: -1 us
template:
  nodes: 1.5
  gpus_per_node: 8
  intra_node: {kind: nvswitch, bandwidth: nan, latency: inf}
  fabric: {kind: single_swich, nics_per_node: 8, nic_bandwidth: 400 gbps, latency: 1e999 us}
origins: {"": "assumed: a test"}
)");
  (void)cli.write("twice.yaml", "name: twice\nname: again\ngpu: h100_sxm\n");
  (void)cli.write("gpu.yaml", with_every(whole_file(configs() / "clusters/dgx_h100.yaml"), "h100_sxm", "h100_smx"));
  (void)cli.write("unsourced.yaml", with_every(whole_file(configs() / "clusters/dgx_h100.yaml"),
                                               "  template: \"datasheet: ", "  template: \"heard: "));
  (void)cli.write("islands.yaml", R"(name: islands
gpu: h100_sxm
collective_startup: 10 us
message_overhead: 0
vertices:
  - {name: a, kind: gpu, node: 0}
  - {name: b, kind: gpu, node: 0}
  - {name: c, kind: gpu, node: 1}
links:
  - {from: a, to: b, bandwidth: 10 GB/s, latency: 1 us}
  - {from: b, to: a, bandwidth: 10 GB/s, latency: 1 us}
origins: {"": "assumed: a test"}
)");
  (void)cli.write("one.yaml", "include: two.yaml\nname: one\n");
  (void)cli.write("two.yaml", "include: one.yaml\n");
  (void)cli.write("self.yaml", "include: self.yaml\n");
  for (const char* name : {"many", "twice", "gpu", "unsourced", "one", "self"}) {
    log.plan({"--cluster", "./" + std::string(name) + ".yaml"});
  }
  log.add({"plan", "--cluster", "./islands.yaml", "--model", "schemoe_gpt2_tiny_moe"}, {"--cluster", "./islands.yaml"});
  check_golden("errors/cluster_files.txt", log.text());
}

TEST_CASE("Errors of model, workload and plan files name file, place and key") {
  const Cli cli;
  Log log(cli);
  const std::string model = whole_file(configs() / "models/mixtral_8x7b.yaml");
  const std::string workload = whole_file(configs() / "workloads/default.yaml");
  (void)cli.write("model.yaml", with_every(with_every(model, "num_experts: 8", "num_experts: 1"), "hidden_size: 4096",
                                           "hidden_sise: 4096"));
  (void)cli.write("workload.yaml",
                  with_every(with_every(workload, "micro_batch: auto", "micro_batch: 300"), "bf16\n", "bf17\n"));
  (void)cli.write("family/config.json", "{\n  \"model_type\": \"mixtrall\",\n  \"hidden_size\": 64\n}\n");
  (void)cli.write("null/config.json",
                  "{\"model_type\": \"mixtral\", \"hidden_size\": null, \"num_local_experts\": \"8\"}\n");
  (void)cli.write("comma/config.json", "{\"model_type\": \"mixtral\",}\n");
  log.plan({"--model", "./model.yaml"});
  log.plan({"--workload", "./workload.yaml"});
  log.plan({"--model", "./model.yaml", "--workload", "./workload.yaml"});
  for (const char* name : {"family", "null", "comma"}) log.plan({"--model", std::string(name) + "/config.json"});
  (void)cli.write("plan.yaml", "schema_version: 2\nworld_size: 8\n");
  log.add({"simulate", "plan.yaml"}, {"simulate", "plan.yaml"});
  check_golden("errors/other_files.txt", log.text());
}

}  // namespace moeplan::tests::error_texts_test
