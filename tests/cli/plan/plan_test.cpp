// `moeplan plan` and `moeplan simulate` as a user runs them: what they print, write and return.
#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::plan_test {

namespace {

const std::vector<std::string> kSmall{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                      "--world", "8"};

void check_documented(const Json& j) {
  CHECK(j.at("schema_version") == 1);
  const Json& best = j.at("best");
  CHECK(best.at("etp") == best.at("esp"));
  for (const char* key : {"schedule", "all_to_all", "codec", "placement"}) CHECK(best.at(key).is_string());
  for (const char* key : {"pipeline_degree", "tp", "cp", "ep", "esp", "dp", "pp"})
    CHECK(best.at(key).is_number_integer());
  for (const char* key : {"makespan_s", "lower_bound_s", "schedule_bound_s", "memory_bytes", "tokens_per_s_per_gpu",
                          "model_flops_utilization"}) {
    CAPTURE(key);
    CHECK(best.at(key).get<double>() > 0);
  }
  for (const char* key : {"optimality_gap", "schedule_gap", "exposed_communication_s"}) {
    CAPTURE(key);
    CHECK(best.at(key).get<double>() >= -1e-9);
  }
  CHECK(best.at("lower_bound_s").get<double>() <= best.at("schedule_bound_s").get<double>());
  CHECK(best.at("model_flops_utilization").get<double>() < 1);
  CHECK(best.at("exposed_communication_s").get<double>() <= best.at("makespan_s").get<double>());
  REQUIRE(best.at("layers").is_array());
  CHECK_FALSE(best.at("layers").empty());
  const auto degree = [&](const char* name) { return best.at(name).get<int>(); };
  CHECK(degree("pp") * degree("dp") * degree("cp") * degree("tp") == j.at("world_size").get<int>());
  REQUIRE(j.at("candidates").is_array());
  REQUIRE_FALSE(j.at("candidates").empty());
  CHECK(j.at("candidates")[0].at("makespan_s") == best.at("makespan_s"));
  CHECK(j.at("rejected").is_object());
  for (const auto& [reason, count] : j.at("rejected").items()) CHECK(count.get<int>() > 0);
  CHECK(j.at("search").at("simulated").is_number_integer());
  CHECK(j.at("search").at("pruned").is_number_integer());
  CHECK(j.at("timing").is_object());
  CHECK((best.at("order") == "listed" || best.at("order") == "searched"));
  const Json& order = best.at("order_search");
  CHECK((order.at("answered_by") == "exact" || order.at("answered_by") == "heuristic"));
  CHECK(order.at("blocks").get<int>() > 0);
  CHECK(order.at("fixed").get<int>() + order.at("improved").get<int>() <= order.at("blocks").get<int>());
  check_no_null_or_negative(j, "");
}

}  // namespace

TEST_CASE("plan prints the promised JSON for real models on real machines, and simulate agrees with it") {
  const Cli cli;
  std::vector<std::string> arguments;
  SECTION("Mixtral on four H200 nodes") {
    arguments = {"plan", "--cluster", "hgx_h200", "--model", "mixtral_8x7b", "--world", "32"};
  }
  SECTION("a Hugging Face configuration on the default H100 nodes") {
    const std::filesystem::path qwen = MOEPLAN_SOURCE_DIR "/../shared/data/hf_configs/Qwen--Qwen3-30B-A3B_config.json";
    if (!std::filesystem::exists(qwen)) {
      WARN("skipped: ../shared/data/hf_configs is absent");
      return;
    }
    arguments = {"plan", "--cluster", "dgx_h100", "--model", qwen.string()};
  }
  SECTION("a paper's model on its testbed") {
    arguments = {"plan", "--cluster", "parm_testbed_b", "--model", "gpt2_moe", "--workload", "parm_grid"};
  }
  const Json plan = parsed(cli.run(with(arguments, {"--json", "--top", "2", "-o", "plan.yaml"})));
  check_documented(plan);
  const Json simulated = parsed(cli.run({"simulate", "plan.yaml", "--json"}));
  CHECK(simulated.at("makespan_s") == plan.at("best").at("makespan_s"));
  CHECK(simulated.at("lower_bound_s") == plan.at("best").at("schedule_bound_s"));
  CHECK_FALSE(simulated.at("streams").empty());
  CHECK_FALSE(simulated.at("links").empty());
  for (const Json& link : simulated.at("links")) CHECK(link.at("utilisation").get<double>() <= 1 + 1e-6);
  check_no_null_or_negative(simulated, "");
}

