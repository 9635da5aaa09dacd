#include "model/workload/routing.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <future>
#include <numeric>

#include "tests/support/checks.hpp"

namespace moeplan::tests::routing_test {

using moeplan::tests::error_of;

namespace {

using Row = std::vector<std::int64_t>;

Row row_of(const RoutingCounts& counts, std::int64_t source) {
  Row row;
  for (std::int64_t e = 0; e < counts.experts(); ++e) {
    row.push_back(counts.at(RankId(static_cast<std::int32_t>(source)), ExpertId(static_cast<std::int32_t>(e))));
  }
  return row;
}
std::int64_t sum(const Row& row) { return std::accumulate(row.begin(), row.end(), std::int64_t{0}); }

std::string routing_error(const std::string& yaml) {
  const Node document = parse_yaml(yaml, "f");
  return error_of([&] {
    Diagnostics diagnostics;
    (void)read_routing(MapReader(document, "routing", diagnostics));
    diagnostics.throw_if_any();
  });
}

/// SplitMix64 and Fisher-Yates, written again for the golden test. Rejection plays no part for so small an n.
std::vector<std::size_t> seeded_order(std::uint64_t seed, std::size_t n) {
  const auto mix = [](std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  };
  std::uint64_t state = mix(mix(seed));
  std::vector<std::size_t> order(n);
  for (std::size_t i = 0; i < n; ++i) order[i] = i;
  for (std::size_t i = n; i > 1; --i) std::swap(order[i - 1], order[mix(state += 0x9e3779b97f4a7c15ULL) % i]);
  return order;
}

}  // namespace

TEST_CASE("Routing counts are kept as compactly as they allow") {
  SECTION("equal numbers become one number, equal rows one row") {
    CHECK(RoutingCounts::dense(2, 3, {4, 4, 4, 4, 4, 4}) == RoutingCounts::uniform(2, 3, 4));
    CHECK(RoutingCounts::dense(2, 3, {1, 2, 3, 1, 2, 3}) == RoutingCounts::by_expert(2, {1, 2, 3}));
    CHECK(RoutingCounts::by_expert(5, {7, 7}).is_uniform());
    const RoutingCounts all = RoutingCounts::dense(2, 3, {1, 2, 3, 1, 2, 4});
    CHECK_FALSE(all.same_for_all_sources());
    CHECK(row_of(all, 1) == Row{1, 2, 4});
    CHECK(RoutingCounts::dense(1, 2, {1, 2}).same_for_all_sources());
    CHECK(RoutingCounts::dense(3, 1, {1, 2, 3}).same_for_all_sources() == false);
  }
  SECTION("the load of an expert is its column's sum") {
    CHECK(RoutingCounts::uniform(4, 2, 3).expert_load() == Row{12, 12});
    CHECK(RoutingCounts::by_expert(4, {1, 2}).expert_load() == Row{4, 8});
    CHECK(RoutingCounts::dense(2, 2, {1, 2, 3, 4}).expert_load() == Row{4, 6});
  }
}

TEST_CASE("Expected counts follow the shape") {
  SECTION("uniform: tokens top_k / experts, what remains at even distances, because holders' loads are then as even") {
    CHECK(make_routing({.shape = RoutingShape::Uniform}, 8, 4, 100, 2, 1) == RoutingCounts::uniform(8, 4, 100 * 2 / 4));
    CHECK(make_routing({.shape = RoutingShape::Uniform}, 8, 3, 10, 1, 1) == RoutingCounts::by_expert(8, {3, 3, 4}));
    CHECK(make_routing({.shape = RoutingShape::Uniform}, 8, 6, 5, 2, 1) ==
          RoutingCounts::by_expert(8, {1, 2, 2, 1, 2, 2}));
  }
  SECTION("balanced: remainders spread, because they rotate over the sources") {
    const RoutingCounts counts = make_routing({.shape = RoutingShape::Balanced}, 3, 3, 10, 1, 1);
    CHECK(row_of(counts, 0) == Row{4, 3, 3});
    CHECK(row_of(counts, 1) == Row{3, 4, 3});
    CHECK(row_of(counts, 2) == Row{3, 3, 4});
    CHECK(counts.expert_load() == Row{10, 10, 10});
  }
  SECTION("zipf: popularity (i + 1)^-s in seeded order, rounded by largest remainder; golden for seed 11") {
    constexpr std::size_t kExperts = 8;
    constexpr std::int64_t kTokens = 1000;
    const double s = 1.2;
    const std::vector<std::size_t> order = seeded_order(11, kExperts);
    double total = 0;
    for (std::size_t i = 1; i <= kExperts; ++i) total += std::pow(static_cast<double>(i), -s);
    std::vector<double> exact(kExperts);
    for (std::size_t i = 0; i < kExperts; ++i) {
      exact[order[i]] = std::pow(static_cast<double>(i + 1), -s) / total * static_cast<double>(kTokens);
    }
    const RoutingCounts counts =
        make_routing({.shape = RoutingShape::Zipf, .zipf_exponent = s, .seed = 11}, 4, kExperts, kTokens, 1, 1);
    const Row row = row_of(counts, 0);
    CHECK(sum(row) == kTokens);
    // Largest remainder: floor or floor + 1 each, and whoever is rounded up has no smaller a remainder than the others.
    double least_up = 1, most_down = 0;
    for (std::size_t e = 0; e < kExperts; ++e) {
      const double below = std::floor(exact[e]);
      const bool up = row[e] == static_cast<std::int64_t>(below) + 1;
      CHECK((up || row[e] == static_cast<std::int64_t>(below)));
      if (up) least_up = std::min(least_up, exact[e] - below);
      if (!up) most_down = std::max(most_down, exact[e] - below);
    }
    CHECK(least_up >= most_down);
    CHECK(counts.same_for_all_sources());
  }
  SECTION("a skewed expert takes at most one selection a token, because top_k experts are distinct") {
    const RoutingCounts counts =
        make_routing({.shape = RoutingShape::Zipf, .zipf_exponent = 20, .seed = 3}, 2, 6, 100, 2, 1);
    const std::vector<std::size_t> order = seeded_order(3, 6);
    Row expected(6, 0);
    expected[order[0]] = 100;  // the rest of 200 selections goes to the next most popular
    expected[order[1]] = 100;
    CHECK(row_of(counts, 0) == expected);
  }
  SECTION("spread: as many hot experts as a hot rank has, as far apart as they can be") {
    // 8 ranks of 4 experts: 1 / 8 of the ranks is hot, so 4 experts, 8 apart; shares 4 / 44 and 1 / 44.
    const Row load = row_of(make_routing({.shape = RoutingShape::Spread, .seed = 5}, 2, 32, 440, 1, 4), 0);
    std::vector<std::size_t> hot;
    for (std::size_t e = 0; e < load.size(); ++e) {
      CHECK((load[e] == 40 || load[e] == 10));
      if (load[e] == 40) hot.push_back(e);
    }
    REQUIRE(hot.size() == 4);
    for (std::size_t i = 1; i < 4; ++i) CHECK(hot[i] - hot[i - 1] == 8);
  }
  SECTION("hot experts have hot_factor times a cold one's load") {
    // 2 of 16 hot, factor 4: shares 4 and 1 of 2 * 4 + 14 = 22.
    const Row row = row_of(make_routing({.shape = RoutingShape::HotExpert}, 4, 16, 2200, 1, 1), 0);
    CHECK(std::count(row.begin(), row.end(), 400) == 2);
    CHECK(std::count(row.begin(), row.end(), 100) == 14);
  }
  SECTION("a hot rank's experts are all hot") {
    // 1 of 8 ranks with 2 experts each.
    const Row row = row_of(make_routing({.shape = RoutingShape::HotRank}, 8, 16, 2200, 1, 2), 0);
    const auto hot = std::find(row.begin(), row.end(), 400) - row.begin();
    CHECK(hot % 2 == 0);
    CHECK(row[static_cast<std::size_t>(hot) + 1] == 400);
    CHECK(std::count(row.begin(), row.end(), 100) == 14);
  }
  SECTION("zero-load experts get nothing, and top_k others remain") {
    const Row row = row_of(make_routing({.shape = RoutingShape::ZeroLoad, .hot_fraction = 0.25}, 4, 16, 1200, 1, 1), 0);
    CHECK(std::count(row.begin(), row.end(), 0) == 4);
    CHECK(std::count(row.begin(), row.end(), 100) == 12);
    CHECK(row_of(make_routing({.shape = RoutingShape::ZeroLoad, .hot_fraction = 1}, 1, 4, 10, 4, 1), 0) == Row(4, 10));
  }
  SECTION("ragged sources differ by up to their share, their sum does not") {
    const RoutingCounts counts = make_routing({.shape = RoutingShape::Ragged, .ragged_spread = 0.25}, 9, 4, 1000, 2, 1);
    std::int64_t total = 0;
    std::vector<std::int64_t> rows;
    for (std::int64_t source = 0; source < 9; ++source) {
      rows.push_back(sum(row_of(counts, source)));
      CHECK(std::abs(rows.back() - 2000) <= 500);
      total += rows.back();
    }
    CHECK(total == 9 * 2000);
    CHECK(*std::max_element(rows.begin(), rows.end()) > 2000);
  }
  SECTION("lognormal: the logarithm of an expert's load has the standard deviation sigma") {
    const Row row =
        row_of(make_routing({.shape = RoutingShape::Lognormal, .lognormal_sigma = 0.5}, 1, 2000, 100'000'000, 1, 1), 0);
    double mean = 0, squares = 0;
    for (const std::int64_t c : row) mean += std::log(static_cast<double>(c)) / 2000;
    for (const std::int64_t c : row) squares += std::pow(std::log(static_cast<double>(c)) - mean, 2) / 2000;
    CHECK(std::sqrt(squares) == Approx(0.5).epsilon(5 / std::sqrt(2.0 * 2000)));  // five standard errors
  }
}

TEST_CASE("Sampled counts scatter around the expected ones") {
  const RoutingScenario scenario{.shape = RoutingShape::Zipf, .zipf_exponent = 0.8, .sampled = true, .seed = 5};
  RoutingScenario expected_scenario = scenario;
  expected_scenario.sampled = false;
  const std::int64_t sources = 200, experts = 32, tokens = 4096;
  const RoutingCounts sampled = make_routing(scenario, sources, experts, tokens, 1, 1);
  const Row expected = make_routing(expected_scenario, sources, experts, tokens, 1, 1).expert_load();
  const Row load = sampled.expert_load();
  CHECK_FALSE(sampled.same_for_all_sources());
  for (std::size_t e = 0; e < load.size(); ++e) {
    const double n = static_cast<double>(sources * tokens), p = static_cast<double>(expected[e]) / n;
    // Five standard deviations of a binomial, and what rounding moved: one token a source.
    CHECK(std::abs(static_cast<double>(load[e] - expected[e])) <
          5 * std::sqrt(n * p * (1 - p)) + static_cast<double>(sources));
  }
  SECTION("a source's row does not depend on how many sources there are") {
    CHECK(row_of(make_routing(scenario, 3, experts, tokens, 1, 1), 2) == row_of(sampled, 2));
  }
  SECTION("another seed gives other counts") {
    RoutingScenario other = scenario;
    other.seed = 6;
    CHECK_FALSE(make_routing(other, sources, experts, tokens, 1, 1) == sampled);
  }
}

TEST_CASE("Samples that were drawn before are the same again, for more and for fewer sources") {
  RoutingScenario zipf{.shape = RoutingShape::Zipf, .sampled = true};
  const auto made = [&](std::int64_t sources, std::int64_t tokens) {
    return make_routing(zipf, sources, 32, tokens, 4, 8);
  };
  const auto for_the_first_time = [&](std::int64_t sources, std::int64_t tokens) {  // each thread keeps its own
    return std::async(std::launch::async, made, sources, tokens).get();
  };
  for (const std::uint64_t seed : {1U, 2U, 1U}) {
    zipf.seed = seed;
    for (const auto& [sources, tokens] : {std::pair(4, 100), {16, 100}, {8, 100}, {8, 101}, {16, 100}})
      CHECK(made(sources, tokens) == for_the_first_time(sources, tokens));
  }
  SECTION("also where too many were drawn to keep them") {
    for (std::int64_t tokens = 1; tokens < 60; ++tokens) (void)make_routing(zipf, 1024, 64, tokens, 2, 8);
    CHECK(made(16, 100) == for_the_first_time(16, 100));
    CHECK(make_routing(zipf, 40'000, 64, 3, 2, 8).at(RankId(39'999), ExpertId(1)) >= 0);
  }
}

