// The cases of a sweep: those that cannot be done, and what the others have in common with other commands.
#include <catch2/catch.hpp>
#include <map>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::sweep_cases_test {

namespace {

using Arguments = std::vector<std::string>;

Arguments sweep(const std::string& file, const std::string& database, const Arguments& more = {}) {
  return with({"sweep", file, "-o", database, "--quiet"}, more);
}

bool exists(const Cli& cli, const std::string& name) { return std::filesystem::exists(cli.path(name)); }

/// What the candidate that `plan` found takes (s, bytes) in a sweep of that candidate alone.
std::pair<double, double> makespan_and_memory(const Cli& cli, const Json& best) {
  std::string yaml =
      "name: c\nkind: candidate\naxes: {workload.name: [w]}\n"
      "base: {cluster: parm_testbed_b, model: gpt2_moe, workload: parm_grid";
  std::int64_t world = 1;
  for (const char* key : {"pp", "dp", "cp", "tp"}) world *= best.at(key).get<std::int64_t>();
  for (const char* key : {"schedule",
                          "all_to_all",
                          "pipeline_degree",
                          "codec",
                          "rank_order",
                          "recompute",
                          "order",
                          "tp",
                          "cp",
                          "ep",
                          "esp",
                          "dp",
                          "edp",
                          "pp",
                          "virtual_stages",
                          "pipeline",
                          "sequence_parallel",
                          "ep_overlap",
                          "delay_wgrad",
                          "micro_batch"}) {
    yaml += std::string(", ") + key + ": " + best.at(key).dump();
  }
  const std::string file = cli.write("c.yaml", yaml + ", world: " + std::to_string(world) + "}\n");
  std::filesystem::remove(cli.path("c.sqlite"));
  const Ran ran = cli.run(sweep(file, "c.sqlite"));
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  const Json row =
      parsed(cli.run({"query", "c.sqlite", "best", "--json", "--columns", "makespan_s,memory_bytes"}))["rows"][0];
  return {row[0].get<double>(), row[1].get<double>()};
}

}  // namespace

TEST_CASE("A layer alone has memory and a balance degree") {
  const Cli cli;
  const auto rows = [&](const std::string& yaml) {
    const std::string file = cli.write(
        "s.yaml",
        "name: s\nkind: layer\noutputs: [memory_bytes, balance_degree]\nbase: {cluster: dgx_h100, model: mixtral_8x7b, "
        "world: 8, ep: 8, workload: parm_grid" +
            yaml);
    std::filesystem::remove(cli.path("s.sqlite"));
    const Ran ran = cli.run(sweep(file, "s.sqlite"));
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    return parsed(
        cli.run({"query", "s.sqlite", "table", "--json", "--columns", "memory_bytes,balance_degree"}))["rows"];
  };
  SECTION("dense encoding's mask takes 4 bytes for each token and row of its experts") {
    const Json r = rows(", workload.capacity_factor: 1}\naxes: {workload.encoding: [sparse, dense]}\n");
    const double tokens = 4096, rows_of_all = 2 * tokens;
    CHECK(r[1][0].get<double>() - r[0][0].get<double>() >= 4 * tokens * rows_of_all);
  }
  SECTION("even loads have none, and a planner lowers that of uneven ones") {
    const Json r = rows(
        ", workload.capacity_factor: none, redundant_experts: 7}\nzip: [{workload.routing: [\"{shape: uniform}\", "
        "\"{shape: zipf}\", \"{shape: "
        "zipf}\"], "
        "placement: [contiguous, contiguous, pro_prophet]}]\n");
    CHECK(r[0][1].get<double>() == 0);
    CHECK(r[2][1].get<double>() < r[1][1].get<double>());
    CHECK(r[2][0].get<double>() > r[1][0].get<double>());  // copies take memory
  }
}