TEST_CASE("A pipeline of shards of the sequence is planned, written and simulated again") {
  const Cli cli;
  const Json plan =
      parsed(cli.run(with(kSmall, {"--pp", "2", "--cp", "2", "--json", "-o", "plan.yaml", "--trace", "trace.json"})));
  check_documented(plan);
  for (const char* degree : {"pp", "cp"}) CHECK(plan.at("best").at(degree) == 2);
  CHECK_THAT(whole_file(cli.path("plan.yaml")), Catch::Contains("pp: 2") && Catch::Contains("virtual_stages: "));
  const Json simulated = parsed(cli.run({"simulate", "plan.yaml", "--json"}));
  CHECK(simulated.at("makespan_s") == plan.at("best").at("makespan_s"));
  CHECK(cli.run({"explain", "plan.yaml"}).code == 0);
  CHECK(Json::parse(whole_file(cli.path("trace.json"))).at("traceEvents").size() > 10);
}

TEST_CASE("plan says how the order of operations was found") {
  const Cli cli;
  SECTION("exact where no block has another") {
    const std::vector<std::string> plan =
        with(kSmall, {"--schedule", "baseline", "--pp", "1", "--tp", "1", "-o", "plan.yaml"});
    const Json best = parsed(cli.run(with(plan, {"--json"}))).at("best");
    CHECK(best.at("order") == "listed");
    const Json& order = best.at("order_search");
    CHECK(order.at("answered_by") == "exact");
    CHECK(order.at("fixed") == order.at("blocks"));
    CHECK(order.at("states") == 0);
    CHECK_THAT(unwrapped(cli.run(with(plan, {"--verbose"})).out),
               Catch::Contains(" order exact: the dependencies of every block leave one ("));
  }
  SECTION("searched where a shared expert is better computed beside the combine, and simulated again so") {
    // A host that keeps up: where it does not, the order makes no difference.
    const std::vector<std::string> plan{"plan",
                                        "--cluster",
                                        "dgx_h100",
                                        "--model",
                                        "deepseek_v3",
                                        "--world",
                                        "256",
                                        "--pp",
                                        "32",
                                        "--tp",
                                        "8",
                                        "--schedule",
                                        "baseline",
                                        "-o",
                                        "plan.yaml",
                                        "-C",
                                        "cluster.gpu.host_time_per_operation=20us"};
    const Json best = parsed(cli.run(with(plan, {"--json"}))).at("best");
    CHECK(best.at("order") == "searched");
    CHECK(best.at("order_search").at("answered_by") == "exact");
    CHECK(best.at("order_search").at("improved").get<int>() > 0);
    CHECK_THAT(whole_file(cli.path("plan.yaml")), Catch::Contains("order: searched"));
    const Json simulated = parsed(cli.run({"simulate", "plan.yaml", "--json"}));
    CHECK(simulated.at("plan").at("order") == "searched");
    CHECK(simulated.at("makespan_s") == best.at("makespan_s"));
    CHECK(simulated.at("lower_bound_s") == best.at("schedule_bound_s"));
    const std::string page = unwrapped(cli.run(with(plan, {"--verbose"})).out);
    CHECK_THAT(page, Catch::Contains("settings operations reordered") && Catch::Contains("baseline~"));
    CHECK_THAT(page, Catch::Contains(" reordered, each proved the fastest, contention apart ("));
  }
}

TEST_CASE("plan --time-limit ends with the best plan so far and says so") {
  const Cli cli;
  const std::vector<std::string> cut = with(kSmall, {"--time-limit", "1 ns", "-o", "plan.yaml"});
  const Json j = parsed(cli.run(with(cut, {"--json"})));
  CHECK(j.at("best").at("lower_bound_s").get<double>() > 0);
  CHECK(j.at("best").at("optimality_gap").get<double>() >= 0);
  CHECK(j.at("search").at("is_cut") == true);
  CHECK(j.at("search").at("simulated") == 1);
  const Ran page = cli.run(cut);
  CHECK(page.code == 0);
  CHECK_THAT(unwrapped(page.out),
             Catch::Contains("above the provable limit") && Catch::Contains("search cut by its time limit"));
  CHECK(parsed(cli.run({"simulate", "plan.yaml", "--json"})).at("makespan_s") == j.at("best").at("makespan_s"));
  CHECK_FALSE(parsed(cli.run(with(kSmall, {"--time-limit", "60m", "--json"}))).at("search").contains("is_cut"));

  CHECK_THAT(cli.run(with(kSmall, {"--time-limit", "0 s"})).err,
             Catch::Contains("--time-limit: expected more than 0 and at most a day"));
  CHECK_THAT(cli.run(with(kSmall, {"--delay-wgrad"})).err,
             Catch::Contains("--delay-wgrad: delays what overlaps; expected --ep-overlap too"));
  CHECK_THAT(cli.run(with(kSmall, {"--pipeline", "v", "--vp", "4"})).err,
             Catch::Contains("--vp: is 4; stages in a V have 2 parts each"));
}