TEST_CASE("Whatever the scenario, rows are whole and within bounds") {
  rc::prop("row sums, bounds, determinism", [] {
    RoutingScenario s;
    s.shape = kRoutingShapeNames[*rc::gen::inRange<std::size_t>(0, kRoutingShapeNames.size())].first;
    s.zipf_exponent = *rc::gen::inRange(0, 201) / 10.0;
    s.lognormal_sigma = *rc::gen::inRange(0, 101) / 10.0;
    s.hot_fraction = *rc::gen::inRange(0, 101) / 100.0;
    s.hot_factor = *rc::gen::element(1.0, 2.5, 1e6);
    s.ragged_spread = *rc::gen::inRange(0, 101) / 100.0;
    s.sampled = *rc::gen::arbitrary<bool>();
    s.seed = *rc::gen::arbitrary<std::uint64_t>();
    const auto sources = *rc::gen::inRange<std::int64_t>(1, 12);
    const auto experts = *rc::gen::inRange<std::int64_t>(1, 40);
    const auto top_k = *rc::gen::inRange<std::int64_t>(1, experts + 1);
    const auto tokens =
        *rc::gen::oneOf(rc::gen::inRange<std::int64_t>(0, 50), rc::gen::inRange<std::int64_t>(0, 5'000'000'000));
    const RoutingCounts counts =
        make_routing(s, sources, experts, tokens, top_k, *rc::gen::inRange<std::int64_t>(1, 9));
    std::int64_t total = 0;
    for (std::int64_t source = 0; source < sources; ++source) {
      const Row row = row_of(counts, source);
      const std::int64_t selections = sum(row);
      RC_ASSERT(selections % top_k == 0);
      RC_ASSERT(s.shape == RoutingShape::Ragged || selections == tokens * top_k);
      for (const std::int64_t c : row) RC_ASSERT(c >= 0 && c <= selections / top_k);
      total += selections;
    }
    RC_ASSERT(total == sources * tokens * top_k);
    const Row load = counts.expert_load();
    RC_ASSERT(sum(load) == total);
    if (s.shape == RoutingShape::Balanced) {
      RC_ASSERT(*std::max_element(load.begin(), load.end()) - *std::min_element(load.begin(), load.end()) <= 1);
    }
  });
  SECTION("2,048 sources and 256 experts are no work") {
    const RoutingCounts counts = make_routing({.shape = RoutingShape::Zipf, .sampled = true}, 2048, 256, 4096, 8, 4);
    CHECK(sum(counts.expert_load()) == std::int64_t{2048} * 4096 * 8);
  }
}

TEST_CASE("The most loaded expert has as many means as max_load says") {
  constexpr std::int64_t kTokens = 1'000'000;
  for (const std::int64_t experts : {2, 8, 128, 384}) {
    for (const double max_load : {1.0, 1.04, 1.5, 1.9}) {
      const Row row = row_of(
          make_routing({.shape = RoutingShape::Lognormal, .max_load = max_load, .seed = 7}, 1, experts, kTokens, 1, 1),
          0);
      const double mean = static_cast<double>(sum(row)) / static_cast<double>(experts);
      CHECK(static_cast<double>(*std::max_element(row.begin(), row.end())) / mean == Approx(max_load).epsilon(1e-3));
    }
  }
  SECTION("a stage's is that of its source on the average of many draws") {
    double sum_of_loads = 0;
    constexpr int kDraws = 200;
    for (std::uint64_t seed = 0; seed < kDraws; ++seed) {
      const RoutingScenario s{.shape = RoutingShape::Lognormal,
                              .lognormal_sigma = lognormal_sigma_of(RoutingStage::AuxiliaryLoss),
                              .seed = seed};
      const Row row = row_of(make_routing(s, 1, 64, kTokens, 1, 1), 0);
      sum_of_loads +=
          static_cast<double>(*std::max_element(row.begin(), row.end())) / (static_cast<double>(kTokens) / 64);
    }
    CHECK(sum_of_loads / kDraws == Approx(1.52).epsilon(0.02));
  }
}

TEST_CASE("A routing scenario is read strictly") {
  SECTION("its text reads back") {
    const RoutingScenario s{
        .shape = RoutingShape::HotRank, .hot_fraction = 0.3, .hot_factor = 7, .sampled = true, .seed = 42};
    const Node document = parse_yaml(to_yaml(routing_document(s)), "f");
    Diagnostics diagnostics;
    CHECK(read_routing(MapReader(document, "routing", diagnostics)) == s);
    CHECK(diagnostics.empty());
  }
  SECTION("with the most loaded expert's load in place of a sigma") {
    const RoutingScenario s{.shape = RoutingShape::Lognormal, .max_load = 1.5};
    const Node document = parse_yaml(to_yaml(routing_document(s)), "f");
    Diagnostics diagnostics;
    CHECK(read_routing(MapReader(document, "routing", diagnostics)) == s);
    CHECK(diagnostics.empty());
  }
  SECTION("a stage of training is its lognormal loads") {
    const Node document = parse_yaml("stage: auxiliary_loss\nseed: 5\n", "f");
    Diagnostics diagnostics;
    CHECK(read_routing(MapReader(document, "routing", diagnostics)) ==
          RoutingScenario{.shape = RoutingShape::Lognormal, .lognormal_sigma = 0.19, .seed = 5});
    CHECK(diagnostics.empty());
  }
  SECTION("what is wrong is said") {
    CHECK(
        routing_error("shape: zipff\nzipf_exponent: -1\nhot: 1\ncold: 1\n") ==
        "f:1:8: routing.shape: \"zipff\" is not known; did you mean \"zipf\"?\n"
        "f:2:16: routing.zipf_exponent: -1 is out of range; expected 0 to 20\n"
        "f:3:1: routing.hot: unknown key; did you mean \"hot_factor\"?\n"
        "f:4:1: routing.cold: unknown key; one of hot_factor, hot_fraction, lognormal_sigma, max_load, ragged_spread, "
        "sampled, seed, shape, stage, zipf_exponent");
    CHECK(routing_error("stage: auxiliary_los\nshape: zipf\nmax_load: 2\n") ==
          "f:1:8: routing.stage: \"auxiliary_los\" is not known; did you mean \"auxiliary_loss\"?\n"
          "f:2:8: routing.shape: has no place next to a stage, which has its own\n"
          "f:3:11: routing.max_load: has no place next to a stage, which has its own");
    CHECK(routing_error("shape: zipf\nmax_load: 2\n") == "f:2:11: routing.max_load: is of lognormal loads only");
    CHECK(routing_error("shape: lognormal\nmax_load: 2\nlognormal_sigma: 1\n") ==
          "f:3:18: routing.lognormal_sigma: follows from max_load; expected one of them");
    CHECK(routing_error("shape: balanced\nsampled: true\n") ==
          "f:2:10: routing.sampled: balanced routing leaves nothing to draw; take uniform, or sampled: false");
    CHECK(routing_error("{}") == "f:1:1: routing.shape: missing key");
  }
}

TEST_CASE("Sums over ranges of sources and experts are those of the counts") {
  constexpr std::int64_t kSources = 7, kExperts = 5;
  std::vector<std::int64_t> counts;
  for (std::int64_t i = 0; i < kSources * kExperts; ++i) counts.push_back(i < 2 * kExperts ? i % kExperts : i * i % 11);
  const RoutingCounts all = RoutingCounts::dense(kSources, kExperts, counts);
  const auto added = [&](std::int64_t source, std::int64_t sources, std::int64_t expert, std::int64_t experts) {
    std::int64_t sum = 0;
    for (std::int64_t s = source; s < source + sources; ++s) {
      for (std::int64_t e = expert; e < expert + experts; ++e)
        sum += counts[static_cast<std::size_t>(s * kExperts + e)];
    }
    return sum;
  };
  for (std::int64_t source = 0; source < kSources; ++source) {
    for (std::int64_t sources = 0; source + sources <= kSources; ++sources) {
      for (std::int64_t expert = 0; expert < kExperts; ++expert) {
        for (std::int64_t experts = 0; expert + experts <= kExperts; ++experts)
          CHECK(all.sum(RankId(static_cast<std::int32_t>(source)), sources, ExpertId(static_cast<std::int32_t>(expert)),
                        experts) == added(source, sources, expert, experts));
      }
    }
  }
  for (std::int64_t sources = 1; sources <= kSources; ++sources) {
    const auto used = counts.begin() + static_cast<std::ptrdiff_t>(sources * kExperts);
    const RoutingCounts alone = RoutingCounts::dense(sources, kExperts, {counts.begin(), used});
    const RoutingCounts first = all.of_first(sources);
    CHECK(first == alone);
    CHECK(alone == first);
    CHECK(first.same_for_all_sources() == (sources <= 2));  // the first two have equal rows
    CHECK(first.expert_load() == alone.expert_load());
    CHECK((first == all) == (sources == kSources));
  }
}

}  // namespace moeplan::tests::routing_test
