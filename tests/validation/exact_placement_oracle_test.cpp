// The exact search for the least largest load against HiGHS inside python3-scipy, where that is installed.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>

#include "planner/placement/exact_placement.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::exact_placement_oracle_test {

using namespace moeplan::planner;

TEST_CASE("HiGHS agrees on the least largest load") {
  std::string python;
  for (const std::string one : {"python3", "/usr/bin/python3"}) {  // the first may be another than the distribution's
    if (python.empty() && std::system((one + " -c 'import scipy.optimize' 2>/dev/null").c_str()) == 0) python = one;
  }
  if (python.empty()) {
    WARN("left out: python3 has no scipy");
    return;
  }
  const tests::TemporaryDirectory dir;
  std::string problems;
  std::vector<std::int64_t> ours;
  // HiGHS proves 12 experts on 4 ranks in a moment, 24 on 8 not within a minute.
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    const RoutingShape shape = seed % 2 == 0 ? RoutingShape::Zipf : RoutingShape::Lognormal;
    const auto loads =
        make_routing({.shape = shape, .zipf_exponent = 0.8, .sampled = true, .seed = seed}, 4, 10, 2048, 2, 1)
            .expert_load();
    ours.push_back(exact_load(loads, 4, 3).largest);
    problems += fmt::format("whole 4 3 {}\n", fmt::join(loads, " "));
  }
  const std::string in = dir.write("in", problems).string(), out = (dir.path() / "out").string();
  const std::string command =
      fmt::format("{} {}/tests/validation/least_load.py 3 < {} > {}", python, MOEPLAN_SOURCE_DIR, in, out);
  REQUIRE(std::system(command.c_str()) == 0);
  std::ifstream result(out);
  for (const std::int64_t least : ours) {
    double optimum = 0, bound = 0;
    REQUIRE((result >> optimum >> bound));
    CHECK(static_cast<double>(least) <= optimum * (1 + 1e-6));
    CHECK(static_cast<double>(least) >= bound * (1 - 1e-6));
  }
}

}  // namespace moeplan::tests::exact_placement_oracle_test