TEST_CASE("Two runs of plan give the same bytes, apart from the time that they took") {
  const Cli cli;
  const auto once = [&](const std::string& name, const std::string& threads) {
    return parsed(cli.run(with(kSmall, {"--workload", "skewed", "--json", "--threads", threads, "-o", name + ".yaml",
                                        "--trace", name + ".json"})));
  };
  Json first = once("a", "1"), second = once("b", "2");
  first.erase("timing");
  second.erase("timing");
  CHECK(first.dump() == second.dump());
  CHECK(whole_file(cli.path("a.yaml")) == whole_file(cli.path("b.yaml")));
  CHECK(whole_file(cli.path("a.json")) == whole_file(cli.path("b.json")));
  CHECK(Json::parse(whole_file(cli.path("a.json"))).at("traceEvents").size() > 10);
}

TEST_CASE("A plan file stands alone: the configurations may be gone") {
  Cli cli;
  std::filesystem::copy(configs(), cli.path("mine"), std::filesystem::copy_options::recursive);
  cli.config_directory = cli.path("mine");
  const Json plan = parsed(cli.run(with(kSmall, {"--json", "-o", "plan.yaml"})));
  std::filesystem::remove_all(cli.path("mine"));
  CHECK(cli.run(kSmall).code == 2);
  const Json simulated = parsed(cli.run({"simulate", "plan.yaml", "--json"}));
  CHECK(simulated.at("makespan_s") == plan.at("best").at("makespan_s"));
  SECTION("while --inputs disk misses them and says so") {
    const Ran disk = cli.run({"simulate", "plan.yaml", "--inputs", "disk"});
    CHECK(disk.code == 2);
    CHECK_THAT(disk.err, Catch::Contains("mine/clusters/dgx_h100.yaml: no such file"));
  }
}

TEST_CASE("A plan file names the experts' tensor-parallel size esp or etp") {
  const Cli cli;
  const Ran ran = cli.run(with(kSmall, {"--ep", "4", "--etp", "2", "--budget", "1", "-o", "plan.yaml"}));
  REQUIRE(ran.code == 0);
  const std::string plan = whole_file(cli.path("plan.yaml")), line = "  esp: 2\n";
  const auto simulated = [&](const std::string& lines) {
    std::string edited = plan;
    (void)cli.write("edited.yaml", edited.replace(edited.find(line), line.size(), lines));
    return cli.run({"simulate", "edited.yaml", "--json"});
  };
  const Json expected = without_timing(parsed(simulated(line)));
  CHECK(expected.at("plan").at("etp") == 2);
  CHECK(without_timing(parsed(simulated("  etp: 2\n"))) == expected);
  CHECK(without_timing(parsed(simulated(line + "  etp: 2\n"))) == expected);
  const Ran different = simulated(line + "  etp: 1\n");
  CHECK(different.code == 2);
  CHECK_THAT(different.err,
             Catch::Contains("decision.etp: differs from esp, which is another name of it; write one of them"));
}

TEST_CASE("An edited recompute of a plan takes effect where the workload leaves it open, and is else refused") {
  const Cli cli;
  REQUIRE(cli.run(with(kSmall, {"-C", "workload.recompute=auto", "-o", "plan.yaml"})).code == 0);
  const std::string plan = whole_file(cli.path("plan.yaml"));
  const auto time = [&](const std::string& recompute) {
    (void)cli.write("edited.yaml", with_every(plan, "\n  recompute: none\n", "\n  recompute: " + recompute + "\n"));
    return parsed(cli.run({"simulate", "edited.yaml", "--json"})).at("makespan_s").get<double>();
  };
  CHECK(time("none") < time("full"));
  SECTION("file, key, value and what to do") {
    (void)cli.write("edited.yaml", with_every(with_every(plan, "\n  recompute: none\n", "\n  recompute: full\n"),
                                              "\n  recompute: auto\n", "\n  recompute: selective\n"));
    const Ran ran = cli.run({"simulate", "edited.yaml"});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, Catch::StartsWith("edited.yaml:") &&
                            Catch::Contains("decision.recompute: \"full\" contradicts this plan's workload.recompute, "
                                            "\"selective\"; change that too, or set it to auto"));
  }
}

