#include "planner/search/ranking.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <optional>
#include <vector>

#include "planner/search/search.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::ranking_test {

TEST_CASE("A candidate that its exchange rules out is no faster than enough others", "[slow]") {
  SmallCase c;
  c.nodes = 4;
  c.gpus_per_node = 2;
  c.moe_layers = 3;
  c.micro_batch = "1";
  const bool has_pipelines = GENERATE(true, false);
  c.fabric_bandwidth = "2 GB/s";
  if (!has_pipelines) c.global_batch = 256;
  const Small s = small(c);
  const Problem problem(s.model, s.workload, s.cluster);
  constexpr std::int64_t kEnough = 16;
  const SearchSpace space{.most_refined = kEnough, .most_simulated = kEnough, .threads = 2};
  Enumeration all = enumerated(problem, space);
  std::erase_if(all.feasible, [&](const Candidate& f) { return (f.degrees.pp > 1) != has_pipelines; });
  const std::function<void(std::int64_t, std::int64_t)> progress;
  Ranking ranking(problem, space, all, progress);
  ranking.add(all.feasible);

  const auto time = [&](const Candidate& f) {
    return evaluate(problem, f, Depth::Extrapolation).evaluated.estimate.closed_form;
  };
  std::vector<Seconds> of_all, of_spanning;  // the latter bounds
  for (const Candidate& f : all.feasible) {
    of_all.push_back(time(f));
    if (spans_nodes(problem, f)) of_spanning.push_back(ranking.common_work().own_bound(f));
  }
  std::sort(of_all.begin(), of_all.end());
  std::sort(of_spanning.begin(), of_spanning.end());
  const Seconds enough = of_all.at(kEnough - 1);
  std::size_t by_exchange = 0, spanning = 0;
  for (const Candidate& f : all.feasible) {
    const auto is_this = [&](const Evaluated& e) { return e.candidate == f; };
    if (std::any_of(ranking.ranked().begin(), ranking.ranked().end(), is_this)) continue;
    if (ranking.common_work().bound(f) >= enough) continue;  // ruled out without its exchange
    CAPTURE(f.degrees.pp, f.degrees.tp, f.degrees.ep, f.degrees.esp, f.schedule.name());
    ++by_exchange;
    Candidate overlapped = f;
    overlapped.ep_overlap = true;
    CHECK(time(f) >= enough);
    if (may_overlap(problem, space, overlapped)) CHECK(time(overlapped) >= enough);
    const std::optional<Candidate> deduplicated = with_deduplicated_rows(problem, space, f);
    if (!deduplicated || ranking.common_work().own_bound(f) >= of_spanning.at(kEnough - 1)) continue;
    CHECK(time(*deduplicated) >= enough);
    ++spanning;
  }
  CHECK(by_exchange > 0);
  CHECK((spanning > 0 || !has_pipelines));
}

TEST_CASE("A pipeline whose ranks differ and that its exchange rules out is no faster than the best", "[slow]") {
  SmallCase c;
  c.nodes = 8;
  c.gpus_per_node = 2;
  c.moe_layers = 3;
  c.experts = 16;
  c.global_batch = 64;
  c.fabric_bandwidth = "1 GB/s";
  c.micro_batch = "1";
  c.routing = "{shape: zipf, sampled: true, seed: 3}";
  const Small s = small(c);
  const Problem problem(s.model, s.workload, s.cluster);
  const SearchSpace space{.asymmetric_rank_threshold = 2, .threads = 2};
  const Enumeration all = enumerated(problem, space);
  const std::function<void(std::int64_t, std::int64_t)> progress;
  Ranking ranking(problem, space, all, progress);
  ranking.add(all.feasible);
  const SimTime best = *search(problem, space).ranked.front().makespan;
  REQUIRE(!ranking.deferred().empty());
  REQUIRE(!ranking.left_out().empty());
  for (const LeftOut& l : ranking.left_out()) {
    CAPTURE(l.candidate.degrees.pp, l.candidate.degrees.tp, l.candidate.degrees.ep, l.candidate.degrees.esp);
    const SimTime own = simulated_makespan(problem, l.candidate);
    CHECK(own >= best);
    CHECK(l.bound <= own.seconds());
  }
}

}  // namespace moeplan::tests::ranking_test
