#include "planner/plan/tutel_dictionary.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

#include "planner/candidate/stage_layout.hpp"
#include "planner/lowering/feasibility.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/plan/tutel_document.hpp"
#include "sim/program/simulate.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::tutel_dictionary_test {

using namespace moeplan::sim;
using namespace moeplan::planner;

namespace {

/// Distinct values that fall and then rise.
std::vector<SimTime> unimodal(Random& random, std::size_t n) {
  std::vector<SimTime> out(n);
  const std::size_t least = random.below(n);
  std::int64_t t = 1'000;
  out[least] = SimTime(t);
  for (std::size_t i = least; i-- > 0;) out[i] = SimTime(t += 2 + 2 * static_cast<std::int64_t>(random.below(50)));
  t = 1'001;
  for (std::size_t i = least + 1; i < n; ++i)
    out[i] = SimTime(t += 2 + 2 * static_cast<std::int64_t>(random.below(50)));
  return out;
}

std::int64_t thirds(std::int64_t n) {
  return static_cast<std::int64_t>(std::ceil(std::log(static_cast<double>(n)) / std::log(1.5) - 1e-9));
}

}  // namespace

TEST_CASE("The least of a unimodal sequence is found with Fibonacci's number of trials") {
  rc::prop("n < F(k + 2) needs at most k", [] {
    const auto n = *rc::gen::inRange<std::size_t>(1, 200);
    Random random(*rc::gen::arbitrary<std::uint32_t>());
    const std::vector<SimTime> times = unimodal(random, n);
    std::int64_t trials = 0;
    const auto found = unimodal_least(n, [&](std::size_t i) -> std::optional<SimTime> {
      ++trials;
      return times.at(i);
    });
    RC_ASSERT(found.has_value());
    RC_ASSERT(times[*found] == *std::min_element(times.begin(), times.end()));
    std::size_t k = 1, f = 2, before = 1;  // f = F(k + 2)
    for (; f <= n; ++k) before = std::exchange(f, f + before);
    RC_ASSERT(trials <= static_cast<std::int64_t>(k));
    RC_ASSERT(trials <= thirds(static_cast<std::int64_t>(n) + 1));  // what Tutel counts for it, n = W/E - 1
  });
  SECTION("nothing to choose from") {
    CHECK_FALSE(unimodal_least(0, [](std::size_t) { return std::optional(SimTime(1)); }).has_value());
    CHECK_FALSE(unimodal_least(3, [](std::size_t) { return std::optional<SimTime>(); }).has_value());
  }
}

TEST_CASE("Tutel's count of trials") {
  // (ceil(log_{3/2} n) + 2) 4 2: log_{3/2} 8 = 5.13, so 6 + 2.
  CHECK(tutel_trials(1) == (0 + 2) * 8);
  CHECK(tutel_trials(2) == (2 + 2) * 8);
  CHECK(tutel_trials(8) == (6 + 2) * 8);
  for (std::int64_t n = 1; n < 300; ++n) CHECK(tutel_trials(n) == (thirds(n) + 2) * 8);
}

