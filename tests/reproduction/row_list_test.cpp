#include "planner/reproduction/row_list.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "model/base/sha256.hpp"
#include "model/text/document.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::row_list_test {

using namespace moeplan::reproduction;

namespace {

const std::string kList = MOEPLAN_SOURCE_DIR "/configs/papers/rows.csv";
const std::string kHeader = "paper,id,where_in_paper,quantity,paper_value,tolerance,scored,declared\n";

std::vector<PaperRow> rows_of(const std::string& text) {
  const TemporaryDirectory dir;
  return read_row_list(dir.write("rows.csv", text));
}
PaperRow row(const std::string& value, const std::string& tolerance) {
  return rows_of(kHeader + "p,r,place,quantity," + value + "," + tolerance + ",yes,none\n").front();
}

}  // namespace

TEST_CASE("The list of published numbers is the frozen one") {
  // A change of the list needs a sentence in docs/papers.md and its new hash here.
  CHECK(sha256(read_text_file(kList)) == "ff32b558be38115971839e21e73fa584ff2079c9ffb9f45b1bd2e56e95cebf86");
  const std::vector<PaperRow> rows = read_row_list(kList);
  CHECK(rows.size() == 86);
  CHECK(std::count_if(rows.begin(), rows.end(), [](const PaperRow& r) { return r.is_scored; }) == 83);
}

TEST_CASE("A row of the list has a place, a value and a tolerance; quoted fields may contain commas and quotes") {
  const PaperRow r = rows_of(kHeader + "p,p.1,table 1,\"a, \"\"b\"\"\",2.5,15%,no,k = 2\r\n").front();
  CHECK(r.quantity == "a, \"b\"");
  CHECK(r.value == 2.5);
  CHECK(r.tolerance.value == Approx(0.15));
  CHECK_FALSE(r.is_scored);
  CHECK(r.where.line == 2);
}

TEST_CASE("A prediction agrees within the row's tolerance") {
  SECTION("a fraction of the published number, its end included") {
    CHECK(agrees(row("2", "10%"), 2.2, false));
    CHECK(agrees(row("2", "10%"), 1.8, false));
    CHECK_FALSE(agrees(row("2", "10%"), 2.21, false));
  }
  SECTION("exactly") {
    CHECK(agrees(row("1", "exact"), 1, false));
    CHECK_FALSE(agrees(row("1", "exact"), 0.999, false));
  }
  SECTION("above a limit, whatever the published number is") {
    CHECK(agrees(row("1.05", "> 1"), 7, false));
    CHECK_FALSE(agrees(row("1.05", "> 1"), 1, false));
  }
  SECTION("by the setting, whatever the number is") {
    CHECK(agrees(row("1.02", "same setting"), 3, true));
    CHECK_FALSE(agrees(row("1.02", "same setting"), 1.02, false));
  }
}

TEST_CASE("Wrong lines of the list are reported together, each with its line") {
  const std::string error = tests::error_of([] {
    (void)rows_of(kHeader + "p,a,t,q,x,10%,yes,n\np,a,t,q,1,about,maybe,n\np,b,t,q\np,c,t,\"q,1,exact,yes,n\n");
  });
  INFO(error);
  CHECK(error.find("rows.csv:2: paper_value: \"x\" is not a number") != std::string::npos);
  CHECK(error.find("rows.csv:3: tolerance: \"about\" is no tolerance; expected e.g. 10%, exact, > 1 or same setting") !=
        std::string::npos);
  CHECK(error.find("rows.csv:3: scored: \"maybe\" is neither yes nor no") != std::string::npos);
  CHECK(error.find("rows.csv:3: id: \"a\" occurs twice") != std::string::npos);
  CHECK(error.find("rows.csv:4: a row has 8 fields") != std::string::npos);
  CHECK(error.find("rows.csv:5: a row has 8 fields") != std::string::npos);
  CHECK(tests::error_of([] { (void)rows_of("paper,id\n"); }).find("the header must be paper,id,") != std::string::npos);
}

}  // namespace moeplan::tests::row_list_test
