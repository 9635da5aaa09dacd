#include "planner/sweep/expression.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::expression_test {

using namespace moeplan::sweep;
using moeplan::tests::error_of;
using moeplan::tests::repeated;

namespace {

const std::vector<std::string> kNames{"world", "tp", "schedule", "nic", "model.ffns.moe.top_k", "memory_bytes"};
const std::vector<Cell> kValues{std::int64_t{64}, std::int64_t{8}, "baseline", "100 Gbps", std::int64_t{2}, Cell()};

Expression parsed(const std::string& text) { return Expression(text, kNames, {"s.yaml", 3, 7}, "when"); }
bool holds(const std::string& text) { return parsed(text).holds(kValues); }
Cell value(const std::string& text) { return parsed(text).value(kValues); }
std::string error(const std::string& text) {
  return error_of([&] { (void)holds(text); });
}

}  // namespace

TEST_CASE("An expression's operators bind as in arithmetic and logic") {
  CHECK(value("1 + 2 * 3") == Cell(std::int64_t{7}));
  CHECK(value("(1 + 2) * 3") == Cell(std::int64_t{9}));
  CHECK(value("10 - 4 - 3") == Cell(std::int64_t{3}));
  CHECK(value("-tp + 10") == Cell(std::int64_t{2}));
  CHECK(value("world / tp / 16") == Cell(0.5));
  CHECK(value("min(world, 8) + max(1, tp)") == Cell(std::int64_t{16}));
  CHECK(value("-7 % 4") == Cell(std::int64_t{1}));  // as in mathematics: never negative
  CHECK(value("2.5e-1 * 4") == Cell(std::int64_t{1}));
  CHECK(holds("tp == 8 or world == 1 and world == 2"));
  CHECK_FALSE(holds("(tp == 8 or world == 1) and world == 2"));
  CHECK(holds("not tp == 4"));
  CHECK(holds("not not world % tp == 0"));
  CHECK(holds("model.ffns.moe.top_k + 1 <= 3"));
}

TEST_CASE("Texts are compared where that means something") {
  CHECK(holds("schedule == 'baseline'"));
  CHECK(holds("schedule != 'parm_s1'"));
  CHECK(holds("nic == '12.5 GB/s'"));  // 100 Gbps are 12.5 GB/s
  CHECK(holds("nic < '25 GB/s' and nic > '1 Gbps'"));
  CHECK(value("nic") == Cell("100 Gbps"));
  CHECK(error("nic < '25 GB'").find("no order: they are not quantities of one kind") != std::string::npos);
  CHECK(error("schedule < 'x'").find("no order") != std::string::npos);
  CHECK(error("schedule == 3").find("one is a text, the other a number") != std::string::npos);
  CHECK(error("schedule * 2 == 3").find("is a text; expected a number") != std::string::npos);
}

TEST_CASE("What is missing makes comparisons false and arithmetic missing") {
  CHECK_FALSE(holds("memory_bytes < 1"));
  CHECK_FALSE(holds("memory_bytes >= 1"));
  CHECK_FALSE(holds("memory_bytes == memory_bytes"));
  CHECK(value("memory_bytes + 1") == Cell());
}

TEST_CASE("An expression that is wrong says where") {
  CHECK(error("tp = 8").find("at character 4: expected the end, not \"=\"") != std::string::npos);
  CHECK(error("tp == ").find("at character 7: expected a value, not the end") != std::string::npos);
  CHECK(error("(tp == 8").find("expected \")\"") != std::string::npos);
  CHECK(error("tp == 8 8").find("expected the end") != std::string::npos);
  CHECK(error("1 < tp < 9").find("expected the end, not \"<\"") != std::string::npos);
  CHECK(error("wrld == 8").find("\"wrld\" is no name of this sweep; did you mean \"world\"?") != std::string::npos);
  CHECK(error("tp").find("is no condition; write a comparison") != std::string::npos);
  CHECK(error("tp and world == 1").find("is no condition") != std::string::npos);
  CHECK(error("(tp == 8) + 1 == 2").find("a condition stands where a number or a text is expected") !=
        std::string::npos);
  CHECK(error("tp / (world - 64) == 1").find("divides by zero") != std::string::npos);
  CHECK(error("tp == 'x").find("a text without its end") != std::string::npos);
  CHECK(error("min(tp) == 8").find("expected \",\"") != std::string::npos);
  CHECK(error("and == 1").find("expected a value") != std::string::npos);
  CHECK(error("tp == 8").empty());
  CHECK(error(repeated("(", 100) + "tp").find("nested deeper than 64 levels") != std::string::npos);
  CHECK(error(repeated("not ", 100) + "tp == 1").find("nested deeper than 64 levels") != std::string::npos);
  CHECK(error(repeated("-", 100) + "tp == 1").find("nested deeper than 64 levels") != std::string::npos);
  CHECK(error(repeated("1+", 3000) + "1 == 1").find("longer than 4096 characters") != std::string::npos);
  CHECK(error(std::string("tp\0 == 8", 8)).find("NUL") != std::string::npos);
  CHECK(error("tp = 8").rfind("s.yaml:3:7: when: ", 0) == 0);
}

TEST_CASE("No text of any kind does more than be refused") {
  rc::prop("random characters", [] {
    const auto text =
        *rc::gen::container<std::string>(rc::gen::elementOf(std::string("tpworld 0189.e+-*/%()<>=!&',andornot[]")));
    try {
      (void)holds(text);
    } catch (const InputError&) {
    }
  });
}

TEST_CASE("A cell's text reads back as the cell") {
  for (const Cell& cell : {Cell(std::int64_t{-3}), Cell(0.1), Cell(1e300), Cell("100 Gbps")})
    CHECK(cell_of(cell_text(cell)) == cell);
  CHECK(cell_of("010") == Cell(10.0));  // no whole number as we write them, but a number
  CHECK(cell_text(Cell()).empty());
}

}  // namespace moeplan::tests::expression_test
