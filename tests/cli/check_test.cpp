// moeplan check, as users run it: on CPU ranks, left out where MPI is missing.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "cli/pages/check_report.hpp"
#include "tests/cli/support/host_ranks.hpp"
#include "tests/cli/support/run_cli.hpp"

namespace moeplan::tests::check_test {

using namespace moeplan::cli;

TEST_CASE("One command profiles a machine, executes a suite and says whether predictions hold", "[alone]") {
  if (!has_host_ranks()) {
    WARN("skipped: built without MPI");
    return;
  }
  const Cli cli;
  const Ran ran = cli.run({"check", "--backend", "host", "--ranks", "2", "--budget", "3s", "-o", "out"});
  CAPTURE(ran.err, ran.out);
  CHECK(ran.err.find("mpirun") != std::string::npos);
  CHECK(ran.out.find("2 ranks, host back end") != std::string::npos);
  CHECK(ran.out.find("rank correlation") != std::string::npos);
  CHECK(ran.out.find("0 failed; values right") != std::string::npos);
  CHECK(whole_file(cli.path("out/page.txt")) == ran.out);
  CHECK(std::filesystem::exists(cli.path("out/profile.yaml")));
  // Ranks share loaded cores here: predictions need not hold, but the exit code says so.
  const bool holds = ran.out.find("times and the choice of a schedule can be trusted") != std::string::npos;
  CHECK(ran.code == (holds ? 0 : 1));
}

TEST_CASE("check is refused where ranks were started already", "[alone]") {
  const Cli cli;
  ::setenv("OMPI_COMM_WORLD_RANK", "0", 1);
  ::setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  const Ran ran = cli.run({"check", "--backend", "host"}, kStrict);
  ::unsetenv("OMPI_COMM_WORLD_RANK");
  ::unsetenv("OMPI_COMM_WORLD_SIZE");
  CHECK(ran.code == 2);
  CHECK(ran.err.find("check: starts its ranks itself: run it without srun, torchrun or mpirun") != std::string::npos);
}

TEST_CASE("check on parts of a GPU needs a GPU") {
  const Ran ran = Cli().run({"check", "--backend", "host", "--gpu-parts", "50GB/s"}, kStrict);
  CHECK(ran.code == 2);
  CHECK(ran.err.find("--gpu-parts: is of --backend nccl") != std::string::npos);
}

TEST_CASE("Predictions hold where values, times, order and choice do") {
  const SuiteStatistics good{.executed = 9, .mape = 0.1, .correlation = 0.9, .regret = 0.01};
  CHECK(check_result(good).holds());
  SuiteStatistics s = good;
  SECTION("not with a failed case") { s.failed = 1; }
  SECTION("not with wrong values") { s.are_right = false; }
  SECTION("not with times off by more than 15%") { s.mape = 0.16; }
  SECTION("not with another order") { s.correlation = 0.7; }
  SECTION("not where there is no order, since all times are equal") { s.correlation = {}; }
  SECTION("not where the predicted best takes 4% longer than the best") { s.regret = 0.04; }
  SECTION("not without a case") { s.executed = 0; }
  CHECK_FALSE(check_result(s).holds());
}

}  // namespace moeplan::tests::check_test
