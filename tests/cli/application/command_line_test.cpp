// The command line itself: what is said about arguments that cannot be read, --version, and list --json.
#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/gpu.hpp"
#include "tests/cli/support/json_schema.hpp"

namespace moeplan::tests::command_line_test {

TEST_CASE("Arguments that cannot be read are named, each with the nearest name that is known") {
  const Cli cli;
  const auto said = [&](const std::vector<std::string>& arguments) {
    const Ran ran = cli.run(arguments);
    CHECK(ran.code == 2);
    CHECK(ran.out.empty());
    return ran.err;
  };
  SECTION("a command") {
    CHECK(said({"plna", "--cluster", "dgx_h100"}) ==
          "plna: is no command of moeplan; did you mean \"plan\"?\nSee moeplan --help.\n");
    CHECK(said({"import", "megatorn", "run.sh"}) ==
          "megatorn: is no command of moeplan import; did you mean \"megatron\"?\nSee moeplan import --help.\n");
  }
  SECTION("an option, also where another one is missing because of it") {
    CHECK(said({"plan", "--clutser", "dgx_h100", "--model", "mixtral_8x7b"}) ==
          "--clutser: moeplan plan has no such option; did you mean \"--cluster\"?\n--cluster is required\n"
          "See moeplan plan --help.\n");
    CHECK(said({"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--wrold=8", "--shedule", "baseline"}) ==
          "--wrold: moeplan plan has no such option; did you mean \"--world\"?\n"
          "--shedule: moeplan plan has no such option; did you mean \"--schedule\"?\nSee moeplan plan --help.\n");
  }
  SECTION("a value") {
    const std::vector<std::string> plan{"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b"};
    CHECK(said(with(plan, {"--world", "abc"})) ==
          "--world: \"abc\" is not a number from 1 to 1048576\nSee moeplan plan --help.\n");
    CHECK(said({"simulate", "p.yaml", "--inputs", "dsik"}) ==
          "--inputs: \"dsik\" is not known; did you mean \"disk\"?\nSee moeplan simulate --help.\n");
  }
  SECTION("an argument too many, and none") {
    CHECK(said({"simulate", "a.yaml", "b.yaml"}) ==
          "b.yaml: moeplan simulate takes no such argument\nSee moeplan simulate --help.\n");
    CHECK(said({}) == "A subcommand is required\nSee moeplan --help.\n");
  }
}

TEST_CASE("--version names the version, the commit and the back ends") {
  const Ran ran = Cli().run({"--version"});
  CHECK(ran.code == 0);
  CHECK_THAT(ran.out, Catch::Matches("moeplan [0-9]+\\.[0-9]+\\.[0-9]+\n"
                                     "commit ([0-9a-f]{12}(-modified)?|unknown)\n"
                                     "back ends: host \\(MPI\\) (not )?installed, nccl \\(CUDA, NCCL\\) "
                                     "(not )?installed\n"));
  CHECK((ran.out.find("NCCL) installed") != std::string::npos) == has_gpu_ranks());
}

TEST_CASE("Every help text has 100 columns at most, and shows values as people write them") {
  const Cli cli;
  for (const char* command :
       {"",        "plan",     "size",      "simulate", "explain", "compare", "report", "collective",
        "profile", "validate", "reproduce", "replay",   "check",   "score",   "price",  "list",
        "import",  "export",   "eplb",      "cluster",  "sweep",   "query"}) {
    CAPTURE(command);
    const std::string help =
        cli.run(*command ? std::vector<std::string>{command, "--help"} : std::vector<std::string>{"--help"}).out;
    for (const std::string& line : lines_of(help)) {
      CAPTURE(line);
      CHECK(line.size() <= 100);
    }
    CHECK_THAT(help, !Catch::Contains("INT:INT in") && !Catch::Contains("TEXT:{"));
  }
  const std::string plan = unwrapped(cli.run({"plan", "--help"}).out);
  CHECK_THAT(plan, Catch::Contains("--tp N Only this tensor-parallel size (1 to 1048576)") &&
                       Catch::Contains("--cluster TEXT Name in configs/clusters, or a file (required)"));
}

TEST_CASE("A slip on the command line is answered in plain words, with the nearest name") {
  const Cli cli;
  const std::vector<std::string> plan{"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b"};
  const auto error = [&](const std::vector<std::string>& arguments) {
    const Ran ran = cli.run(arguments);
    CHECK(ran.code == 2);
    return ran.err.substr(0, ran.err.find('\n'));
  };
  CHECK(error({"plna"}) == "plna: is no command of moeplan; did you mean \"plan\"?");
  CHECK(error({"plan", "--clutser", "x", "--model", "y"}) ==
        "--clutser: moeplan plan has no such option; did you mean \"--cluster\"?");
  CHECK(error(with(plan, {"--world", "abc"})) == "--world: \"abc\" is not a number from 1 to 1048576");
  CHECK(error(with(plan, {"--world"})) == "--world: its value is missing");
  CHECK(error(with(plan, {"--top", "1", "--top", "2"})) == "--top: is given 2 times, but can be given only once");
  CHECK(error(with(plan, {"--seed", "-3"})) == "--seed: \"-3\" is not a number from 0 to 1000000000000");
}

TEST_CASE("list --json has the names and descriptions of the page") {
  const Cli cli;
  for (const char* what : {"schedules", "clusters", "collectives"}) {
    CAPTURE(what);
    const Json document = parsed(cli.run({"list", what, "--json"}));
    CHECK(schema_errors(document, "list.json") == std::vector<std::string>{});
    CHECK(document.at("what") == what);
    const std::string page = cli.run({"list", what}).out;
    CHECK(static_cast<std::int64_t>(document.at("entries").size()) == std::count(page.begin(), page.end(), '\n'));
    for (const Json& entry : document.at("entries")) {
      CHECK_THAT(page, Catch::Contains(entry.at("name").get<std::string>()) &&
                           Catch::Contains(entry.at("summary").get<std::string>()));
    }
  }
}

}  // namespace moeplan::tests::command_line_test
