// What becomes of ranks when something breaks: all end within ten seconds, non-zero, and it is said who and where.
// MOEPLAN_FAULT_REPEATS=20 repeats every case so often.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "cuda_runtime/validate/status_board.hpp"
#include "tests/cli/support/cli_json.hpp"
#include "tests/cli/support/host_ranks.hpp"

namespace moeplan::tests::validate_faults_test {

using moeplan::validate::BoardEntry;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostSeconds = 10;  // from the fault to the end of everything

int repeats() {
  const char* text = std::getenv("MOEPLAN_FAULT_REPEATS");
  return text == nullptr ? 1 : std::max(1, std::atoi(text));
}

bool is_alive(std::int64_t process) {
  // A zombie is no orphan: nobody reaps where this runs as a container's only process.
  const std::string stat = whole_file("/proc/" + std::to_string(process) + "/stat");
  const auto name_end = stat.rfind(')');
  return name_end != std::string::npos && stat.substr(name_end + 2, 1) != "Z";
}

/// A validation that goes on for minutes.
class LongRun {
 public:
  LongRun() { REQUIRE(cli_.run(with(host_plan("4"), {"-C", "model.hidden_size=64"})).code == 0); }

  void start(const std::vector<std::string>& more = {}) {
    process_ = cli_.started(
        with({"validate", "p.yaml", "--backend", "host", "--iterations", "1000", "--trace", "t.json", "--json"}, more));
    const auto begin = Clock::now();
    while (!are_all_at_work()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      REQUIRE(Clock::now() - begin < std::chrono::seconds(30));
    }
  }
  [[nodiscard]] pid_t process() const { return process_; }
  /// The folder that it makes for its temporary files.
  [[nodiscard]] std::filesystem::path scratch() const { return scratch_; }
  [[nodiscard]] pid_t rank(std::size_t r) const { return static_cast<pid_t>(ranks_[r].process); }

  /// Waits for the end, and checks that it is one.
  [[nodiscard]] Ran ended() {
    const auto begin = Clock::now();
    Ran ran = cli_.ended(process_);
    // What moeplan itself could not end has its parent's death signal.
    while (any_alive() && Clock::now() - begin < std::chrono::seconds(10)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    CHECK(std::chrono::duration<double>(Clock::now() - begin).count() < kMostSeconds);
    CHECK_FALSE(any_alive());
    CHECK(ran.code != 0);
    CHECK(ran.out == "");
    CHECK_FALSE(std::filesystem::exists(cli_.path("t.json")));
    CAPTURE(ran.err);
    return ran;
  }

 private:
  [[nodiscard]] bool any_alive() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const BoardEntry& e) { return is_alive(e.process); });
  }

  /// The command on standard error ends with the ranks' board.
  bool are_all_at_work() {
    const std::string said = whole_file(cli_.path("stderr"));
    const auto end = said.find("/board\n");
    if (end == std::string::npos) return false;
    const std::string board = said.substr(said.rfind(' ', end) + 1, end + 6 - said.rfind(' ', end) - 1);
    if (!std::filesystem::exists(board)) return false;
    scratch_ = std::filesystem::path(board).parent_path();
    ranks_ = moeplan::validate::read_board(board);
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [](const BoardEntry& e) { return e.process > 0 && e.text.starts_with("moe layer"); });
  }

  Cli cli_;
  pid_t process_ = -1;
  std::vector<BoardEntry> ranks_;
  std::filesystem::path scratch_;
};

}  // namespace

TEST_CASE("Where a rank breaks, all end, and the rank and its operation are named", "[alone]") {
  if (!has_host_ranks()) {
    WARN("skipped: built without MPI");
    return;
  }
  LongRun run;
  for (int i = 0; i < repeats(); ++i) {
    SECTION("a rank dies, " + std::to_string(i)) {
      run.start();
      ::kill(run.rank(2), SIGKILL);
      const Ran ran = run.ended();
      CHECK(ran.code == 1);
      CHECK(ran.err.find("rank 2 (process") != std::string::npos);
      CHECK(ran.err.find("is gone: moe layer") != std::string::npos);
    }
    SECTION("a rank hangs, " + std::to_string(i)) {
      run.start({"--timeout", "2s"});
      ::kill(run.rank(1), SIGSTOP);
      const Ran ran = run.ended();
      CHECK(ran.code == 1);
      CHECK(ran.err.find("others have not come within 2 s") != std::string::npos);
      CHECK(ran.err.find("rank 1: moe layer") != std::string::npos);
    }
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
      SECTION(fmt::format("it is interrupted by signal {}, {}", signal, i)) {
        run.start();
        REQUIRE(std::filesystem::exists(run.scratch()));
        ::kill(run.process(), signal);
        CHECK(run.ended().code == 130);
        CHECK_FALSE(std::filesystem::exists(run.scratch()));
      }
    }
    SECTION("moeplan itself is killed, " + std::to_string(i)) {
      run.start();
      ::kill(run.process(), SIGKILL);
      CHECK(run.ended().code == -SIGKILL);
    }
  }
}

TEST_CASE("Without mpirun it is said what is missing", "[alone]") {
  if (!has_host_ranks()) {
    WARN("skipped: built without MPI");
    return;
  }
  Cli cli;
  REQUIRE(cli.run(host_plan("2")).code == 0);
  cli.environment["PATH"] = "/nonexistent";
  const Ran ran = cli.run({"validate", "p.yaml", "--backend", "host", "--iterations", "1"});
  CHECK(ran.code == 2);
  CHECK_THAT(ran.err, Catch::Contains("--backend: host needs mpirun, which is not on PATH"));
}

}  // namespace moeplan::tests::validate_faults_test
