// Colours: on a terminal only, and nothing but escape codes is added.
#include "cli/pages/text/colour.hpp"

#include <fcntl.h>
#include <poll.h>

#include <catch2/catch.hpp>

#include "cli/pages/text/wrapping.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::colour_test {

using namespace moeplan::cli;

namespace {

/// What `moeplan` prints on a terminal.
std::string on_terminal(const std::vector<std::string>& arguments, const char* no_color) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const std::string name = ::ptsname(terminal);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const int side = ::open(name.c_str(), O_RDWR | O_NOCTTY);
    ::dup2(side, STDOUT_FILENO);
    ::setenv("TERM", "xterm", 1);
    ::setenv("NO_COLOR", no_color, 1);
    std::vector<char*> argv{const_cast<char*>(MOEPLAN_EXECUTABLE)};
    for (const std::string& a : arguments) argv.push_back(const_cast<char*>(a.c_str()));
    argv.push_back(nullptr);
    ::execv(MOEPLAN_EXECUTABLE, argv.data());
    ::_exit(127);
  }
  std::string out;
  char buffer[4096];
  int status = 0;
  for (bool has_ended = false;;) {
    pollfd ready{terminal, POLLIN, 0};
    const bool has_text = ::poll(&ready, 1, 100) > 0 && (ready.revents & POLLIN) != 0;
    const ssize_t n = has_text ? ::read(terminal, buffer, sizeof buffer) : 0;
    if (n > 0) out.append(buffer, static_cast<std::size_t>(n));
    if (n <= 0 && has_ended) break;
    has_ended = has_ended || ::waitpid(child, &status, WNOHANG) == child;
  }
  ::close(terminal);
  CHECK(WEXITSTATUS(status) == 0);
  return out;
}

/// The text without escape codes and the carriage returns of a terminal.
std::string plain(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033')
      i = text.find('m', i);
    else if (text[i] != '\r')
      out += text[i];
  }
  return out;
}

}  // namespace

TEST_CASE("Labels are bold and failures red; the text stays the same") {
  const std::string page = "a title\n" + labelled("this schedule", "cannot take less") + "  12  a table   row\n" +
                           labelled("values", "3 cases, values WRONG") + "no feasible plan among 3";
  const std::string shown = coloured(page);
  CHECK(plain(shown) == page);
  CHECK_THAT(shown, Catch::Contains("  \033[1mthis schedule\033[0m  cannot") &&
                        Catch::Contains("\033[31mWRONG\033[0m") &&
                        Catch::Contains("\033[31mno feasible plan\033[0m among"));
  CHECK_THAT(shown, Catch::Contains("\n  12  a table   row\n"));
}

TEST_CASE("A page has colours on a terminal unless NO_COLOR is set, and none elsewhere") {
  const Cli cli;
  const std::string plan = cli.path("plan.yaml");
  const Ran planned =
      cli.run({"plan", "--cluster", "dgx_h100", "--model", "schemoe_gpt2_tiny_moe", "--world", "8", "-o", plan});
  REQUIRE(planned.code == 0);
  CHECK(planned.out.find('\033') == std::string::npos);
  const std::string page = cli.run({"simulate", plan}).out;
  CHECK(page.find('\033') == std::string::npos);
  CHECK_THAT(on_terminal({"simulate", plan}, ""), Catch::Contains("\033[1mspeed\033[0m"));
  CHECK(plain(on_terminal({"simulate", plan}, "")) == page);
  const std::string without = on_terminal({"simulate", plan}, "1");
  CHECK(without.find('\033') == std::string::npos);
  CHECK(on_terminal({"simulate", plan, "--json"}, "").find('\033') == std::string::npos);
}

}  // namespace moeplan::tests::colour_test
