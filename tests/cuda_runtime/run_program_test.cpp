// Programs that are run to their end.
#include "cuda_runtime/launch/run_program.hpp"

#include <signal.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <thread>

namespace moeplan::runtime {

namespace {

ProgramEnd shell(const std::string& script, Seconds limit = Seconds(20)) {
  return run_program({"sh", "-c", script}, limit);
}

bool exists(pid_t process) { return ::kill(process, 0) == 0; }

}  // namespace

TEST_CASE("A program's output, errors and exit code are kept apart") {
  const ProgramEnd end = shell("echo out; echo wrong >&2; cat; exit 3");  // cat: standard input is empty
  CHECK(end.out == "out\n");
  CHECK(end.err == "wrong\n");
  CHECK(end.code == 3);
  CHECK_FALSE((end.is_late || end.is_interrupted));
}

TEST_CASE("Arguments reach a program as they are") {
  CHECK(run_program({"printf", "%s|", "a b", "$HOME", "'", "*"}, Seconds(20)).out == "a b|$HOME|'|*|");
}

TEST_CASE("A program that does not exist has the exit code of shells") {
  const ProgramEnd end = run_program({"/no/such/program"}, Seconds(20));
  CHECK(end.code == 127);
  CHECK(end.err == "/no/such/program: No such file or directory\n");
}

TEST_CASE("Much output does not block a program, and 1 MiB of it is kept") {
  const ProgramEnd end = shell("head -c 3000000 /dev/zero | tr '\\0' x; echo done >&2");
  CHECK(end.code == 0);
  CHECK(end.err == "done\n");
  CHECK(end.out.size() >= std::size_t{1} << 20);
  CHECK(end.out.size() < 2'000'000);
}

TEST_CASE("A signal's number is in the code") { CHECK(shell("kill -9 $$").code == 128 + SIGKILL); }

TEST_CASE("A program is ended at its limit, with what it started", "[slow][alone]") {
  const auto begin = std::chrono::steady_clock::now();
  const ProgramEnd end = shell("sleep 60 & echo $!; wait", Seconds(0.3));
  CHECK(end.is_late);
  CHECK(end.code == 128 + SIGTERM);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(10));
  const auto started = static_cast<pid_t>(std::stol(end.out));
  for (int i = 0; i < 100 && exists(started); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(exists(started));
}

TEST_CASE("A program that ignores SIGTERM is killed", "[slow][alone]") {
  const ProgramEnd end = shell("trap '' TERM; while :; do sleep 0.1; done", Seconds(0.3));
  CHECK(end.is_late);
  CHECK(end.code == 128 + SIGKILL);
}

TEST_CASE("What a program leaves running does not outlive it") {
  const ProgramEnd end = shell("sleep 60 & echo $!");
  CHECK(end.code == 0);
  const auto left = static_cast<pid_t>(std::stol(end.out));
  for (int i = 0; i < 100 && exists(left); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  CHECK_FALSE(exists(left));
}

TEST_CASE("An interrupt ends the program", "[slow][alone]") {
  const pid_t parent = ::getpid();
  const ProgramEnd end = shell("kill -INT " + std::to_string(parent) + "; sleep 60");
  CHECK(end.is_interrupted);
  CHECK_FALSE(end.is_late);
  CHECK(end.code == 128 + SIGTERM);
}

}  // namespace moeplan::runtime