TEST_CASE("Cases that cannot be done are rows with their reason") {
  const Cli cli;
  const std::string base =
      "name: s\nkind: candidate\nbase: {cluster: dgx_h100, model: mixtral_8x7b, world: 8, workload.micro_batch: 1}\n";
  const auto reasons = [&](const std::string& yaml) {
    const std::string file = cli.write("s.yaml", base + yaml);
    std::filesystem::remove(cli.path("s.sqlite"));
    const Ran ran = cli.run(sweep(file, "s.sqlite"));
    const Json table = parsed(cli.run({"query", "s.sqlite", "table", "--json", "--columns", "status,reason"}));
    return std::pair(ran, table.at("rows"));
  };
  SECTION("infeasible and bad ones beside one that runs") {
    const auto [ran, rows] = reasons("axes: {ep: [8, 3], cluster.gpu.memory: [800 GB, 8 GB, 8 MHz]}\n");
    CHECK(ran.code == 0);
    REQUIRE(rows.size() == 6);
    CHECK(rows[0] == Json{"done", ""});
    CHECK(rows[1][0] == "infeasible");
    CHECK(rows[1][1].get<std::string>().rfind("memory: ", 0) == 0);
    CHECK(rows[2][0] == "bad_input");
    CHECK(rows[2][1].get<std::string>().find("has unknown unit \"MHz\"") != std::string::npos);
    CHECK(rows[3] == Json{"infeasible",
                          "the degrees do not make 8 ranks: pp 1 x dp 8 x cp 1 x tp 1, pp 1 x edp 2 x ep 3 x esp 1"});
    CHECK(ran.err.find("warning: case 2 cannot be read") != std::string::npos);
  }
  SECTION("a file that the system does not let be read ends the sweep, which can go on once it does") {
    const auto circle = cli.path("gpu.yaml");
    std::filesystem::create_symlink(circle, circle);
    const std::string file = cli.write("s.yaml", base + "axes: {ep: [8], cluster.gpu: [h200_sxm, " + circle + "]}\n");
    const Ran ran = cli.run(sweep(file, "s.sqlite"));
    CHECK(ran.code == 2);
    CHECK(ran.err == circle + ": cannot be read: Too many levels of symbolic links\n");
    std::filesystem::remove(circle);
    std::filesystem::copy_file(configs() / "gpus/h200_sxm.yaml", circle);
    CHECK(cli.run(sweep(file, "s.sqlite", {"--resume"})).code == 0);
    const Json table = parsed(cli.run({"query", "s.sqlite", "table", "--json", "--columns", "status"}));
    CHECK(table.at("rows") == Json{{"done"}, {"done"}});
  }
  SECTION("nothing feasible is exit code 3") {
    const auto [ran, rows] = reasons("axes: {ep: [3, 5]}\n");
    CHECK(ran.code == 3);
    CHECK(rows.size() == 2);
  }
  SECTION("where no case can be read the sweep is refused before it begins") {
    const std::string file = cli.write("s.yaml", base + "axes: {workload.dtpye: [bf16, fp16]}\n");
    const Ran ran = cli.run(sweep(file, "s.sqlite"));
    CHECK(ran.code == 2);
    CHECK(ran.err == "workload.dtpye=bf16:1:1: dtpye: unknown key; did you mean \"dtype\"?\n");
    CHECK_FALSE(exists(cli, "s.sqlite"));
  }
}

