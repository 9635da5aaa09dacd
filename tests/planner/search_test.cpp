#include "planner/search.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "planner/lower.hpp"
#include "planner/schedule.hpp"
#include "sim/simulate.hpp"
#include "tests/planner/small_cases.hpp"
#include "tests/support.hpp"

using namespace moeplan;
using moeplan::tests::small;
using moeplan::tests::Small;
using moeplan::tests::SmallCase;

namespace {

SearchResult search_of(const Small& s, const SearchSpace& space = {}) {
  return search(s.model, s.workload, s.cluster, space);
}

std::int64_t rejections(const SearchResult& r) {
  return std::accumulate(r.rejected.begin(), r.rejected.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& reason) { return sum + reason.second; });
}

void check_same(const SearchResult& a, const SearchResult& b) {
  CHECK(a.enumerated == b.enumerated);
  CHECK(a.simulated == b.simulated);
  CHECK(a.pruned == b.pruned);
  CHECK(a.rejected == b.rejected);
  CHECK(a.least_bound == b.least_bound);
  CHECK(a.nearest_miss.has_value() == b.nearest_miss.has_value());
  if (a.nearest_miss && b.nearest_miss) CHECK(a.nearest_miss->candidate == b.nearest_miss->candidate);
  REQUIRE(a.ranked.size() == b.ranked.size());
  for (std::size_t i = 0; i < a.ranked.size(); ++i) {
    CAPTURE(i);
    CHECK(a.ranked[i].candidate == b.ranked[i].candidate);
    CHECK(a.ranked[i].makespan == b.ranked[i].makespan);
    CHECK(a.ranked[i].estimate.closed_form == b.ranked[i].estimate.closed_form);
    CHECK(a.ranked[i].estimate.lower_bound == b.ranked[i].estimate.lower_bound);
  }
}

/// Every way to cut four GPUs, with every schedule and every micro batch that divides, written out plainly.
std::vector<Candidate> all_on_four_gpus(const Small& s) {
  std::vector<Candidate> out;
  for (const std::int64_t tp : {1, 2, 4}) {
    for (const std::int64_t ep : {1, 2, 4}) {
      for (const std::int64_t esp : {1, 2, 4}) {
        if (ep * esp > 4) continue;
        for (const auto& schedule : schedules()) {
          for (std::int64_t micro_batch = 1; micro_batch <= s.workload.global_batch; ++micro_batch) {
            Candidate c;
            c.degrees = {.pp = 1, .dp = 4 / tp, .cp = 1, .tp = tp, .edp = 4 / (ep * esp), .ep = ep, .esp = esp};
            c.schedule = schedule->name();
            c.micro_batch = micro_batch;
            if (!obstacle(s.model, s.workload, c)) out.push_back(c);
          }
        }
      }
    }
  }
  return out;
}

SimTime simulated(const Small& s, const Candidate& c) {
  return simulate(lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node()), s.cluster).makespan;
}

}  // namespace

TEST_CASE("The result of a search does not depend on the number of threads") {
  SmallCase two_nodes;
  two_nodes.nodes = 2;
  two_nodes.routing = "{shape: zipf, sampled: true, seed: 3}";
  const Small s = small(two_nodes);
  const SearchResult one = search_of(s, {.threads = 1});
  REQUIRE_FALSE(one.ranked.empty());
  for (const int threads : {2, 7}) {
    CAPTURE(threads);
    check_same(one, search_of(s, {.threads = threads}));
  }
}

TEST_CASE("Every candidate of a search is accounted for") {
  SmallCase c;
  c.experts = 3;  // ep 4 exceeds them
  const Small s = small(c);
  const SearchResult r = search_of(s);
  SECTION("it is feasible or rejected for one reason") {
    CHECK(rejections(r) + static_cast<std::int64_t>(r.ranked.size()) == r.enumerated);
    CHECK(r.rejected.at("ep exceeds the experts") > 0);
  }
  SECTION("enumerated are the divisors of 4 for tp, those ep and esp whose product divides 4, and the schedules") {
    const std::int64_t expert_cuts = 3 + 2 + 1;  // ep 1: esp 1 2 4; ep 2: esp 1 2; ep 4: esp 1
    CHECK(r.enumerated == 3 * expert_cuts * static_cast<std::int64_t>(schedules().size()));
  }
  SECTION("feasible ones are simulated or pruned") {
    CHECK(r.simulated + r.pruned == static_cast<std::int64_t>(r.ranked.size()));
  }
}

TEST_CASE("No simulated time of a search is below a bound, and its list is in order") {
  SmallCase c;
  c.nodes = 2;
  c.gpus_per_node = 2;
  c.routing = GENERATE("{shape: uniform}", "{shape: hot_rank, seed: 5}");
  const SearchResult r = search_of(small(c), {.most_simulated = 1000});
  REQUIRE(r.simulated > 0);
  std::optional<SimTime> last;
  for (const Evaluated& e : r.ranked) {
    CAPTURE(e.candidate.schedule, e.candidate.degrees.tp, e.candidate.degrees.ep, e.candidate.degrees.esp);
    CHECK(e.estimate.lower_bound >= r.least_bound);
    CHECK(e.estimate.lower_bound >= e.estimate.compute);
    CHECK(e.estimate.lower_bound >= e.estimate.links);
    CHECK(e.estimate.lower_bound >= e.estimate.critical_path);
    if (!e.makespan) continue;
    CHECK(e.makespan->seconds().value() >= e.estimate.lower_bound.value() * (1 - 1e-9));
    if (last) CHECK(*last <= *e.makespan);
    last = e.makespan;
  }
}

