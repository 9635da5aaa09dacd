// What the system refuses to a command (room for its output, memory, threads, a folder) is said, and nothing aborts.
#include <set>

#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/host_ranks.hpp"

namespace moeplan::tests::system_refusals_test {

namespace {

const std::vector<std::string> kSmall{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                      "--world", "8"};
constexpr rlim_t kMiB = rlim_t{1} << 20;

#ifdef __SANITIZE_ADDRESS__
constexpr bool kIsSanitized = true;  // and memory is not limited then
#else
constexpr bool kIsSanitized = false;
#endif

/// Runs a shell's command in the test's folder; `$M` is the executable. -1 if a signal ended it.
int shell(const Cli& cli, const std::string& command) {
  const std::string line = "cd " + cli.dir().path().string() + " && export MOEPLAN_CONFIGS=" + configs().string() +
                           " M=" MOEPLAN_EXECUTABLE "; " + command;
  const int status = std::system(line.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::set<std::string> subcommands(const Cli& cli) {
  const std::string help = cli.run({"--help"}).out;
  std::set<std::string> names;
  for (const std::string& line : lines_of(help.substr(help.find("Subcommands:\n")))) {
    if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
      names.insert(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

}  // namespace

TEST_CASE("An output that is full or closed ends every command with 2") {
  const Cli cli;
  REQUIRE(cli.run(with(kSmall, {"-o", "p.yaml", "--budget", "1"})).code == 0);
  SECTION("standard output") {
    std::vector<std::string> all{"--version",
                                 "list models",
                                 "plan --cluster dgx_h100 --model schemoe_gpt2_tiny_moe --world 8 --json --quiet",
                                 "price gemm --gpu h100_sxm --m 4096 --n 4096 --k 4096",
                                 "simulate p.yaml",
                                 "explain p.yaml",
                                 "compare p.yaml p.yaml",
                                 "reproduce parm",
                                 "export p.yaml --to megatron",
                                 "collective --cluster dgx_h100 --op all_reduce"};
    const std::set<std::string> names = subcommands(cli);
    CHECK(names.size() > 20);
    for (const std::string& name : names) all.push_back(name + " --help");
    for (const std::string& command : all) {
      CAPTURE(command);
      CHECK(shell(cli, "$M " + command + " > /dev/full 2> err") == 2);
      CHECK_THAT(whole_file(cli.path("err")), Catch::Contains("cannot be written") || Catch::Contains("cannot write"));
    }
    CHECK(shell(cli, "$M list models >&- 2> err") == 2);
    CHECK(whole_file(cli.path("err")) == "standard output cannot be written: Bad file descriptor\n");
  }
  SECTION("standard error, where nothing more can be said") {
    CHECK(shell(cli, "$M plan --cluster dgx_h10 --model mixtral_8x7b 2> /dev/full") == 2);
    CHECK(shell(cli, "$M plan --cluster dgx_h10 --model mixtral_8x7b 2>&-") == 2);
    CHECK(shell(cli, "$M simulate p.yaml > /dev/full 2>&1") == 2);
  }
}

TEST_CASE("An output that cannot be written ends a command before its search") {
  // Nothing is feasible here, which only a search finds out: exit code 3.
  const std::vector<std::string> hopeless{"plan", "--cluster", "dgx_h100", "--model", "deepseek_v3", "--world", "8"};
  const Cli cli;
  for (const auto& [option, file] :
       {std::pair{"-o", "none/p.yaml"}, std::pair{"-o", "."}, std::pair{"--trace", "none/t.json"}}) {
    CAPTURE(option, file);
    const Ran ran = cli.run(with(hopeless, {option, file}));
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, Catch::StartsWith(std::string(file) + ": cannot be written: "));
  }
}

TEST_CASE("Too little memory is said, whatever needs it first") {
  const Cli cli;
  int refused = 0;
  for (rlim_t memory = 14 * kMiB; memory < 48 * kMiB; memory += 5 * kMiB) {
    const Ran ran = cli.run({"reproduce", "parm"}, {.memory_bytes = memory});
    CAPTURE(memory, ran.code, ran.err);
    const bool is_loaders = ran.code == 127 && ran.err.find("loading shared libraries") != std::string::npos;
    CHECK((ran.code == 0 || is_loaders || (ran.code == 2 && ran.err.find("not enough memory") != std::string::npos)));
    if (ran.code == 2) ++refused;
  }
  CHECK((refused > 0 || kIsSanitized));
}

TEST_CASE("Where there is no room for the stacks of many threads, fewer do the work") {
  const Cli cli;
  const std::string file = cli.dir()
                               .write("s.yaml", R"(kind: layer
name: small
base: {cluster: loopback, model: host_moe, workload: host, world: 4}
axes:
  sequence: {key: workload.sequence_length, values: [64, 128, 256]}
outputs: [makespan_s]
)")
                               .string();
  REQUIRE(cli.run(with(kSmall, {"-o", "p.yaml", "--budget", "1"})).code == 0);
  for (const rlim_t memory : {150 * kMiB, 200 * kMiB, 400 * kMiB}) {
    CAPTURE(memory);
    CHECK(cli.run(with(kSmall, {"--threads", "64", "--quiet"}), {.memory_bytes = memory}).code == 0);
    CHECK(cli.run({"sweep", file, "--jobs", "64", "-o", "s.sqlite", "--quiet"}, {.memory_bytes = memory}).code == 0);
    CHECK(cli.run({"explain", "p.yaml", "--quiet"}, {.memory_bytes = memory}).code == 0);
    std::filesystem::remove(cli.path("s.sqlite"));
  }
}

TEST_CASE("Folders and files that are not there are said") {
  Cli cli;
  SECTION("an empty name of a trace") {
    const Ran ran = cli.run(with(kSmall, {"-C", "workload.routing={trace: ''}"}));
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, Catch::Contains("routing.trace: is empty; expected a file"));
  }
  SECTION("a working directory that was deleted") {
    CHECK(shell(cli,
                "mkdir gone && cd gone && rmdir ../gone && $M plan --cluster dgx_h100 --model "
                "schemoe_gpt2_tiny_moe --world 2 -C 'workload.routing={trace: x.csv}' 2> ../err") == 2);
    CHECK(whole_file(cli.path("err")) == "x.csv: no such file\n");
  }
  SECTION("no folder for temporary files") {
    if (!has_host_ranks()) return;
    REQUIRE(cli.run(host_plan("2")).code == 0);
    cli.environment["TMPDIR"] = "/nonexistent";
    const Ran ran = cli.run({"validate", "p.yaml", "--backend", "host", "--iterations", "1"});
    CHECK(ran.code == 2);
    CHECK_THAT(ran.err, Catch::StartsWith("TMPDIR: is no directory for temporary files: No such file"));
  }
}

}  // namespace moeplan::tests::system_refusals_test
