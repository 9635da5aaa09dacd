// Searches that run out of time.
#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/search/search.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::cut_search_test {

namespace {

SmallCase two_nodes() {
  SmallCase c;
  c.nodes = 2;
  return c;
}

SearchResult search_of(const Small& s, const std::function<bool()>& is_out_of_time, const SearchSpace& space = {}) {
  SearchSpace limited = space;
  limited.threads = 1;
  limited.is_out_of_time = is_out_of_time;
  return search({s.model, s.workload, s.cluster}, limited);
}

/// The best candidate is simulated, and the bound holds for it and for the best of a search that was not cut.
void check_cut(const SearchResult& r, const SearchResult& whole) {
  CHECK(r.is_cut);
  REQUIRE_FALSE(r.ranked.empty());
  REQUIRE(r.ranked.front().makespan);
  CHECK(r.global_bound > Seconds(0));
  CHECK(r.global_bound <= whole.ranked.front().makespan->seconds());
  CHECK(r.simulated >= 1);
  CHECK(r.simulated < whole.simulated);
  CHECK(std::ssize(r.ranked) < std::ssize(whole.ranked));
}

}  // namespace

TEST_CASE("A search that is out of time returns its best so far, with a bound over all candidates", "[slow]") {
  SmallCase c = two_nodes();
  SearchSpace space;
  SECTION("equal ranks") {}
  SECTION("ranks that differ") { c.routing = "{shape: zipf}"; }
  SECTION("ranks that differ and are too many to price early") {
    c.routing = "{shape: zipf}";
    space.asymmetric_rank_threshold = 2;
  }
  const Small s = small(c);
  const SearchResult whole = search_of(s, {}, space);
  CHECK_FALSE(whole.is_cut);
  SECTION("from the beginning: what is priced first is simulated") {
    const SearchResult none = search_of(
        s, [] { return true; }, space);
    check_cut(none, whole);
    CHECK(none.simulated == 1);
    CHECK(none.unpriced > whole.unpriced);
  }
  SECTION("from the beginning: candidates with and without a pipeline are priced, because either may be the better") {
    const SearchResult none = search_of(
        s, [] { return true; }, space);
    const auto has = [&](bool pipeline) {
      return std::any_of(none.ranked.begin(), none.ranked.end(),
                         [&](const Evaluated& e) { return (e.candidate.degrees.pp > 1) == pipeline; });
    };
    CHECK(has(true));
    CHECK(has(false));
  }
  SECTION("later: at any of the times at which it asks") {
    for (const int asked : {2, 50}) {
      CAPTURE(asked);
      int left = asked;
      check_cut(search_of(
                    s, [&] { return left-- <= 0; }, space),
                whole);
    }
  }
  SECTION("never: plan and bound are the same as without a limit") {
    const SearchResult same = search_of(
        s, [] { return false; }, space);
    CHECK_FALSE(same.is_cut);
    CHECK(same.global_bound == whole.global_bound);
    CHECK(same.ranked.front().candidate == whole.ranked.front().candidate);
  }
}

TEST_CASE("A search that is out of time still makes a placement that is fixed") {
  SmallCase c = two_nodes();
  c.routing = "{shape: zipf}";
  const Small s = small(c);
  const SearchSpace space{.ep = 4, .placements = PlacementSpace{.placement = "smartmoe"}};
  const SearchResult r = search_of(
      s, [] { return true; }, space);
  REQUIRE_FALSE(r.ranked.empty());
  CHECK(r.ranked.front().makespan);
  CHECK(r.ranked.front().candidate.placement == PlacementChoice("smartmoe"));
}

namespace {

/// Eight layers and eight microbatches on 8 ranks, all different: two stages have a shorter bubble than the four or
/// eight stages whose few ranks are not deferred with a threshold of four.
Small best_deferred() {
  SmallCase c = two_nodes();
  c.dense_layers = 2;
  c.moe_layers = 6;
  c.routing = "{shape: zipf, sampled: true}";
  return small(c);
}

}  // namespace

