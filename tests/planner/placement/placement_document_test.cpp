// Placements in plan files.
#include "planner/placement/placement_document.hpp"

#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "tests/support/placement_cases.hpp"

namespace moeplan::tests::placement_document_test {

using namespace moeplan::planner;

namespace {

Placement read(const std::string& yaml, std::int64_t ranks) {
  const Node document = parse_yaml(yaml, "plan.yaml");
  Diagnostics diagnostics;
  Placement placement = read_placement(MapReader(document, "", diagnostics), ranks);
  diagnostics.throw_if_any();
  return placement;
}

std::string complaint(const std::string& yaml) {
  try {
    (void)read(yaml, 2);
  } catch (const InputError& e) {
    return e.diagnostics().front().message;
  }
  return "";
}

}  // namespace

TEST_CASE("A placement in a plan file") {
  rc::prop("reads back as it was", [] {
    const auto ranks = *rc::gen::inRange<std::int64_t>(1, 10), experts = *rc::gen::inRange<std::int64_t>(1, 21);
    const Placement placement = any_placement(ranks, experts);
    RC_ASSERT(read(to_yaml(placement_document(placement)), ranks) == placement);
  });
  SECTION("says what is wrong with it") {
    CHECK(complaint("{nearest: rank, homes: [0, 2], holders: []}") == "expected a whole number from 0 to 1");
    CHECK(complaint("{nearest: near, homes: [0], holders: []}").find("near") != std::string::npos);
    CHECK(complaint("{nearest: rank, homes: [0, 1], holders: [{expert: 1, ranks: [0], shares: [1], slots: [1]}]}") ==
          "the home of expert 1 does not hold it");
    CHECK(complaint("{nearest: rank, homes: [0], holders: [{expert: 0, ranks: [0, 1], shares: [1], slots: [1]}]}") ==
          "2 ranks, 1 shares, 1 slots; expected as many of each");
    CHECK(complaint(
              "{nearest: rank, homes: [0], holders: [{expert: 0, ranks: [1, 0], shares: [1, 1], slots: [1, 1]}]}") ==
          "are not in ascending order");
    CHECK(complaint(
              "{nearest: rank, homes: [0], holders: [{expert: 0, ranks: [0, 1], shares: [0, 0], slots: [1, 1]}]}") ==
          "no holder of expert 0 has a share");
  }
}

}  // namespace moeplan::tests::placement_document_test