TEST_CASE("The best of a search is the best of all candidates simulated one by one") {
  SmallCase c;
  SECTION("balanced load on an NVSwitch") {}
  SECTION("skewed load, where closed forms are not exact") {
    c.routing = "{shape: zipf, zipf_exponent: 1.5, sampled: true}";
  }
  SECTION("forward only, with long sequences") {
    c.mode = "forward";
    c.sequence = 2048;
  }
  SECTION("two nodes and a slow network between") {
    c.nodes = 2;
    c.gpus_per_node = 2;
    c.fabric_bandwidth = "2 GB/s";
  }
  c.micro_batch = "2";  // otherwise the search takes the largest that fits, by design not always the fastest
  const Small s = small(c);
  const SearchResult r = search_of(s, {.most_simulated = 1'000'000});
  std::optional<SimTime> best;
  std::size_t feasible = 0;
  for (const Candidate& candidate : all_on_four_gpus(s)) {
    if (candidate.micro_batch != 2) continue;
    if (c.nodes == 2 && (candidate.degrees.tp > 2 || candidate.degrees.esp > 2)) continue;  // only if asked for
    ++feasible;
    const SimTime t = simulated(s, candidate);
    if (!best || t < *best) best = t;
  }
  REQUIRE(best);
  CHECK(r.ranked.size() == feasible);
  REQUIRE(r.ranked.front().makespan);
  CHECK(*r.ranked.front().makespan == *best);
}

TEST_CASE("A degree or schedule that the user fixed is the only one searched") {
  const Small s = small({});
  const SearchResult r = search_of(s, {.schedule = "baseline", .tp = 2, .ep = 2, .esp = 2});
  REQUIRE(r.enumerated == 1);
  REQUIRE(r.ranked.size() == 1);
  const Candidate& c = r.ranked.front().candidate;
  CHECK(c.schedule == "baseline");
  CHECK(c.degrees == Degrees{.pp = 1, .dp = 2, .cp = 1, .tp = 2, .edp = 1, .ep = 2, .esp = 2});
}

TEST_CASE("With an automatic micro batch the largest that fits is taken") {
  SmallCase c;
  c.dense_layers = 0;
  const Small roomy = small(c);
  const SearchSpace one{.schedule = "baseline", .tp = 1, .ep = 4, .esp = 1};
  const Evaluated whole = search_of(roomy, one).ranked.at(0);
  CHECK(whole.candidate.micro_batch == roomy.workload.global_batch / 4);
  SECTION("a GPU with one byte less than that needs runs half of it because powers of two are tried") {
    c.memory = std::to_string(static_cast<std::int64_t>(whole.memory.total().value()) - 1) + " B";
    CHECK(search_of(small(c), one).ranked.at(0).candidate.micro_batch == whole.candidate.micro_batch / 2);
  }
}

TEST_CASE("Where nothing fits the search says which candidate came nearest and what it needs") {
  SmallCase c;
  c.memory = "1 MB";
  const Small s = small(c);
  const SearchResult r = search_of(s);
  CHECK(r.ranked.empty());
  CHECK(r.simulated == 0);
  CHECK(rejections(r) == r.enumerated);
  REQUIRE(r.nearest_miss);
  const NearestMiss& miss = *r.nearest_miss;
  SECTION("its memory is that of its weights and states, at the least") {
    CHECK(miss.memory.total() > s.cluster.gpu.memory);
    const MemoryUse states = state_memory(s.model, s.workload, miss.candidate.degrees);
    CHECK(miss.memory.total() >= states.total());
  }
  SECTION("no other candidate has less of these") {
    const Bytes least = state_memory(s.model, s.workload, miss.candidate.degrees).total();
    for (const Candidate& candidate : all_on_four_gpus(s)) {
      CHECK(state_memory(s.model, s.workload, candidate.degrees).total() >= least);
    }
  }
  SECTION("it counts the activations of the smallest micro batch, because these must fit too") {
    CHECK(miss.candidate.micro_batch == 1);
    CHECK(miss.memory.activations > Bytes(0));
    CHECK(miss.memory.working > Bytes(0));
  }
}

TEST_CASE("A time beyond the model's range ends the search with an error, whichever engine would have met it") {
  SmallCase c;
  c.nodes = 2;
  c.fabric_bandwidth = GENERATE("1e-290 GB/s", "1e-15 GB/s");
  const Small s = small(c);
  CHECK_THAT(moeplan::tests::error_of([&] { (void)search_of(s); }), Catch::Contains("outside the model's range"));
}