TEST_CASE("A sweep of single layers places experts as their transfers cost, once a layer") {
  const Cli cli;
  const auto times = [&](const std::string& mode) {
    const std::string file =
        cli.write("layer.yaml",
                  "name: layer\nkind: layer\n"
                  "base: {cluster: fastermoe_johnny, model: fastermoe_moe_gpt_l, workload: skewed, world: 16, ep: 16, "
                  "workload.micro_batch: 8, workload.dtype: fp16, redundant_experts: 15, workload.mode: " +
                      mode +
                      ", workload.routing: '{shape: hot_expert, hot_fraction: 0.01, hot_factor: 100}'}\n"
                      "axes: {placement: [contiguous, top2, fastermoe, pro_prophet, auto]}\noutputs: [makespan_s]\n");
    std::filesystem::remove(cli.path("layer.sqlite"));
    const Ran ran = cli.run(sweep(file, "layer.sqlite"));
    CAPTURE(ran.err);
    REQUIRE(ran.code == 0);
    const Json table =
        parsed(cli.run({"query", "layer.sqlite", "table", "--json", "--columns", "placement,makespan_s"}));
    std::map<std::string, double> by_placement;
    for (const Json& row : table.at("rows")) by_placement[row[0].get<std::string>()] = row[1].get<double>();
    REQUIRE(by_placement.size() == 5);
    return by_placement;
  };
  for (const std::string mode : {"train", "forward"}) {
    CAPTURE(mode);
    const std::map<std::string, double> t = times(mode);
    // Its home has half of all selections, so that a copy on every rank pays for its transfer many times.
    for (const char* copying : {"top2", "fastermoe", "pro_prophet", "auto"}) {
      CAPTURE(copying);
      CHECK(t.at(copying) < 0.75 * t.at("contiguous"));
      CHECK(t.at("auto") <= 1.05 * t.at(copying));
    }
  }
}

TEST_CASE("A sweep's topology gate takes the ratio of bandwidths from each case's cluster, as a plan's does") {
  const Cli cli;
  const std::string base =
      "name: gate\nkind: plan\nbase: {model: schemoe_gpt2_tiny_moe, world: 16, ep: 16, tp: 1, pp: 1, "
      "workload.gate: '{kind: topology}'}\noutputs: [makespan_s]\naxes: {cluster: [";
  const std::string file = cli.write("gate.yaml", base + "dgx_h100, azure_ndv4]}\n");
  const Ran ran = cli.run(sweep(file, "gate.sqlite"));
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  const Json table = parsed(cli.run({"query", "gate.sqlite", "table", "--json", "--columns", "cluster,makespan_s"}));
  for (const Json& row : table.at("rows")) {
    const Json plan = parsed(
        cli.run({"plan", "--cluster", row[0].get<std::string>(), "--model", "schemoe_gpt2_tiny_moe", "--world", "16",
                 "--ep", "16", "--tp", "1", "--pp", "1", "-C", "workload.gate={kind: topology}", "--json"}));
    CAPTURE(row.dump());
    CHECK(row[1].get<double>() == plan.at("best").at("makespan_s").get<double>());
  }
  SECTION("a cluster without a network in its file is a row that says so") {
    const std::string mixed = cli.write("mixed.yaml", with_every(base, "16", "8") + "dgx_h100, parm_testbed_a]}\n");
    CHECK(cli.run(sweep(mixed, "mixed.sqlite")).code == 0);
    const Json rows = parsed(cli.run({"query", "mixed.sqlite", "table", "--json", "--columns", "status,reason"}));
    CHECK(rows.at("rows")[0][0] == "done");
    CHECK(rows.at("rows")[1][0] == "bad_input");
    CHECK(rows.at("rows")[1][1].get<std::string>().find("the cluster's file has no template with a network") !=
          std::string::npos);
  }
}