TEST_CASE("A search that is out of time prices a round of pipelines that are deferred", "[slow]") {
  // Candidates without a pipeline stay deferred, because they take longer to simulate.
  const Small s = best_deferred();
  const SearchResult r = search_of(s, [] { return true; }, {.most_refined = 0, .asymmetric_rank_threshold = 4});
  CHECK(r.is_cut);
  std::int64_t deferred = 0;
  for (const Evaluated& e : r.ranked) {
    const Degrees& d = e.candidate.degrees;
    CHECK(d.pp > 1);
    deferred += d.ranks_per_stage() >= 4 ? 1 : 0;
  }
  CHECK(deferred > 0);
  CHECK(deferred <= 2);
  CHECK(r.ranked.front().candidate.degrees.pp == 2);
  CHECK(r.simulated == 2);
}

TEST_CASE("A search that is out of time refines two pipelines", "[slow]") {
  const Small s = best_deferred();
  const SearchResult as_listed = search_of(s, [] { return true; }, {.most_refined = 0});
  const SearchResult r = search_of(s, [] { return true; }, {});
  CHECK(r.is_cut);
  CHECK(r.ranked.front().candidate.virtual_stages > 1);
  CHECK(*r.ranked.front().makespan < *as_listed.ranked.front().makespan);
  std::vector<Degrees> refined;
  for (const Evaluated& e : r.ranked) {
    const Candidate& c = e.candidate;
    if (c.virtual_stages > 1 && std::find(refined.begin(), refined.end(), c.degrees) == refined.end())
      refined.push_back(c.degrees);
  }
  CHECK(refined.size() <= 2);
}

TEST_CASE("A search whose candidates are all deferred prices a round of them when it is out of time", "[slow]") {
  const Small s = best_deferred();
  SearchSpace space{.most_refined = 0, .asymmetric_rank_threshold = 1};
  const SearchResult all = search_of(s, {}, space);
  SECTION("the least bounds") {}
  SECTION("those with the fewest flows, if the simulations of all take long") { space.most_deferred_flows = -1; }
  const SearchResult r = search_of(
      s, [] { return true; }, space);
  check_cut(r, all);
  CHECK(r.ranked.size() <= 8);
  CHECK(r.deferred > 0);
}

TEST_CASE("Deferred candidates that take too long to simulate stay deferred and are counted", "[slow]") {
  const Small s = best_deferred();
  const SearchResult all = search({s.model, s.workload, s.cluster}, {.asymmetric_rank_threshold = 4});
  CHECK(all.undecided == 0);
  const SearchResult r =
      search({s.model, s.workload, s.cluster}, {.asymmetric_rank_threshold = 4, .most_deferred_flows = -1});
  REQUIRE_FALSE(r.ranked.empty());
  for (const Evaluated& e : r.ranked) CHECK(e.candidate.degrees.ranks_per_stage() < 4);
  CHECK(*r.ranked.front().makespan > *all.ranked.front().makespan);
  CHECK(r.undecided > 0);
  CHECK(r.undecided <= r.deferred);
  CHECK(r.simulated + r.pruned == std::ssize(r.ranked) + r.deferred + r.unpriced);
  CHECK(r.global_bound <= all.global_bound * (1 + 1e-9));
}

TEST_CASE("Deferred candidates that seem clearly slower stay deferred if they take long to simulate", "[slow]") {
  const Small s = best_deferred();
  const SearchResult all = search({s.model, s.workload, s.cluster}, {.asymmetric_rank_threshold = 4});
  const SearchResult r =
      search({s.model, s.workload, s.cluster}, {.asymmetric_rank_threshold = 4, .quick_deferred_flows = -1});
  CHECK(*r.ranked.front().makespan == *all.ranked.front().makespan);
  CHECK(r.undecided > 0);
  CHECK(r.undecided <= r.deferred);
  CHECK(r.simulated < all.simulated);
  CHECK(r.simulated + r.pruned == std::ssize(r.ranked) + r.deferred + r.unpriced);
  CHECK(r.global_bound <= all.global_bound * (1 + 1e-9));
}

}  // namespace moeplan::tests::cut_search_test
