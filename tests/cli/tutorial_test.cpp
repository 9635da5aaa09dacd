// docs/sweeps.md: its commands run, and print what it shows.
#include <catch2/catch.hpp>

#include "tests/cli/cli_json.hpp"
#include "tests/support/golden.hpp"

using namespace moeplan::tests;

namespace {

constexpr std::string_view kPrompt = "    $ moeplan ";

/// Words of a command line, those in double quotes as one.
std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> out{""};
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

/// The page with today's output behind every command.
std::string with_output(const Cli& cli, const std::string& page) {
  std::string out;
  bool in_output = false;
  for (const std::string& line : lines_of(page)) {
    const bool is_command = line.rfind(kPrompt, 0) == 0;
    if (in_output && !is_command && (line.empty() || line.rfind("    ", 0) == 0)) continue;
    if (in_output) out += '\n';
    in_output = is_command;
    out += line + '\n';
    if (!is_command) continue;
    const Ran ran = cli.run(words(line.substr(kPrompt.size())));
    CAPTURE(line, ran.err);
    CHECK(ran.code == 0);
    for (const std::string& printed : lines_of(ran.out)) out += printed.empty() ? "\n" : "    " + printed + '\n';
  }
  return out;
}

}  // namespace

TEST_CASE("The tutorial of sweeps shows what its commands print") {
  const Cli cli;
  const std::filesystem::path docs = MOEPLAN_SOURCE_DIR "/docs";
  check_golden("sweeps.md", with_output(cli, whole_file(docs / "sweeps.md")), docs);
  SECTION("and the sweep's file, but for its comment") {
    std::string indented;
    for (const std::string& line : lines_of(whole_file(configs() / "sweeps/mixtral_nics.yaml"))) {
      if (line.rfind("# ", 0) != 0) indented += "    " + line + '\n';
    }
    CHECK(whole_file(docs / "sweeps.md").find(indented) != std::string::npos);
  }
}