TEST_CASE("Without a folder of configurations names are refused, with where it was looked for and how to name one") {
  Cli cli;
  cli.config_directory = "/no/such/configs";
  const std::string message =
      "configs: no folder of configurations was found; looked for /no/such/configs; name one with the environment "
      "variable MOEPLAN_CONFIGS\n";
  for (const std::vector<std::string>& command : {std::vector<std::string>{"list", "models"},
                                                  {"list", "gpus"},
                                                  {"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b"},
                                                  {"collective", "--cluster", "dgx_h100", "--op", "all_reduce"},
                                                  {"sweep", "skew", "-o", "s.sqlite"}}) {
    const Ran ran = cli.run(command, kStrict);
    CAPTURE(command, ran.out);
    CHECK(ran.code == 2);
    CHECK(ran.err == message);
    CHECK(ran.out.empty());
  }
  SECTION("what is built in is listed, and files are read, without it") {
    CHECK(cli.run({"list", "schedules"}).code == 0);
    const Ran ran =
        cli.run({"plan", "--cluster", "./none.yaml", "--model", "./none.yaml", "--workload", "./none.yaml"});
    CHECK(ran.err == "./none.yaml: no such file\n");
  }
}

TEST_CASE("Outputs are looked at before the work begins") {
  const Cli cli;
  (void)cli.write("file", "");
  std::filesystem::create_directory(cli.path("folder"));
  (void)cli.write("p.yaml", "no plan\n");
  // Each would be refused for its input too, if that were read first.
  const std::vector<std::vector<std::string>> commands{
      {"plan", "--cluster", "none", "--model", "none", "-o"},
      {"plan", "--cluster", "none", "--model", "none", "--trace"},
      {"simulate", "p.yaml", "--trace"},
      {"collective", "--cluster", "none", "--traffic", "none.csv", "--flows"},
      {"profile", "--from-csv", "none.csv", "-o"},
      {"profile", "--backend", "nccl", "-o", "good", "--gpu-file"},
      {"import", "hf-config", "none.json", "-o"},
      {"import", "routing-trace", "none.csv", "-o"},
      {"sweep", "none", "-o"},
      {"sweep", "none", "-o", "good", "--csv"},
      {"sweep", "--merge", "none.sqlite", "-o"},
      {"validate", "p.yaml", "--backend", "host", "--trace"}};
  const std::vector<std::pair<std::string, std::string>> outputs{
      {"no/such/folder/x", "No such file or directory: no/such/folder"},
      {"file/x", "Not a directory: file"},
      {"folder", "Is a directory"}};
  for (const auto& command : commands) {
    for (const auto& [path, reason] : outputs) {
      const Ran ran = cli.run(with(command, {path}), kStrict);
      CAPTURE(command);
      CHECK(ran.code == 2);
      CHECK(ran.err == path + ": cannot be written: " + reason + "\n");
      CHECK(ran.out.empty());
    }
  }
  CHECK_FALSE(std::filesystem::exists(cli.path("good")));
}

TEST_CASE("simulate --inputs disk names what has changed since the plan") {
  Cli cli;
  std::filesystem::copy(configs(), cli.path("mine"), std::filesystem::copy_options::recursive);
  cli.config_directory = cli.path("mine");
  REQUIRE(cli.run(with(kSmall, {"-o", "plan.yaml"})).code == 0);
  const std::string workload = whole_file(cli.path("mine/workloads/default.yaml"));
  (void)cli.write("mine/workloads/default.yaml", with_every(workload, "global_batch: 256", "global_batch: 512"));
  const Ran ran = cli.run({"simulate", "plan.yaml", "--inputs", "disk"});
  CHECK(ran.code == 0);
  CHECK(ran.err == "changed since the plan was made: workload.global_batch\n");
}