TEST_CASE("Tutel's dictionary has for each window of capacities the best r, d and a") {
  const std::vector<std::int64_t> adaptive{0, 1, 2, 4, 8};
  // Least at r = c / 128 (one of the window's), d = 2, 2dh; r = 0 is dear.
  const auto cost = [](std::int64_t c, const TutelSetting& s) {
    const std::int64_t r = s.r == 0 ? 100 : s.r, best = c / 128;
    return SimTime(1'000 + 10 * std::abs(r - best) + 3 * std::abs(s.pipeline_degree - 2) +
                   (s.all_to_all == "2dh" ? 0 : 1) + c);
  };
  SECTION("keys, and the largest capacity of each is what is priced") {
    const std::vector<std::int64_t> capacities{600, 128, 130, 255, 256};
    const std::vector<TutelEntry> entries = tutel_entries(capacities, adaptive, cost);
    REQUIRE(entries.size() == 3);
    CHECK(entries[0].key == 1);
    CHECK(entries[0].capacity == 255);
    CHECK(entries[0].best == TutelSetting{1, 2, "2dh"});
    CHECK(entries[1].best == TutelSetting{2, 2, "2dh"});
    CHECK(entries[2].key == 4);
    CHECK(entries[2].best == TutelSetting{4, 2, "2dh"});
    CHECK(entries[2].time == cost(600, {4, 2, "2dh"}));
    for (const TutelEntry& e : entries) CHECK(e.trials <= tutel_trials(4));
  }
  SECTION("one GPU an expert leaves r = 0 and 1, for which the count is exact") {
    const std::vector<std::int64_t> one{0, 1}, capacity{200};
    CHECK(tutel_entries(capacity, one, cost).front().trials == tutel_trials(1));
  }
  SECTION("settings that cannot run are no trials; a key at which none can is left out") {
    const std::vector<std::int64_t> capacity{200};
    const auto first_only = [&](std::int64_t c, const TutelSetting& s) -> std::optional<SimTime> {
      return s.pipeline_degree == 1 && s.all_to_all == "linear" && s.r == 1 ? std::optional(cost(c, s)) : std::nullopt;
    };
    const std::vector<TutelEntry> entries = tutel_entries(capacity, adaptive, first_only);
    REQUIRE(entries.size() == 1);
    CHECK(entries[0].best == TutelSetting{1, 1, "linear"});
    CHECK(entries[0].trials == 1);
    CHECK(tutel_entries(capacity, adaptive, [](std::int64_t, const TutelSetting&) {
            return std::optional<SimTime>();
          }).empty());
  }
  rc::prop("where time is unimodal in r for every d and a, it is the exhaustive best", [] {
    Random random(*rc::gen::arbitrary<std::uint32_t>());
    const auto n = *rc::gen::inRange<std::size_t>(1, 40);
    std::vector<std::int64_t> rs{0};
    for (std::size_t i = 0; i < n; ++i) rs.push_back(rs.back() + 1 + static_cast<std::int64_t>(random.below(3)));
    std::map<std::pair<std::int64_t, std::string>, std::vector<SimTime>> times;
    SimTime least(1'000'000);
    for (const std::int64_t d : {1, 2, 4, 8}) {
      for (const std::string a : {"linear", "2dh"}) {
        std::vector<SimTime>& row = times[{d, a}] = unimodal(random, n);
        const SimTime offset(static_cast<std::int64_t>(random.below(100)));
        for (SimTime& t : row) t += offset;
        row.insert(row.begin(), SimTime(900 + static_cast<std::int64_t>(random.below(500))));  // r = 0
        least = std::min(least, *std::min_element(row.begin(), row.end()));
      }
    }
    const std::vector<std::int64_t> capacity{5};
    const std::vector<TutelEntry> found =
        tutel_entries(capacity, rs, [&](std::int64_t, const TutelSetting& s) -> std::optional<SimTime> {
          const auto i = std::find(rs.begin(), rs.end(), s.r) - rs.begin();
          return times.at({s.pipeline_degree, s.all_to_all}).at(static_cast<std::size_t>(i));
        });
    RC_ASSERT(found.size() == 1U);
    RC_ASSERT(found[0].time == least);
    RC_ASSERT(found[0].trials <= tutel_trials(static_cast<std::int64_t>(n)));
  });
}

TEST_CASE("A workload whose capacity changes gets a dictionary of its layer") {
  tests::SmallCase c{.nodes = 2, .gpus_per_node = 4, .experts = 2, .top_k = 1, .capacity = "1.0"};
  c.sequence = 2048;
  tests::Small s = tests::small(c);
  Candidate plan;
  plan.degrees = {.dp = 8, .edp = 4, .ep = 2};
  CHECK(tutel_dictionaries(s.model, s.workload, s.cluster, plan).empty());
  s.workload.capacity_factors = {0.1, 1, 2};
  const std::vector<TutelDictionary> all = tutel_dictionaries(s.model, s.workload, s.cluster, plan);
  REQUIRE(all.size() == 1);
  const TutelDictionary& d = all.front();
  CHECK(d.most_adaptive == 8 / 2);
  CHECK(d.most_trials == tutel_trials(3));  // r = 1, 2, 4
  REQUIRE(d.entries.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto capacity = static_cast<std::int64_t>(std::ceil(s.workload.capacity_factors[i] * 2048 / 2));
    CHECK(d.entries[i].capacity == capacity);
    CHECK(d.entries[i].key == capacity / 128);
    CHECK(d.entries[i].trials > 0);
    CHECK(d.entries[i].trials <= d.most_trials);
  }
  SECTION("no other setting is faster where all are tried") {
    TutelOptions few;
    few.all_to_alls = {"linear"};
    few.pipeline_degrees = {1};
    const TutelDictionary one = tutel_dictionaries(s.model, s.workload, s.cluster, plan, few).front();
    for (std::size_t i = 0; i < 3; ++i) CHECK(d.entries[i].time <= one.entries[i].time);
  }
  SECTION("it stands in a document and reads back") {
    Node document = Node::map();
    document.set("tutel", tutel_document(all));
    const Node read = parse_yaml(to_yaml(document), "f");
    Diagnostics diagnostics;
    MapReader reader(read, "", diagnostics);
    CHECK(read_tutel(reader, "tutel") == all);
    CHECK(diagnostics.empty());
  }
}

