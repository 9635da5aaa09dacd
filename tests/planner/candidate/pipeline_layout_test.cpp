#include "planner/candidate/pipeline_layout.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::pipeline_layout_test {

using planner::even_layout;
using planner::LayoutPart;
using planner::parse_layout;
using planner::PipelineLayout;

namespace {

PipelineLayout layout(const std::string& text) {
  const auto parsed = parse_layout(text);
  if (const auto* error = std::get_if<std::string>(&parsed)) FAIL(*error);
  return std::get<PipelineLayout>(parsed);
}

std::string error(const std::string& text) {
  const auto parsed = parse_layout(text);
  const auto* message = std::get_if<std::string>(&parsed);
  return message ? *message : "";
}

}  // namespace

TEST_CASE("A layout in Megatron-LM's notation says what each part of the pipeline holds") {
  SECTION("letters in the order of a forward pass") {
    const PipelineLayout l = layout("Ett|t|tmL");
    REQUIRE(l.parts.size() == 3);
    CHECK(l.parts[0] == LayoutPart{.embedding = true, .layers = 2});
    CHECK(l.parts[1] == LayoutPart{.layers = 1});
    CHECK(l.parts[2] == LayoutPart{.layers = 1, .mtp_layers = 1, .head = true});
    CHECK(l.layers() == 4);
    CHECK(l.mtp_layers() == 1);
    CHECK(l.text() == "Ett|t|tmL");
  }
  SECTION("repeats of letters and of groups, and commas without a meaning") {
    CHECK(layout("Et*4|(t*4|)*14tmL").parts.size() == 1 + 14 + 1);
    CHECK(layout("Et*4|(t*4|)*14tmL").layers() == 4 + 14 * 4 + 1);
    CHECK(layout("Et|(tt|)*30L").text() == "Et" + repeated("|tt", 30) + "|L");
    CHECK(layout("Et|(tt|)*2,t|(tt|)*3,tL").text() == "Et|tt|tt|t|tt|tt|tt|tL");
  }
  SECTION("an error says where the notation ends, or which part is wrong") {
    CHECK(error("Et|x|L") ==
          "\"Et|x|L\" is no pipeline layout at \"x|L\"; expected letters of E, t, m, L, parts separated by |, repeats "
          "as t*4 or (tt|)*3");
    CHECK(error("E(t|*2L").find("at its end") != std::string::npos);
    CHECK(error("Et||tL") == "part 2 of the layout is empty");
    CHECK(error("tE|tL") == "part 1 of the layout, \"tE\", is not in the order E, t, m, L");
    CHECK(error("t|tL") == "the embedding E must be in the first part of the layout only, not in part 1");
    CHECK(error("EtL|t") == "the output head L must be in the last part of the layout only");
    CHECK(error("E(t*60000)*60000L").find("has more than") != std::string::npos);
    CHECK_FALSE(error(repeated("(", 1000)).empty());
  }
}

TEST_CASE("Without a layout Megatron-LM gives every part the same number of layers") {
  SECTION("embedding and head do not count if the layers divide without them") {
    CHECK(even_layout(8, 0, 4).text() == "Ett|tt|tt|ttL");
  }
  SECTION("or count as a layer each: 94 layers on 8 stages") {
    const PipelineLayout l = even_layout(94, 0, 8);
    CHECK(l.parts.front().layers == 11);
    CHECK(l.parts[1].layers == 12);
    CHECK(l.parts.back().layers == 11);
    CHECK(l.layers() == 94);
  }
  SECTION("the multi-token-prediction layer is in the last part") { CHECK(even_layout(2, 1, 2).text() == "Et|tmL"); }
  SECTION("there is none if the layers do not divide in any manner") { CHECK(even_layout(61, 0, 16).empty()); }
}

}  // namespace moeplan::tests::pipeline_layout_test
