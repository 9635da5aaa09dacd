// Sweeps as users run them: killed, interrupted, on a full disk, on several threads and machines.
#include <sys/mount.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "tests/cli/cli_json.hpp"
#include "tests/cli/json_schema.hpp"

namespace moeplan::tests::sweep_test {

namespace {

using Arguments = std::vector<std::string>;

/// 972 cases of Parm's grid on 8 GPUs: about a second.
std::string part_of_parm_grid(const Cli& cli) {
  return cli.write(
      "grid.yaml",
      "include: " + (configs() / "sweeps/parm_table3_a.yaml").string() +
          "\nname: grid\naxes:\n  B: {values: [2, 4]}\n  f: {values: [1.2]}\n  L: {values: [512, 1024]}\n");
}

Arguments sweep(const std::string& file, const std::string& database, const Arguments& more = {}) {
  return with({"sweep", file, "-o", database, "--quiet"}, more);
}

/// All rows in order, wall times apart.
std::string dump(const Cli& cli, const std::string& database) {
  const Ran ran = cli.run({"query", database, "table", "--csv"});
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return ran.out;
}

std::size_t rows(const std::string& csv) { return lines_of(csv).size() - 1; }

std::string undisturbed(const Cli& cli, const std::string& file) {
  const Ran ran = cli.run(sweep(file, "undisturbed.sqlite"));
  CAPTURE(ran.err);
  REQUIRE(ran.code == 0);
  return dump(cli, "undisturbed.sqlite");
}

bool exists(const Cli& cli, const std::string& name) { return std::filesystem::exists(cli.path(name)); }

/// A file system of its own in memory; mounted only where this process may.
class SmallDisk {
 public:
  SmallDisk(std::string at, const std::string& size) : at_(std::move(at)) {
    std::filesystem::create_directories(at_);
    mounted_ = ::mount("tmpfs", at_.c_str(), "tmpfs", 0, ("size=" + size).c_str()) == 0;
  }
  ~SmallDisk() {
    if (mounted_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;

  [[nodiscard]] bool mounted() const { return mounted_; }
  void grow(const std::string& size) const {
    REQUIRE(::mount("tmpfs", at_.c_str(), "tmpfs", MS_REMOUNT, ("size=" + size).c_str()) == 0);
  }

 private:
  std::string at_;
  bool mounted_;
};

/// What the candidate that `plan` found takes (s, bytes) in a sweep of that candidate alone.
std::pair<double, double> makespan_and_memory(const Cli& cli, const Json& best) {
  std::string yaml =
      "name: c\nkind: candidate\naxes: {workload.name: [w]}\n"
      "base: {cluster: parm_testbed_b, model: gpt2_moe, workload: parm_grid";
  std::int64_t world = 1;
  for (const char* key : {"pp", "dp", "cp", "tp"}) world *= best.at(key).get<std::int64_t>();
  for (const char* key :
       {"schedule", "all_to_all", "pipeline_degree", "codec", "rank_order", "recompute", "order", "tp", "cp", "ep",
        "esp", "dp", "edp", "pp", "virtual_stages", "sequence_parallel", "micro_batch"}) {
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

TEST_CASE("A sweep that is killed twenty times and resumed ends as if nothing had been") {
  const Cli cli;
  const std::string file = part_of_parm_grid(cli);
  const auto began = std::chrono::steady_clock::now();
  const std::string expected = undisturbed(cli, file);
  const std::chrono::duration<double, std::milli> whole = std::chrono::steady_clock::now() - began;
  std::mt19937 random(20261121);  // NOLINT: the same moments every time
  std::uniform_real_distribution<double> drawn(0, 1);
  std::size_t killed = 0, grew = 0, before = 0;
  for (int i = 0; i < 20; ++i) {
    const pid_t child = cli.started(sweep(file, "killed.sqlite", {"--resume", "--jobs", "2"}));
    std::this_thread::sleep_for((i + drawn(random)) / 40 * whole);  // five whole runs in all
    ::kill(child, SIGKILL);
    if (cli.ended(child).code == -SIGKILL) ++killed;
    if (!exists(cli, "killed.sqlite")) continue;
    const Ran ran = cli.run({"query", "killed.sqlite", "table", "--csv"});
    if (ran.code != 0) continue;  // killed before its tables were there
    const std::size_t now = rows(ran.out);
    CHECK(now >= before);  // what was committed is never lost
    grew += now > before ? 1 : 0;
    before = now;
  }
  CHECK(killed > 5);
  CHECK(grew > 0);
  const Ran last = cli.run(sweep(file, "killed.sqlite", {"--resume"}));
  CAPTURE(last.err);
  CHECK(last.code == 0);
  CHECK(dump(cli, "killed.sqlite") == expected);
  CHECK_FALSE(exists(cli, "killed.sqlite-wal"));
  CHECK_FALSE(exists(cli, "killed.sqlite.lock"));
}

TEST_CASE("A full disk ends a sweep with a clear error and a readable file, and room lets it go on") {
  const Cli cli;
  const std::string file = part_of_parm_grid(cli);
  const std::string expected = undisturbed(cli, file);
  const auto check_full = [&](const Ran& ran, const std::string& database, const std::string& what) {
    CHECK(ran.code == 2);
    CHECK(ran.err == database + ": " + what + "; the cases committed so far stay; make room and go on with --resume\n");
    const std::string there = dump(cli, database);  // while there is no room still
    CHECK(rows(there) < rows(expected));
  };
  const auto check_resumed = [&](const std::string& database) {
    CHECK(cli.run(sweep(file, database, {"--resume"})).code == 0);
    CHECK(dump(cli, database) == expected);
  };
  SECTION("a small file system") {
    const SmallDisk disk(cli.path("disk"), "192k");
    if (!disk.mounted()) {
      WARN("skipped: this process may not mount a file system");
      return;
    }
    check_full(cli.run(sweep(file, "disk/full.sqlite")), "disk/full.sqlite", "the disk is full");
    disk.grow("64m");
    check_resumed("disk/full.sqlite");
  }
  SECTION("a limit on the size of files") {
    const Ran ran = cli.run(sweep(file, "limited.sqlite"), {.file_bytes = 100'000});
    check_full(ran, "limited.sqlite", "has reached the largest size that a file may have here");
    check_resumed("limited.sqlite");
  }
}

TEST_CASE("The database says the same for 1, 2 and 5 jobs, and for three shards that are merged") {
  const Cli cli;
  const std::string file = part_of_parm_grid(cli);
  const std::string expected = undisturbed(cli, file);
  for (const std::string jobs : {"1", "2", "5"}) {
    CHECK(cli.run(sweep(file, jobs + ".sqlite", {"--jobs", jobs, "--csv", jobs + ".csv"})).code == 0);
    CHECK(dump(cli, jobs + ".sqlite") == expected);
    CHECK(whole_file(cli.path(jobs + ".csv")) == expected);
  }
  Arguments merge{"sweep", "-o", "merged.sqlite", "--merge"};
  for (const std::string shard : {"1/3", "2/3", "3/3"}) {
    const std::string database = "shard" + shard.substr(0, 1) + ".sqlite";
    CHECK(cli.run(sweep(file, database, {"--shard", shard})).code == 0);
    merge.push_back(database);
  }
  const std::string note = cli.run({"query", "shard1.sqlite", "best"}).out;
  CHECK(note.find(" of the 972 cases of grid") != std::string::npos);
  const Ran merged = cli.run(merge);
  CHECK(merged.out == "grid: 972 of the 972 cases are in merged.sqlite\n");
  CHECK(dump(cli, "merged.sqlite") == expected);
}

TEST_CASE("An interrupt ends a sweep with what is finished and says how to go on") {
  const Cli cli;
  const std::string file =
      cli.write("all.yaml", "include: " + (configs() / "sweeps/parm_table3_b.yaml").string() + "\n");
  const pid_t child = cli.started(sweep(file, "i.sqlite"));
  while (!exists(cli, "i.sqlite-wal")) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const Ran second = cli.run(sweep(file, "i.sqlite", {"--resume"}));
  CHECK(second.code == 2);
  CHECK(second.err == "i.sqlite: is being written by another sweep\n");
  ::kill(child, SIGINT);
  const Ran ran = cli.ended(child);
  CHECK(ran.code == 130);
  const std::size_t there = rows(dump(cli, "i.sqlite"));
  CHECK(there > 0);
  CHECK(ran.err == "interrupted: " + std::to_string(there) +
                       " of 13122 cases are in i.sqlite; the same command with --resume does the others\n");
  CHECK_FALSE(exists(cli, "i.sqlite-wal"));
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

TEST_CASE("Wrong options of sweep and query are refused") {
  const Cli cli;
  const std::string file = part_of_parm_grid(cli);
  const auto error = [&](const Arguments& arguments) {
    const Ran ran = cli.run(arguments);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    return ran.err;
  };
  CHECK(error({"sweep", file, "-o", "x.sqlite", "--shard", "4/3"}) == "--shard: \"4/3\" is not I/N with 1 <= I <= N\n");
  CHECK(error({"sweep", file}).find("--output") != std::string::npos);
  CHECK(error({"sweep", "-o", "x.sqlite"}).find("SWEEP or --merge") != std::string::npos);
  CHECK(error({"sweep", "mixtral_nic", "-o", "x.sqlite"}).find("did you mean \"mixtral_nics\"?") != std::string::npos);
  CHECK(error({"sweep", file, "-o", "no/where.sqlite"})
            .find("no/where.sqlite: cannot be written: No such file or "
                  "directory: no") != std::string::npos);
  CHECK(error({"sweep", file, "-o", ""}).find("--output") != std::string::npos);
  CHECK(error({"query", "none.sqlite", "best"}) == "none.sqlite: cannot be opened or made\n");
  CHECK(error({"sweep", "-o", "x.sqlite", "--merge", "none.sqlite"}) == "none.sqlite: cannot be opened or made\n");
}

TEST_CASE("A damaged database is refused or read, and nothing else") {
  const Cli cli;
  CHECK(cli.run(sweep("capacity_factor", "good.sqlite")).code == 0);
  const std::string good = whole_file(cli.path("good.sqlite"));
  std::mt19937 random(7);  // NOLINT: the same damage every time
  for (int i = 0; i < 30; ++i) {
    std::string bad = good;
    if (i % 3 == 0) bad.resize(random() % bad.size());
    for (int n = 0; n < 1 + i; ++n) {
      if (!bad.empty()) bad[random() % bad.size()] = static_cast<char>(random());
    }
    const std::string file = cli.write("bad.sqlite", bad);
    for (const std::vector<std::string>& query : {std::vector<std::string>{"table", "--csv"},
                                                  {"pivot", "--rows", "f", "--columns", "ep"},
                                                  {"pareto", "--json"}}) {
      const Ran ran = cli.run(with({"query", file}, query), kStrict);
      CAPTURE(i, ran.err);
      CHECK((ran.code == 0 || ran.code == 2));
    }
    const Ran ran = cli.run(sweep("capacity_factor", file, {"--resume"}), kStrict);
    CAPTURE(i, ran.err);
    CHECK((ran.code == 0 || ran.code == 2));
    for (const char* ending : {"-wal", "-shm", "-journal"}) std::filesystem::remove(file + ending);
  }
}

TEST_CASE("Every shipped sweep can be read, and the small ones run") {
  const Cli cli;
  const std::vector<std::pair<std::string, std::string>> sizes{
      {"capacity_factor", "18 cases"},   {"deepseek_v3_degrees", "400 cases of 480 combinations"},
      {"mixtral_bandwidth", "18 cases"}, {"mixtral_degrees", "384 cases"},
      {"mixtral_nics", "25 cases"},      {"parm_table3_a", "4374 cases"},
      {"parm_table3_b", "13122 cases"},  {"placement", "116 cases of 128 combinations"},
      {"schemoe_table4", "1350 cases"},  {"skew", "42 cases"}};
  std::string listed;
  for (const auto& [name, size] : sizes) {
    const Ran ran = cli.run({"sweep", name, "--dry-run"});
    CAPTURE(ran.err);
    CHECK(ran.code == 0);
    CHECK(lines_of(ran.out).front() == name + ": " + size);
  }
  CHECK(lines_of(cli.run({"list", "sweeps"}).out).size() == sizes.size());
  for (const std::string name : {"capacity_factor", "skew"}) {
    CHECK(cli.run(sweep(name, name + ".sqlite")).code == 0);
    const std::string csv = dump(cli, name + ".sqlite");
    CHECK(csv.find("infeasible") == std::string::npos);
    CHECK(csv.find("bad_input") == std::string::npos);
  }
}

}  // namespace moeplan::tests::sweep_test
