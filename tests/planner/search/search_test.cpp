#include "planner/search/search.hpp"

#include <catch2/catch.hpp>
#include <numeric>

#include "planner/candidate/stage_layout.hpp"
#include "planner/layer/schedule.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/layer_search.hpp"
#include "sim/program/simulate_stages.hpp"
#include "tests/support/checks.hpp"
#include "tests/support/small_cases.hpp"
#include "tests/support/spec_files.hpp"

namespace moeplan::tests::search_test {

using namespace moeplan::sim;
using namespace moeplan::planner;
using moeplan::tests::small;
using moeplan::tests::Small;
using moeplan::tests::SmallCase;

namespace {

SearchResult search_of(const Small& s, const SearchSpace& space = {}) {
  return search({s.model, s.workload, s.cluster}, space);
}

std::int64_t rejections(const SearchResult& r) {
  return std::accumulate(r.rejected.begin(), r.rejected.end(), std::int64_t{0},
                         [](std::int64_t sum, const auto& reason) { return sum + reason.second; });
}

void check_same(const SearchResult& a, const SearchResult& b) {
  CHECK(a.enumerated == b.enumerated);
  CHECK(a.simulated == b.simulated);
  CHECK(a.pruned == b.pruned);
  CHECK(a.unpriced == b.unpriced);
  CHECK(a.rejected == b.rejected);
  CHECK(a.global_bound == b.global_bound);
  CHECK(a.nearest_miss.has_value() == b.nearest_miss.has_value());
  if (a.nearest_miss && b.nearest_miss) CHECK(a.nearest_miss->candidate == b.nearest_miss->candidate);
  REQUIRE(a.ranked.size() == b.ranked.size());
  for (std::size_t i = 0; i < a.ranked.size(); ++i) {
    CAPTURE(i);
    CHECK(a.ranked[i].candidate == b.ranked[i].candidate);
    CHECK(a.ranked[i].makespan == b.ranked[i].makespan);
    CHECK(a.ranked[i].estimate.closed_form == b.ranked[i].estimate.closed_form);
    CHECK(a.ranked[i].estimate.lower_bound == b.ranked[i].estimate.lower_bound);
    CHECK(a.ranked[i].order == b.ranked[i].order);
  }
}

/// The same as another schedule, so that a search leaves it out.
bool repeats_another(const Candidate& c, Mode mode) {
  Degrees layer = c.degrees;
  if (c.sequence_parallel) layer.tp = 1;
  return !c.schedule->same_as(layer, c, mode).empty();
}

/// Every way to cut four GPUs, with every schedule and every micro batch that divides, written out plainly. Of
/// pipelines, one part of the model a stage, and (`interleaved`) those with 2, 4 ... where there is a microbatch for
/// every stage.
std::vector<Candidate> all_on_four_gpus(const Small& s, bool interleaved = false) {
  std::vector<Candidate> out;
  const auto add = [&](Candidate c) {
    for (const auto& schedule : schedules()) {
      c.schedule = schedule->name();
      for (c.micro_batch = 1; c.micro_batch <= s.workload.global_batch; ++c.micro_batch) {
        if (c.virtual_stages > 1 && s.workload.global_batch / c.degrees.dp / c.micro_batch < c.degrees.pp) continue;
        if (!infeasibility(s.model, s.workload, c, 1)) out.push_back(c);
      }
    }
  };
  for (const std::int64_t pp : {1, 2, 4}) {
    for (const std::int64_t tp : {1, 2, 4}) {
      for (const std::int64_t ep : {1, 2, 4}) {
        for (const std::int64_t esp : {1, 2, 4}) {
          if (pp * tp > 4 || pp * ep * esp > 4) continue;
          for (const bool sequence_parallel : {false, true}) {
            for (std::int64_t parts = 1; parts <= (interleaved && pp > 1 ? 4 : 1); parts *= 2) {
              Candidate c;
              c.degrees = {
                  .pp = pp, .dp = 4 / pp / tp, .cp = 1, .tp = tp, .edp = 4 / (pp * ep * esp), .ep = ep, .esp = esp};
              c.sequence_parallel = sequence_parallel;
              c.virtual_stages = parts;
              add(c);
              if (c.degrees.ranks_per_stage() <= s.cluster.ranks_per_node()) continue;
              if (esp > 1 || ep == 1 || c.degrees.edp == 1) continue;
              c.rank_order = RankOrder::ReplicasInner;
              add(c);
            }
          }
        }
      }
    }
  }
  return out;
}

SimTime simulated(const Small& s, const Candidate& c) {
  StageClusters machines(s.cluster);
  return sim::simulate(lower_iteration(s.model, s.workload, c, s.cluster.ranks_per_node()), machines,
                       {.keep_spans = false})
      .makespan;
}

/// Weights and states of the fullest stage.
MemoryUse states(const Small& s, const Candidate& c) {
  MemoryUse most{};
  for (const StageParameters& stage :
       stage_parameters(s.model, s.workload.sequence_length, c.degrees, c.virtual_stages)) {
    const MemoryUse use = state_memory(stage, s.workload, c.degrees);
    if (use.total() > most.total()) most = use;
  }
  return most;
}

}  // namespace

TEST_CASE("The result of a search does not depend on the number of threads", "[slow]") {
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
  SECTION("nor does that of a search among pipelines") {
    const SearchResult pipelines = search_of(s, {.pp = 2, .threads = 1});
    REQUIRE_FALSE(pipelines.ranked.empty());
    for (const int threads : {2, 7}) check_same(pipelines, search_of(s, {.pp = 2, .threads = threads}));
  }
}

TEST_CASE("Pruning and the limits of a search do not cost the best plan of a small case", "[slow]") {
  SmallCase c;
  c.moe_layers = 3;
  SECTION("balanced load") {}
  SECTION("skewed load on two nodes with a slow network between") {
    c.nodes = 2;
    c.gpus_per_node = 2;
    c.fabric_bandwidth = "2 GB/s";
    c.routing = "{shape: zipf, sampled: true, seed: 3}";
  }
  SECTION("more weights than one GPU holds") { c.memory = "100 MB"; }
  const Small s = small(c);
  const SearchResult usual = search_of(s);
  const SearchResult all = search_of(s, {.most_refined = 1'000'000, .most_simulated = 1'000'000});
  REQUIRE_FALSE(usual.ranked.empty());
  REQUIRE(usual.ranked.front().makespan);
  CHECK(*usual.ranked.front().makespan == *all.ranked.front().makespan);
}

TEST_CASE("Setting candidates aside whose ranks differ does not cost the best plan of a small case", "[slow]") {
  SmallCase c;
  SECTION("experts that do not divide") { c.experts = 6; }
  SECTION("experts that do not divide, in large layers") {
    c.experts = 6;
    c.expert_hidden = 2048;
    c.sequence = 1024;
  }
  SECTION("nothing but such candidates") { c.routing = "{shape: zipf, sampled: true, seed: 3}"; }
  const Small s = small(c);
  const SearchResult priced = search_of(s, {.asymmetric_rank_threshold = 1'000'000});
  const SearchResult r = search_of(s, {.asymmetric_rank_threshold = 2, .most_deferred = 1'000'000});
  REQUIRE(r.ranked.front().makespan);
  CHECK(*r.ranked.front().makespan == *priced.ranked.front().makespan);
  CHECK(priced.deferred == 0);
  CHECK(r.global_bound <= priced.global_bound * (1 + 1e-9));
  CHECK(r.global_bound <= priced.ranked.front().makespan->seconds() * (1 + 1e-9));
  CHECK(rejections(r) + std::ssize(r.ranked) + r.deferred + r.unpriced == r.enumerated);
  CHECK(r.simulated + r.pruned == std::ssize(r.ranked) + r.deferred + r.unpriced);
  SECTION("whatever the number of threads") {
    check_same(r, search_of(s, {.asymmetric_rank_threshold = 2, .most_deferred = 1'000'000, .threads = 7}));
  }
}

TEST_CASE("Pipelines are refined also where the ranks of all differ", "[slow]") {
  SmallCase c;
  c.moe_layers = 3;
  c.routing = "{shape: zipf, sampled: true, seed: 3}";
  const Small s = small(c);
  const SearchResult priced = search_of(s, {.pp = 2, .asymmetric_rank_threshold = 1'000'000});
  const SearchResult r = search_of(s, {.pp = 2, .asymmetric_rank_threshold = 2});
  REQUIRE_FALSE(r.ranked.empty());
  CHECK(
      std::any_of(r.ranked.begin(), r.ranked.end(), [](const Evaluated& e) { return e.candidate.virtual_stages > 1; }));
  CHECK(*r.ranked.front().makespan == *priced.ranked.front().makespan);
}

TEST_CASE("The progress of a search never falls", "[slow]") {
  const Small s = small({});
  double last = 0;
  std::int64_t told = 0;
  (void)search({s.model, s.workload, s.cluster}, {}, [&](std::int64_t done, std::int64_t total) {
    const double part = static_cast<double>(done) / static_cast<double>(total);
    CHECK(part >= last);
    CHECK(part <= 1);
    last = part;
    ++told;
  });
  CHECK(told > 2);
}

TEST_CASE("Every candidate of a search is accounted for", "[slow]") {
  SmallCase c;
  c.experts = 3;  // ep 4 exceeds them
  const Small s = small(c);
  const SearchResult r = search_of(s);
  SECTION("it is feasible or rejected for one reason") {
    CHECK(rejections(r) + std::ssize(r.ranked) + r.unpriced == r.enumerated);
    CHECK(r.rejected.at("ep exceeds the experts") > 0);
  }
  SECTION("enumerated are the ways to cut the ranks of 1, 2 or 4 stages, and the schedules") {
    // Of n ranks: tp with and without sequence parallelism; ep and esp whose product divides n.
    const std::int64_t four = 5 * 6, two = 3 * 3, one = 1;
    const SearchResult unrefined =
        search_of(s, {.ep_overlap = false, .most_refined = 0, .most_varied = 0, .most_ordered = 0});
    CHECK(unrefined.enumerated == (four + two + one) * static_cast<std::int64_t>(schedules().size()));
    CHECK(rejections(unrefined) + std::ssize(unrefined.ranked) + unrefined.unpriced == unrefined.enumerated);
    CHECK(r.enumerated > unrefined.enumerated);
  }
  SECTION("feasible ones are simulated or pruned") {
    CHECK(r.simulated + r.pruned == std::ssize(r.ranked) + r.unpriced);
  }
}

TEST_CASE("The order of operations of the fastest candidates is searched, and kept where it is faster", "[slow]") {
  SmallCase c;
  c.shared_hidden = 8192;  // longer than a dispatch, so that a part of it is better beside the combine
  c.sequence = 1024;
  const Small s = small(c);
  const SearchSpace space{.ep = 4, .esp = 1};
  SearchSpace plain = space;
  plain.most_ordered = 0;
  const SearchResult listed = search_of(s, plain), r = search_of(s, space);
  std::int64_t kept = 0;
  for (const Evaluated& e : r.ranked) {
    if (e.candidate.order == OperationOrder::Listed) continue;
    ++kept;
    Candidate before = e.candidate;
    before.order = OperationOrder::Listed;
    const auto it = std::find_if(r.ranked.begin(), r.ranked.end(),
                                 [&](const Evaluated& other) { return other.candidate == before; });
    REQUIRE(it != r.ranked.end());
    CHECK(*e.makespan < *it->makespan);
    CHECK(*e.makespan == predict({s.model, s.workload, s.cluster}, e.candidate).makespan);
    CHECK(e.order_answered_by() == "exact");
    CHECK(it->order_answered_by() == "heuristic");  // the search's answer is not in use there
  }
  CHECK(kept > 0);
  CHECK(kept <= space.most_ordered + 1);
  CHECK(*r.ranked.front().makespan < *listed.ranked.front().makespan);
  CHECK(listed.ranked.front().order_answered_by() == "listed");
  SECTION("each counts as a candidate that was simulated") {
    CHECK(r.enumerated == listed.enumerated + kept);
    CHECK(r.simulated == listed.simulated + kept);
    CHECK(r.pruned == listed.pruned);
    CHECK(r.rejected == listed.rejected);
    CHECK(r.ranked.size() == listed.ranked.size() + static_cast<std::size_t>(kept));
  }
  SECTION("the number of threads changes nothing") {
    for (const int threads : {1, 2, 7}) {
      SearchSpace other = space;
      other.threads = threads;
      check_same(r, search_of(s, other));
    }
  }
}

TEST_CASE("No simulated time of a search is below a bound, and its list is in order", "[slow]") {
  SmallCase c;
  c.nodes = 2;
  c.gpus_per_node = 2;
  c.routing = GENERATE("{shape: uniform}", "{shape: hot_rank, seed: 5}");
  const SearchResult r = search_of(small(c), {.most_simulated = 1000});
  REQUIRE(r.simulated > 0);
  std::optional<SimTime> last;
  for (const Evaluated& e : r.ranked) {
    CAPTURE(e.candidate.schedule.name(), e.candidate.degrees.tp, e.candidate.degrees.ep, e.candidate.degrees.esp);
    CHECK(e.estimate.lower_bound >= r.global_bound);
    CHECK(e.estimate.lower_bound >= e.estimate.compute);
    CHECK(e.estimate.lower_bound >= e.estimate.links);
    CHECK(e.estimate.lower_bound >= e.estimate.critical_path);
    if (!e.makespan) continue;
    CHECK(e.makespan->seconds().value() >= e.estimate.lower_bound.value() * (1 - 1e-9));
    if (last) CHECK(*last <= *e.makespan);
    last = e.makespan;
  }
}

TEST_CASE("The least bound of a search holds for every way to run the layers of its candidates", "[slow]") {
  SmallCase c;
  c.nodes = 2;
  c.gpus_per_node = 2;
  c.fabric_bandwidth = "2 GB/s";
  c.micro_batch = "2";
  const Small s = small(c);
  const SearchResult r = search_of(s, {.ep = 4, .pp = 1, .most_varied = 0});
  REQUIRE_FALSE(r.ranked.empty());
  std::int64_t ways = 0;
  for (const Evaluated& e : r.ranked) {
    for (const LayerStrategy& run :
         layer_strategies(s.model.hidden_size, s.workload, e.candidate, s.cluster.ranks_per_node())) {
      CAPTURE(strategy_text(run));
      ++ways;
      CHECK(simulated(s, run.in(e.candidate)).seconds().value() >= r.global_bound.value() * (1 - 1e-9));
    }
  }
  CHECK(ways > 50);
}

TEST_CASE("The best of a search is the best of all candidates simulated one by one", "[slow]") {
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
  SECTION("so slow that large experts are better replicated inside a node") {
    c.nodes = 2;
    c.gpus_per_node = 2;
    c.fabric_bandwidth = "1 GB/s";
    c.expert_hidden = 4096;
    c.sequence = 16;
  }
  c.micro_batch = "2";  // otherwise the search takes the largest that fits, by design not always the fastest
  const Small s = small(c);
  const SearchResult r = search_of(s, {.all_to_all = "linear",
                                       .pipeline = PipelineShape::Interleaved,
                                       .ep_overlap = false,
                                       .most_refined = 1'000'000,
                                       .most_simulated = 1'000'000,
                                       .most_varied = 0,
                                       .most_ordered = 0});
  std::optional<SimTime> best;
  std::int64_t feasible = 0;
  for (const Candidate& candidate : all_on_four_gpus(s, /*interleaved=*/true)) {
    if (candidate.micro_batch != 2) continue;
    if (c.nodes == 2 && (candidate.degrees.tp > 2 || candidate.degrees.esp > 2)) continue;  // only if asked for
    if (!repeats_another(candidate, s.workload.mode)) ++feasible;
    const SimTime t = simulated(s, candidate);
    if (!best || t < *best) best = t;
  }
  REQUIRE(best);
  CHECK(std::ssize(r.ranked) + r.unpriced == feasible);
  REQUIRE(r.ranked.front().makespan);
  CHECK(*r.ranked.front().makespan == *best);
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
    const MemoryUse least = states(s, miss.candidate);
    CHECK(miss.memory.total() >= least.total());
  }
  SECTION("no other candidate has less of these") {
    const Bytes least = states(s, miss.candidate).total();
    for (const Candidate& candidate : all_on_four_gpus(s)) {
      CHECK(states(s, candidate).total() >= least);
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

TEST_CASE("runners-up are of different ideas where there are enough, by makespan") {
  const auto evaluated = [](std::int64_t pp, std::int64_t micro_batch, const char* schedule,
                            std::optional<SimTime> makespan = {}) {
    Evaluated e{};
    e.makespan = makespan;
    e.candidate.degrees.pp = pp;
    e.candidate.micro_batch = micro_batch;
    e.candidate.schedule = schedule;
    return e;
  };
  std::vector<Evaluated> ranked{evaluated(1, 1, "baseline"), evaluated(1, 2, "baseline"), evaluated(2, 1, "baseline"),
                                evaluated(2, 2, "baseline"), evaluated(2, 1, "parm_s1")};
  const std::vector<Evaluated> before = ranked;
  bring_ideas_forward(ranked, 4);
  const auto is = [&](std::size_t now, std::size_t then) { return ranked[now].candidate == before[then].candidate; };
  CHECK(is(0, 0));
  CHECK(is(1, 2));
  CHECK(is(2, 4));
  // There is no fourth idea: the rest stays in its order.
  CHECK(is(3, 1));
  CHECK(is(4, 3));
  SECTION("a variant that fills the places of missing ideas stands before slower ideas") {
    const SimTime second = SimTime(1), third = SimTime(2), fourth = SimTime(3);
    std::vector<Evaluated> few{evaluated(1, 1, "baseline", SimTime()), evaluated(1, 2, "baseline", second),
                               evaluated(1, 4, "baseline", third), evaluated(2, 1, "baseline", fourth)};
    bring_ideas_forward(few, 3);
    CHECK(few[0].makespan == SimTime());
    CHECK(few[1].makespan == second);
    CHECK(few[2].makespan == fourth);
    CHECK(few[3].makespan == third);  // not shown
  }
}

TEST_CASE("a pipeline over several leaf switches takes the same time with its spans kept and without") {
  // Stages on different leaves have equal machines whose links count in different order.
  const Cluster cluster = tests::built_cluster("dgx_h100", 1024);
  const ModelSpec model = read_model(load_document(tests::kConfigs / "models" / "mixtral_8x7b.yaml"));
  Workload workload = read_workload(load_document(tests::kConfigs / "workloads" / "default.yaml"));
  workload.global_batch = 1024;
  Candidate c;
  c.degrees = {.pp = 4, .dp = 256, .cp = 1, .tp = 1, .edp = 32, .ep = 8, .esp = 1};
  const Program program = lower_iteration(model, workload, c, cluster.ranks_per_node());
  StageClusters machines(cluster);
  CHECK(machines.are_equivalent(4));
  CHECK(sim::simulate(program, machines).makespan == sim::simulate(program, machines, {.keep_spans = false}).makespan);
}

}  // namespace moeplan::tests::search_test
