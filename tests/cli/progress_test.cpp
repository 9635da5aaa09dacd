// Progress of long work on standard error.
#include "cli/commands/progress.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::progress_test {

using namespace std::chrono_literals;
using cli::progress_is_due;
using cli::progress_text;

TEST_CASE("Progress is drawn often on a terminal and a line a minute elsewhere") {
  SECTION("a terminal: after two seconds, ten times a second") {
    CHECK_FALSE(progress_is_due(1.9s, 1.9s, true));
    CHECK(progress_is_due(2s, 2s, true));
    CHECK_FALSE(progress_is_due(5s, 50ms, true));
    CHECK(progress_is_due(5s, 100ms, true));
  }
  SECTION("a log file: a minute after the start or the line before") {
    CHECK_FALSE(progress_is_due(59s, 59s, false));
    CHECK(progress_is_due(60s, 60s, false));
    CHECK_FALSE(progress_is_due(119s, 59s, false));
    CHECK(progress_is_due(120s, 60s, false));
  }
}

TEST_CASE("Progress names the work done and the time left") {
  CHECK(progress_text(1, 400, 0, 0s) == "1 of 400 (0%)");
  // 100 took 30 s, so that 300 take three times as long.
  CHECK(progress_text(100, 400, 100, 30s) == "100 of 400 (25%), 1 min 30 s left");
  CHECK(progress_text(1, 3, 1, 20s) == "1 of 3 (33%), 40 s left");
  CHECK(progress_text(1, 61, 1, 120s) == "1 of 61 (1%), 2 h 0 min left");
  CHECK(progress_text(999, 1000, 999, 999s) == "999 of 1000 (99%), 1 s left");
  SECTION("after the last item, how long something else takes") {
    CHECK(progress_text(400, 400, 100, 30s) == "400 of 400 (100%)");
    CHECK(progress_text(400, 400, 100, 42s, 12s) == "400 of 400 (100%), finishing for 12 s");
  }
  SECTION("work kept from earlier does not count for the pace") {
    // 10 in 20 s, so that the last 100 take 200 s.
    CHECK(progress_text(900, 1000, 10, 20s) == "900 of 1000 (90%), 3 min 20 s left");
  }
}

}  // namespace moeplan::tests::progress_test
