// Pages for people: their commands run, and print what the pages show.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/cli/support/cli_json.hpp"
#include "tests/support/golden.hpp"

namespace moeplan::tests::tutorial_test {

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

using Lines = std::vector<std::string>;

/// Whether the line is "...", or "... and what is left out", which matches any number of printed lines.
bool leaves_out(const std::string& line) { return line.rfind("...", 0) == 0; }

/// Whether a page may show `printed` so: its parts between lines that leave out others come in this order.
bool shows(const Lines& shown, const Lines& printed) {
  auto from = printed.begin();
  for (auto part = shown.begin();;) {
    const auto end = std::find_if(part, shown.end(), leaves_out);
    const bool is_first = part == shown.begin(), is_last = end == shown.end();
    auto at = is_first ? from : std::search(from, printed.end(), part, end);
    if (is_last && !is_first) {
      if (printed.end() - from < end - part) return false;
      at = printed.end() - (end - part);
    }
    if (printed.end() - at < end - part || !std::equal(part, end, at)) return false;
    from = at + (end - part);
    if (is_last) return from == printed.end();
    part = end + 1;
  }
}

/// What a page should show: what it does where that is right, else all, but for one gap of as many lines before and
/// after it.
Lines as_shown(const Lines& shown, const Lines& printed) {
  if (shows(shown, printed)) return shown;
  const auto gap = std::find_if(shown.begin(), shown.end(), leaves_out);
  if (std::count_if(shown.begin(), shown.end(), leaves_out) != 1 || std::ssize(printed) < std::ssize(shown)) {
    return printed;
  }
  Lines out(printed.begin(), printed.begin() + (gap - shown.begin()));
  out.push_back(*gap);
  out.insert(out.end(), printed.end() - (shown.end() - gap - 1), printed.end());
  return out;
}

/// The page with today's output behind every command. A command that ends with a backslash goes on in the next line.
std::string with_output(const Cli& cli, const std::string& page) {
  const Lines lines = lines_of(page);
  const auto is_command = [&](std::size_t i) { return lines[i].rfind(kPrompt, 0) == 0; };
  std::string out;
  for (std::size_t i = 0; i < lines.size();) {
    if (!is_command(i)) {
      out += lines[i++] + '\n';
      continue;
    }
    std::string command = lines[i].substr(kPrompt.size());
    out += lines[i++] + '\n';
    for (; command.back() == '\\' && i < lines.size(); ++i) {
      command = command.substr(0, command.size() - 1) + lines[i].substr(lines[i].find_first_not_of(' '));
      out += lines[i] + '\n';
    }
    Lines shown;
    for (; i < lines.size() && !is_command(i) && (lines[i].empty() || lines[i].rfind("    ", 0) == 0); ++i) {
      shown.push_back(lines[i].empty() ? "" : lines[i].substr(4));
    }
    const Ran ran = cli.run(words(command));
    CAPTURE(command, ran.err);
    CHECK(ran.code == 0);
    while (!shown.empty() && shown.back().empty()) shown.pop_back();
    for (const std::string& line : as_shown(shown, lines_of(ran.out)))
      out += line.empty() ? "\n" : "    " + line + '\n';
    if (i < lines.size()) out += '\n';
  }
  return out;
}

}  // namespace

TEST_CASE("Pages show what their commands print") {
  const auto page =
      GENERATE(as<std::string>{}, "README.md", "docs/explain.md", "docs/sweeps.md", "docs/beat_my_megatron_run.md",
               "docs/balance_my_experts.md", "docs/size_my_cluster.md", "docs/is_my_fabric_right.md");
  CAPTURE(page);
  const Cli cli;
  std::filesystem::copy(std::filesystem::path(MOEPLAN_SOURCE_DIR) / "docs/examples", cli.dir().path());
  check_golden(page, with_output(cli, whole_file(std::filesystem::path(MOEPLAN_SOURCE_DIR) / page)),
               MOEPLAN_SOURCE_DIR);
}

TEST_CASE("README shows no command that is not there") {
  const std::string help = Cli().run({"--help"}).out;
  int shown = 0;
  for (const std::string& line : lines_of(whole_file(MOEPLAN_SOURCE_DIR "/README.md"))) {
    const bool is_indented = line.rfind("    ", 0) == 0;
    const std::size_t at = line.find("moeplan ");
    if (!is_indented || (at != 4 && line.rfind(kPrompt, 0) != 0)) continue;
    ++shown;
    const std::string command = words(line.substr(at)).at(1);
    CAPTURE(command);
    CHECK_THAT(help, Catch::Contains("\n  " + command + " "));
  }
  CHECK(shown > 5);
}

TEST_CASE("A page may leave out lines of what a command prints") {
  const Lines printed{"a", "b", "c", "d", "e"};
  SECTION("all, the end, the beginning, or what lies between its parts") {
    for (const Lines& shown : std::vector<Lines>{
             printed, {"..."}, {"a", "b", "... and more"}, {"...", "e"}, {"a", "...", "c", "...", "e"}}) {
      CHECK(as_shown(shown, printed) == shown);
    }
  }
  SECTION("but what it shows must be printed, in this order and up to the end") {
    for (const Lines& shown : std::vector<Lines>{
             {"a", "b"}, {"a", "c", "..."}, {"a", "...", "d"}, {"...", "f"}, {"...", "c", "...", "b", "..."}}) {
      CHECK_FALSE(shows(shown, printed));
    }
  }
  SECTION("a new output is cut as the old one was") {
    CHECK(as_shown({"x", "y", "... and more", "z"}, printed) == Lines{"a", "b", "... and more", "e"});
    CHECK(as_shown({"x", "y"}, printed) == printed);
  }
}

TEST_CASE("The tutorial of sweeps shows the sweep's file, but for its comment") {
  std::string indented;
  for (const std::string& line : lines_of(whole_file(configs() / "sweeps/mixtral_nics.yaml"))) {
    if (line.rfind("# ", 0) != 0) indented += "    " + line + '\n';
  }
  CHECK(whole_file(MOEPLAN_SOURCE_DIR "/docs/sweeps.md").find(indented) != std::string::npos);
}

}  // namespace moeplan::tests::tutorial_test