TEST_CASE("Tutel's dictionary has the times of the layer with the schedule of each r") {
  tests::SmallCase c{.nodes = 2, .gpus_per_node = 4, .experts = 2, .top_k = 1, .capacity = "1.0"};
  c.mode = GENERATE("forward", "train");
  c.sequence = 2048;
  tests::Small s = tests::small(c);
  s.workload.capacity_factors = {0.1, 1, 4};  // a key each
  Candidate plan;
  plan.degrees = {.dp = 8, .edp = 4, .ep = 2};
  plan.schedule = GENERATE("baseline", "s1_deferred");  // of the plan, which is not asked
  const Moe moe = moe_layers(s.model).front();

  const auto time = [&](double factor, std::int64_t r, std::int64_t degree, const std::string& all_to_all) {
    Candidate layer = plan;
    layer.degrees = {.dp = 8, .ep = 2, .esp = 4};  // an expert on W/E = 4 GPUs
    layer = LayerStrategy{"tutel_r" + std::to_string(r), all_to_all, degree}.in(layer);
    Workload workload = s.workload;
    workload.capacity_factor = factor;
    const std::int64_t per_node = s.cluster.ranks_per_node();
    if (layer_infeasibility(c.hidden, workload, layer, per_node)) return std::optional<SimTime>();
    const Program program = lower_moe_layer(moe, c.hidden, c.sequence, workload, layer, per_node);
    return std::optional(simulate(program, s.cluster).makespan);
  };
  const std::vector<TutelDictionary> all = tutel_dictionaries(s.model, s.workload, s.cluster, plan);
  REQUIRE(all.size() == 1);
  REQUIRE(all.front().entries.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const TutelEntry& entry = all.front().entries[i];
    const double factor = s.workload.capacity_factors[i];
    CAPTURE(factor, entry.best.r, entry.best.pipeline_degree, entry.best.all_to_all);
    CHECK(time(factor, entry.best.r, entry.best.pipeline_degree, entry.best.all_to_all) == entry.time);
    for (const std::int64_t r : {0, 4}) {  // what the search tries whatever it finds between
      for (const std::int64_t degree : {1, 2, 4, 8}) {
        for (const std::string all_to_all : {"linear", "2dh"}) {
          CHECK(entry.time <= time(factor, r, degree, all_to_all).value_or(entry.time));
        }
      }
    }
  }
}

TEST_CASE("Tutel's dictionary chooses among the r that divide an expert's shards") {
  const auto [nodes, experts, hidden, best_of] = GENERATE(
      table<int, std::int64_t, std::int64_t, std::vector<std::int64_t>>({{2, 8, 512, {0, 1}},
                                                                         {2, 4, 512, {0, 1, 2}},
                                                                         {2, 1, 512, {0, 1, 2, 4, 8}},
                                                                         {2, 1, 516, {0, 1, 2, 4}},
                                                                         {3, 1, 516, {0, 1, 2, 3, 4, 6, 12}}}));
  CAPTURE(nodes, experts, hidden);
  const std::int64_t ranks = 4 * nodes;
  tests::SmallCase c{.nodes = nodes, .gpus_per_node = 4, .experts = experts, .top_k = 1, .capacity = "1.0"};
  c.expert_hidden = hidden;
  tests::Small s = tests::small(c);
  s.workload.capacity_factors = {1};
  Candidate plan;
  plan.degrees = {.dp = ranks, .edp = ranks};
  const std::vector<TutelDictionary> all = tutel_dictionaries(s.model, s.workload, s.cluster, plan);
  REQUIRE(all.size() == 1);
  CHECK(all.front().most_adaptive == ranks / experts);
  CHECK(all.front().most_trials == tutel_trials(std::ssize(best_of) - 1));
  REQUIRE(all.front().entries.size() == 1);
  CHECK(std::count(best_of.begin(), best_of.end(), all.front().entries.front().best.r) == 1);
}

}  // namespace moeplan::tests::tutel_dictionary_test
