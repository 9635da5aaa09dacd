// The exit codes of `moeplan` and its commands, and what they say on standard error.
#include <set>

#include "tests/cli/support/cli_json.hpp"

namespace moeplan::tests::exit_code_test {

namespace {

const std::vector<std::string> kSmall{"plan",    "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe",
                                      "--world", "8"};

#ifdef __SANITIZE_ADDRESS__
constexpr bool kIsSanitized = true;  // and memory is not limited then
#else
constexpr bool kIsSanitized = false;
#endif

}  // namespace

TEST_CASE("The exit code says how it went") {
  const Cli cli;
  SECTION("0: done") {
    CHECK(cli.run(kSmall).code == 0);
    CHECK(cli.run({"--help"}).code == 0);
    CHECK(cli.run({"--version"}).code == 0);
    CHECK(cli.run({"list", "clusters"}).code == 0);
  }
  SECTION("2: bad input, with nothing on standard output") {
    for (const std::vector<std::string>& bad :
         std::vector<std::vector<std::string>>{{},
                                               {"plann"},
                                               {"plan"},
                                               {"list", "nothing"},
                                               {"simulate", "none.yaml"},
                                               with(kSmall, {"--nonsense"}),
                                               with(kSmall, {"--world", "-1"}),
                                               with(kSmall, {"--world", "0"}),
                                               with(kSmall, {"--world", "1048577"}),
                                               with(kSmall, {"--world", "8.5"}),
                                               with(kSmall, {"--top", "0"}),
                                               with(kSmall, {"--tp", "3"}),
                                               with(kSmall, {"--pp", "3"}),
                                               with(kSmall, {"--cluster", "no_such"})}) {
      CAPTURE(bad);
      const Ran ran = cli.run(bad);
      CHECK(ran.code == 2);
      CHECK(ran.out.empty());
      CHECK_FALSE(ran.err.empty());
    }
  }
  SECTION("2: an output that cannot be written, and nothing half-written stays") {
    for (const char* option : {"-o", "--trace"}) {
      const std::size_t files = cli.dir().files();
      const Ran ran = cli.run(with(kSmall, {option, "no/such/directory/file"}));
      CHECK(ran.code == 2);
      CHECK(ran.out.empty());
      CHECK_THAT(ran.err, Catch::StartsWith("no/such/directory/file: cannot be written: No such file or directory"));
      CHECK(cli.dir().files() <= files + 2);  // what the test itself keeps of stdout and stderr
    }
  }
  SECTION("2: standard output that is full, whether little or much is printed") {
    for (const char* command : {"list models", "list --help", "--version",
                                "plan --cluster dgx_h100 --model schemoe_gpt2_tiny_moe --world 8 --json --quiet",
                                "price gemm --gpu h100_sxm --m 4096 --n 4096 --k 4096"}) {
      CAPTURE(command);
      const std::string shell = std::string(MOEPLAN_EXECUTABLE) + " " + command + " > /dev/full 2> " + cli.path("err");
      const int status = std::system(shell.c_str());
      CHECK(WIFEXITED(status));
      CHECK(WEXITSTATUS(status) == 2);
      CHECK_THAT(whole_file(cli.path("err")), Catch::Contains("cannot be written") || Catch::Contains("cannot write"));
    }
  }
  SECTION("2: standard output that is full, for every subcommand") {
    const std::string help = cli.run({"--help"}).out;
    std::set<std::string> names;
    for (const std::string& line : lines_of(help.substr(help.find("Subcommands:\n")))) {
      if (line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
        names.insert(line.substr(2, line.find(' ', 2) - 2));
    }
    CHECK(names.size() > 20);
    REQUIRE(cli.run(with(kSmall, {"-o", "p.yaml", "--budget", "1"})).code == 0);
    std::vector<std::string> all{"simulate p.yaml",
                                 "explain p.yaml",
                                 "compare p.yaml p.yaml",
                                 "reproduce parm",
                                 "export p.yaml --to megatron",
                                 "collective --cluster dgx_h100 --op all_reduce"};
    for (const std::string& name : names) all.push_back(name + " --help");
    for (const std::string& command : all) {
      CAPTURE(command);
      const std::string shell = "cd " + cli.dir().path().string() + " && " MOEPLAN_EXECUTABLE " " + command +
                                " > /dev/full 2> " + cli.path("err");
      const int status = std::system(shell.c_str());
      CHECK(WEXITSTATUS(status) == 2);
      CHECK_THAT(whole_file(cli.path("err")), Catch::Contains("cannot be written") || Catch::Contains("cannot write"));
    }
  }
  SECTION("2: too little memory for the input, which is said whatever needs it first") {
    rlim_t least = rlim_t{16} << 20;  // that the program starts with
    while (cli.run({"--version"}, {.memory_bytes = least}).code != 0) least += rlim_t{2} << 20;
    int refused = 0;
    for (rlim_t memory = least; memory < least + (rlim_t{20} << 20); memory += rlim_t{2} << 20) {
      const Ran ran = cli.run({"reproduce", "parm"}, {.memory_bytes = memory});
      CAPTURE(memory, ran.err);
      CHECK((ran.code == 0 || ran.code == 2));
      if (ran.code == 0) continue;
      ++refused;
      CHECK_THAT(ran.err, Catch::Contains("not enough memory"));
    }
    CHECK((refused > 0 || kIsSanitized));
  }
  SECTION("2: what the system refuses is said, and nothing aborts") {
    const Ran empty = cli.run(with(kSmall, {"-C", "workload.routing={trace: ''}"}));
    CHECK(empty.code == 2);
    CHECK_THAT(empty.err, Catch::Contains("routing.trace: is empty; expected a file"));
    // An address space in which no further thread has room for its stack: fewer threads do the work.
    CHECK(cli.run(with(kSmall, {"--threads", "64", "--quiet"}), {.memory_bytes = rlim_t{400} << 20}).code == 0);
  }
  SECTION("3: nothing feasible, with what lacks how much") {
    const std::vector<std::string> deepseek{"plan", "--cluster", "dgx_h100", "--model", "deepseek_v3", "--world", "8"};
    const Ran page = cli.run(deepseek);
    CHECK(page.code == 3);
    CHECK_THAT(page.err, Catch::Contains("no feasible plan among") && Catch::Contains("memory") &&
                             Catch::Contains("lacks ") && Catch::Contains(" GiB a GPU"));
    const Ran ran = cli.run(with(deepseek, {"--json"}));
    CHECK(ran.code == 3);
    const Json j = Json::parse(ran.out);
    CHECK(j.at("best").is_null());
    CHECK(j.at("rejected").at("memory").get<int>() > 0);
    const Json& miss = j.at("nearest_miss");
    const Json& parts = miss.at("memory_parts_bytes");
    CHECK(miss.at("lacking_bytes").get<double>() == Approx(parts.at("total").get<double>() - 80e9));  // of an H100
    CHECK(parts.at("total").get<double>() ==
          Approx(parts.at("weights").get<double>() + parts.at("gradients").get<double>() +
                 parts.at("optimizer").get<double>() + parts.at("activations").get<double>() +
                 parts.at("working").get<double>() + parts.at("runtime").get<double>()));
  }
  SECTION("3 too where a number of GPUs divides nothing") {
    const Ran ran = cli.run({"plan", "--cluster", "dgx_h100", "--model", "mixtral_8x7b", "--world", "7", "-C",
                             "workload.global_batch=256"});
    CHECK(ran.code == 3);
    CHECK_THAT(ran.err, Catch::Contains("dp does not divide the global batch"));
  }
}

}  // namespace moeplan::tests::exit_code_test