TEST_CASE("plan takes how rows travel as given, and other commands run it") {
  const Cli cli;
  const std::vector<std::string> two_nodes{
      "plan", "--cluster", "azure_ndv4", "--model", "gpt2_moe", "--world", "16", "-C", "workload.codecs={int8: {}}"};
  const Json plan = parsed(cli.run(with(two_nodes, {"--all-to-all", "2dh", "--pipeline-degree", "2", "--codec",
                                                    "int8/none", "--json", "--top", "3", "-o", "a.yaml"})));
  for (const Json& c : plan.at("candidates")) {
    CHECK(c.at("all_to_all") == "2dh");
    CHECK(c.at("pipeline_degree") == 2);
    CHECK(c.at("codec") == "int8/none");
  }
  CHECK(parsed(cli.run({"simulate", "a.yaml", "--json"})).at("makespan_s") == plan.at("best").at("makespan_s"));
  const Ran explained = cli.run({"explain", "a.yaml", "--quiet"});
  CHECK(explained.code == 0);
  CHECK(unwrapped(explained.out).find(" | 2 chunks | 2dh all-to-all | int8/none codec") != std::string::npos);
  REQUIRE(cli.run(with(two_nodes, {"-o", "b.yaml"})).code == 0);
  const Ran compared = cli.run({"compare", "a.yaml", "b.yaml"});
  CHECK(compared.code == 0);
  CHECK(compared.out.find("int8/none") != std::string::npos);
  SECTION("a codec that the workload does not allow, with what allows it") {
    const Ran ran = cli.run(with(kSmall, {"--codec", "zfp/int8"}));
    CHECK(ran.code == 2);
    CHECK(ran.err ==
          "--codec: zfp/int8 loses digits, which the workload does not allow; expected -C "
          "'workload.codecs={int8: {}, zfp: {}}' too\n");
    CHECK(cli.run(with(kSmall, {"--codec", "zfp/int8", "-C", "workload.codecs={int8: {}, zfp: {}}"})).code == 0);
  }
  SECTION("unknown names, with the nearest") {
    const Ran ran = cli.run(with(kSmall, {"--all-to-all", "2hd", "--codec", "zfp/int9"}));
    CHECK(ran.code == 2);
    CHECK(ran.err ==
          "--all-to-all: \"2hd\" is not known; did you mean \"2dh\"?\n"
          "--codec: \"int9\" is not known; did you mean \"int8\"?\n");
    CHECK(cli.run(with(kSmall, {"--pipeline-degree", "65"})).code == 2);
  }
}

TEST_CASE("list names what is built in, with a line about each") {
  const Cli cli;
  const auto first_words = [&](const char* what) {
    const Ran ran = cli.run({"list", what});
    CHECK(ran.code == 0);
    std::vector<std::string> words;
    for (const std::string& line : lines_of(ran.out)) words.push_back(line.substr(0, line.find(' ')));
    return words;
  };
  CHECK(first_words("all-to-all") == std::vector<std::string>{"linear", "pairwise", "1dh", "2dh", "naive_local", "3dh",
                                                              "pipe", "node_dedup", "all_gather", "deepep",
                                                              "deepep_low_latency", "deepep_v2", "hybridep", "fused"});
  CHECK(first_words("dispatchers") ==
        std::vector<std::string>{"linear", "deepep", "deepep_low_latency", "deepep_v2", "hybridep", "fused"});
  CHECK(first_words("codecs") == std::vector<std::string>{"none", "fp16", "int8", "fp8_block", "zfp"});
}

TEST_CASE("Ranks that share a GPU are planned and simulated like others") {
  const Cli cli;
  const std::string plan = cli.path("plan.yaml");
  const Ran planned =
      cli.run({"plan", "--cluster", "loopback", "--model", "schemoe_gpt2_tiny_moe", "--ep", "4", "--json", "-o", plan},
              kStrict);
  REQUIRE(planned.code == 0);
  const Json best = Json::parse(planned.out)["best"];
  CHECK(Json::parse(planned.out)["world_size"] == 4);
  // 4 ranks and all their memory are one GPU's.
  CHECK(best["memory_bytes"].get<double>() <= 141e9 / 4);
  const double tokens = 256 * 1024;
  CHECK(best["tokens_per_s_per_gpu"].get<double>() == Approx(tokens / best["makespan_s"].get<double>()));
  CHECK(best["makespan_s"].get<double>() >= best["lower_bound_s"].get<double>());
  SECTION("the plan holds how many share, and gives the same makespan") {
    const Ran again = cli.run({"simulate", plan, "--json"}, kStrict);
    REQUIRE(again.code == 0);
    CHECK(Json::parse(again.out)["makespan_s"] == best["makespan_s"]);
  }
  SECTION("4 GPUs of their own are faster") {
    const Ran apart = cli.run(
        {"plan", "--cluster", "hgx_h200", "--world", "4", "--model", "schemoe_gpt2_tiny_moe", "--ep", "4", "--json"},
        kStrict);
    REQUIRE(apart.code == 0);
    CHECK(Json::parse(apart.out)["best"]["makespan_s"].get<double>() < best["makespan_s"].get<double>() / 2);
  }
}

TEST_CASE("Numbers of GPUs that share no factor with anything are answered quickly") {
  const Cli cli;
  for (const char* world : {"7", "13", "97", "1009"}) {
    CAPTURE(world);
    const Ran ran = cli.run(
        {"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", world, "--recompute", "selective"},
        kStrict);
    CHECK(ran.code == 3);
  }
}

}  // namespace moeplan::tests::plan_test