TEST_CASE("A sweep's recompute is that of its cases, whatever the workload says") {
  const Cli cli;
  const auto run = [&](const std::string& yaml) {
    std::filesystem::remove(cli.path("r.sqlite"));
    const Ran ran = cli.run(sweep(cli.write("r.yaml", "name: r\n" + yaml), "r.sqlite"));
    CAPTURE(ran.err);
    CHECK(ran.code != 1);
    return ran;
  };
  const auto column = [&](const std::string& name) {
    std::vector<Json> values;
    const Json table = parsed(cli.run({"query", "r.sqlite", "table", "--json", "--columns", name}));
    for (const Json& row : table.at("rows")) values.push_back(row[0]);
    return values;
  };
  const std::string base =
      "base: {cluster: dgx_h100, model: schemoe_gpt2_tiny_moe, world: 8, ep: 8, workload.micro_batch: 1";
  SECTION("in candidates, as if the workload said so") {
    const std::string kind = "kind: candidate\n" + base + "}\noutputs: [makespan_s, recompute]\n";
    REQUIRE(run(kind + "axes: {workload.recompute: [none, selective, full]}\n").code == 0);
    const std::vector<Json> expected = column("makespan_s");
    CHECK(column("recompute") == std::vector<Json>{"none", "selective", "full"});
    CHECK(expected[0] < expected[1]);
    CHECK(expected[1] < expected[2]);
    REQUIRE(run(kind + "axes: {recompute: [none, selective, full]}\n").code == 0);
    CHECK(column("makespan_s") == expected);
  }
  SECTION("in layers alone, which know no full one") {
    REQUIRE(
        run("kind: layer\n" + base + "}\naxes: {recompute: [none, selective, full]}\noutputs: [makespan_s]\n").code ==
        0);
    const std::vector<Json> times = column("makespan_s");
    CHECK(times[0] < times[1]);
    CHECK(column("status")[2] == "bad_input");
    CHECK(column("reason")[2].get<std::string>().find("recompute: \"full\" is of an iteration") == 0);
  }
  SECTION("in forward cases there is nothing to recompute") {
    CHECK(run("kind: candidate\n" + base + ", workload.mode: forward}\naxes: {recompute: [none, full]}\n").code == 0);
    CHECK(column("status") == std::vector<Json>{"done", "bad_input"});
    CHECK(column("reason")[1] == "recompute: \"full\" has no effect on a forward workload; expected none");
  }
  SECTION("it is refused next to the workload's, and where a search decides it") {
    const Ran both = run("kind: candidate\n" + base + ", workload.recompute: full}\naxes: {recompute: [none]}\n");
    CHECK(both.code == 2);
    CHECK(both.err.find("recompute: is set next to workload.recompute, which says the same") != std::string::npos);
    const Ran searched = run("kind: plan\n" + base + "}\naxes: {recompute: [none]}\n");
    CHECK(searched.code == 2);
    CHECK(searched.err.find("axes.recompute: is decided by a search; what it may decide is said by "
                            "workload.recompute") != std::string::npos);
  }
}

TEST_CASE("A planned case is what moeplan plan finds, and the same candidate is predicted the same") {
  const Cli cli;
  const std::string file =
      cli.write("p.yaml",
                "name: p\nkind: plan\nbase: {cluster: parm_testbed_b, model: gpt2_moe, workload: parm_grid}\n"
                "axes: {world: [16, 32], tp: [1, 2]}\noutputs: [makespan_s, lower_bound_s, memory_bytes, "
                "exposed_communication_s, model_flops_utilization, ep, micro_batch]\n");
  CHECK(cli.run(sweep(file, "p.sqlite")).code == 0);
  const Json table = parsed(cli.run({"query", "p.sqlite", "table", "--json", "--columns",
                                     "world,tp,makespan_s,lower_bound_s,memory_bytes,exposed_communication_s,model_"
                                     "flops_utilization,ep,micro_batch"}));
  REQUIRE(table.at("rows").size() == 4);
  for (const Json& row : table.at("rows")) {
    const Json best =
        parsed(cli.run({"plan", "--cluster", "parm_testbed_b", "--model", "gpt2_moe", "--workload", "parm_grid",
                        "--world", row[0].dump(), "--tp", row[1].dump(), "--top", "1", "--json"}))
            .at("best");
    const std::vector<std::string> keys{
        "makespan_s", "lower_bound_s", "memory_bytes", "exposed_communication_s", "model_flops_utilization",
        "ep",         "micro_batch"};
    for (std::size_t i = 0; i < keys.size(); ++i) {
      CAPTURE(keys[i], row.dump());
      CHECK(row[i + 2].get<double>() == best.at(keys[i]).get<double>());
    }
    CHECK(makespan_and_memory(cli, best) == std::pair(row[2].get<double>(), row[4].get<double>()));
  }
}

}  // namespace moeplan::tests::sweep_cases_test
