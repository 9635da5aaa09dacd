#include "planner/plan/fixed_decisions.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::fixed_decisions_test {

using namespace moeplan::planner;
using moeplan::tests::small;
using moeplan::tests::Small;
using moeplan::tests::SmallCase;

namespace {

std::string what(const Node& decisions) {
  Diagnostics wrong;
  SearchSpace space;
  space.placements.emplace();
  fix_decisions(decisions, space, wrong);
  return wrong.empty() ? "" : wrong.list().front().text();
}

Node one(const std::string& key, const std::string& value) {
  Node decisions = Node::map();
  decisions.set(key, Node::plain(value));
  return decisions;
}

}  // namespace

TEST_CASE("A decision that is fixed is that of every plan found", "[slow]") {
  SmallCase c;
  c.nodes = 2;
  c.moe_layers = 4;
  c.global_batch = 16;
  c.micro_batch = "1";
  const Small s = small(c);
  // For each key values that differ from what the search finds by itself, or all that there are.
  const std::vector<std::pair<std::string, std::string>> values{{"schedule", "s1_deferred"},
                                                                {"schedule", "pipelined"},
                                                                {"all_to_all", "pairwise"},
                                                                {"pipeline_degree", "2"},
                                                                {"codec", "none"},
                                                                {"placement", "contiguous"},
                                                                {"placement", "eplb_global"},
                                                                {"redundant_experts", "1"},
                                                                {"tp", "2"},
                                                                {"cp", "2"},
                                                                {"ep", "2"},
                                                                {"esp", "2"},
                                                                {"dp", "2"},
                                                                {"edp", "2"},
                                                                {"pp", "2"},
                                                                {"virtual_stages", "2"},
                                                                {"pipeline", "interleaved"},
                                                                {"layout", "Et|tt|tL"},
                                                                {"sequence_parallel", "false"},
                                                                {"ep_overlap", "true"},
                                                                {"ep_overlap", "false"},
                                                                {"delay_wgrad", "false"}};
  std::set<std::string> tried{"dispatcher_sms"};  // for dispatchers, of which the toy cluster has no figures
  for (const auto& [key, value] : values) {
    CAPTURE(key, value);
    tried.insert(key);
    SearchSpace space{.most_simulated = 8, .most_ordered = 0, .wants_global_bound = false};
    space.placements.emplace();
    Node decisions = one(key, value);
    if (key == "placement" && value != "contiguous") decisions.set("redundant_experts", Node::plain("1"));
    if (key == "redundant_experts") decisions.set("placement", Node::plain("eplb_global"));
    Diagnostics wrong;
    fix_decisions(decisions, space, wrong);
    REQUIRE(wrong.empty());
    if (key == "layout") {  // of four layers, which this model does not have
      CHECK(space.layout.text() == value);
      continue;
    }
    const SearchResult r = search({s.model, s.workload, s.cluster}, space);
    REQUIRE_FALSE(r.ranked.empty());
    for (const Evaluated& e : r.ranked) CHECK(decision_document(e.candidate).find(key)->scalar == value);
  }
  for (const std::string& key : fixable_decisions()) CHECK(tried.contains(key));
}

TEST_CASE("Fixed decisions that no plan has are refused under their keys") {
  CHECK(what(one("all_to_all", "linaer")).find("did you mean \"linear\"?") != std::string::npos);
  CHECK(what(one("codec", "fp9")).find("codec: \"fp9\" is not known") != std::string::npos);
  CHECK(what(one("tp", "0")).find("tp: ") != std::string::npos);
  CHECK(what(one("delay_wgrad", "true")).find("expected ep_overlap: true too") != std::string::npos);
  CHECK(what(one("placement", "auto")).empty());
  Node sms = one("dispatcher_sms", "24");
  CHECK(what(sms).find("dispatcher_sms: is for a dispatcher; expected e.g. all_to_all: deepep") != std::string::npos);
  sms.set("all_to_all", Node::plain("deepep"));
  CHECK(what(sms).empty());
  Node v = one("pipeline", "v");
  CHECK(what(v).empty());
  v.set("virtual_stages", Node::plain("4"));
  CHECK(what(v).find("virtual_stages: is 4; stages in a V have 2 parts each") != std::string::npos);
}

TEST_CASE("A codec that the workload does not allow, and a dispatcher without figures, are refused") {
  const Small s = small({});
  SearchSpace space;
  CHECK_NOTHROW(check_codec(space, s.workload, "codec"));
  space.codec = CodecPair{};
  CHECK_NOTHROW(check_codec(space, s.workload, "codec"));
  space.codec = parse_codec_pair("int8");
  CHECK_THROWS_WITH(check_codec(space, s.workload, "codec"), Catch::Contains("codec: int8 loses digits"));
  space.all_to_all = "linear";
  CHECK_NOTHROW(check_dispatcher(space, s.cluster, "all_to_all"));
  space.all_to_all = "deepep";
  CHECK_THROWS_WITH(check_dispatcher(space, s.cluster, "all_to_all"),
                    Catch::Contains("there are no figures of deepep's"));
}

}  // namespace moeplan::tests::fixed_decisions_test
