// Sweeps as users run them: killed, interrupted, on a full disk, on several threads and machines.
#include <sys/mount.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/json_schema.hpp"

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

/// Bytes of the log that a sweep commits to; 0 without one.
std::uintmax_t log_size(const Cli& cli) {
  std::error_code none;
  const std::uintmax_t size = std::filesystem::file_size(cli.path("killed.sqlite-wal"), none);
  return none ? 0 : size;
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
    // At any moment of the beginning, or as soon as something more is committed, however slow the machine is.
    if (i % 2 == 0) std::this_thread::sleep_for(drawn(random) / 10 * whole);
    const auto limit = std::chrono::steady_clock::now() + 5 * whole;
    const std::uintmax_t size = log_size(cli);
    while (i % 2 == 1 && log_size(cli) == size && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
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
  CHECK(error({"query", "none.sqlite", "best"}) ==
        "none.sqlite: cannot be opened or made: No such file or directory\n");
  CHECK(error({"sweep", "-o", "x.sqlite", "--merge", "none.sqlite"}) ==
        "none.sqlite: cannot be opened or made: No such file or directory\n");
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
  const std::vector<std::pair<std::string, std::string>> sizes{{"capacity_factor", "18 cases"},
                                                               {"deepseek_v3_degrees", "400 cases of 480 combinations"},
                                                               {"fastermoe_figure10_johnny", "20 cases"},
                                                               {"fastermoe_figure10_trevor", "4 cases"},
                                                               {"fastermoe_figure12", "24 cases"},
                                                               {"fastermoe_figure13_johnny", "270 cases"},
                                                               {"fastermoe_figure13_trevor", "204 cases"},
                                                               {"fastermoe_table3", "4 cases"},
                                                               {"mixtral_bandwidth", "18 cases"},
                                                               {"mixtral_degrees", "384 cases"},
                                                               {"mixtral_nics", "25 cases"},
                                                               {"dispatchers", "6 cases"},
                                                               {"parm_table3_a", "4374 cases"},
                                                               {"parm_table3_b", "13122 cases"},
                                                               {"parm_table4", "12960 cases of 15552 combinations"},
                                                               {"parm_table5", "6 cases"},
                                                               {"placement", "116 cases of 128 combinations"},
                                                               {"proprophet_figures", "60 cases"},
                                                               {"proprophet_table4", "20 cases"},
                                                               {"proprophet_table5", "16 cases"},
                                                               {"schemoe_figure8", "1350 cases"},
                                                               {"schemoe_figure9", "12 cases"},
                                                               {"schemoe_table1", "2 cases"},
                                                               {"schemoe_table10", "4 cases"},
                                                               {"schemoe_table4", "1350 cases"},
                                                               {"schemoe_table7", "6 cases"},
                                                               {"schemoe_table8", "2 cases"},
                                                               {"skew", "42 cases"},
                                                               {"tutel_figure12", "104 cases"},
                                                               {"tutel_figure13", "80 cases"},
                                                               {"tutel_figure14", "36 cases"},
                                                               {"tutel_table2", "3 cases"},
                                                               {"tutel_table5", "2 cases"},
                                                               {"tutel_table6", "1944 cases"}};
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
