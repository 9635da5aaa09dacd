// The decisions of a search: fixed by the user, or the best of those that are possible.
#include <algorithm>
#include <catch2/catch.hpp>

#include "planner/search/search.hpp"
#include "tests/support/small_cases.hpp"

namespace moeplan::tests::search_decisions_test {

using namespace moeplan::planner;
using moeplan::tests::small;
using moeplan::tests::Small;
using moeplan::tests::SmallCase;

namespace {

SearchResult search_of(const Small& s, const SearchSpace& space = {}) {
  return search({s.model, s.workload, s.cluster}, space);
}

}  // namespace

TEST_CASE("A degree or schedule that the user fixed is the only one searched") {
  const Small s = small({});
  SECTION("with and without sequence parallelism, which cannot be pinned") {
    const SearchResult r =
        search_of(s, {.schedule = "baseline", .tp = 2, .ep = 2, .esp = 2, .ep_overlap = false, .most_ordered = 0});
    REQUIRE(r.enumerated == 2);
    REQUIRE(r.ranked.size() == 2);
    CHECK(r.ranked[0].candidate.sequence_parallel != r.ranked[1].candidate.sequence_parallel);
    for (const Evaluated& e : r.ranked) {
      CHECK(e.candidate.schedule == "baseline");
      CHECK(e.candidate.degrees == Degrees{.pp = 1, .dp = 2, .cp = 1, .tp = 2, .edp = 1, .ep = 2, .esp = 2});
    }
  }
  SECTION("stages and shards of the sequence") {
    const SearchResult r = search_of(s, {.cp = 2, .pp = 2});
    REQUIRE_FALSE(r.ranked.empty());
    for (const Evaluated& e : r.ranked) {
      CHECK(e.candidate.degrees.pp == 2);
      CHECK(e.candidate.degrees.cp == 2);
    }
  }
}

TEST_CASE("A schedule that needs several chunks is found where it is asked for without their number") {
  SmallCase c;
  const Small s = small(c);
  const SearchResult r = search({s.model, s.workload, s.cluster}, {.schedule = "s1_tapered", .ep = 4, .threads = 1});
  REQUIRE_FALSE(r.ranked.empty());
  for (const Evaluated& e : r.ranked) {
    CHECK(e.candidate.schedule == "s1_tapered");
    CHECK(e.candidate.pipeline_degree >= 3);
  }
}

TEST_CASE("With an automatic micro batch the largest that fits is taken") {
  SmallCase c;
  c.dense_layers = 0;
  const Small roomy = small(c);
  const SearchSpace one{.schedule = "baseline", .tp = 1, .ep = 4, .esp = 1, .pp = 1};
  const Evaluated whole = search_of(roomy, one).ranked.at(0);
  CHECK(whole.candidate.micro_batch == roomy.workload.global_batch / 4);
  SECTION("a GPU with one byte less than that needs runs half of it because powers of two are tried") {
    c.memory = std::to_string(static_cast<std::int64_t>(whole.memory.total().value()) - 1) + " B";
    CHECK(search_of(small(c), one).ranked.at(0).candidate.micro_batch == whole.candidate.micro_batch / 2);
  }
}

TEST_CASE("Recomputation that the workload leaves open is the fastest that fits", "[slow]") {
  SmallCase c;
  c.dense_layers = 0;
  c.recompute = "auto";
  const SearchSpace one{
      .schedule = "baseline", .tp = 1, .ep = 4, .esp = 1, .pp = 1, .ep_overlap = false, .most_ordered = 0};
  const auto memory_of = [&](const char* recompute, std::int64_t micro_batch) {
    SmallCase fixed = c;
    fixed.recompute = recompute;
    fixed.micro_batch = std::to_string(micro_batch);
    return static_cast<std::int64_t>(search_of(small(fixed), one).ranked.at(0).memory.total().value());
  };
  SECTION("none where memory is ample, because everything else does more") {
    const SearchResult r = search_of(small(c), one);
    REQUIRE(r.ranked.size() == 1);
    CHECK(r.ranked[0].candidate.recompute == Recompute::None);
  }
  SECTION("more where that makes room for a larger micro batch, and both are compared") {
    REQUIRE(memory_of("selective", 2) < memory_of("none", 2));
    c.memory = std::to_string(memory_of("selective", 2)) + " B";
    const SearchResult r = search_of(small(c), one);
    REQUIRE(r.ranked.size() == 2);
    for (const Evaluated& e : r.ranked) {
      REQUIRE(e.makespan);
      CHECK(e.candidate.recompute == (e.candidate.micro_batch == 2 ? Recompute::Selective : Recompute::None));
    }
    CHECK(r.enumerated == 2);
  }
  SECTION("the best is the best of the workloads that say it") {
    c.memory = "100 MB";
    const SearchResult open = search_of(small(c));
    REQUIRE_FALSE(open.ranked.empty());
    for (const char* recompute : {"none", "selective", "layernorm+moe+ffn_act",
                                  "mla_up_proj+mlp+layernorm+moe+shared_experts+projections", "full"}) {
      SmallCase fixed = c;
      fixed.recompute = recompute;
      const SearchResult r = search_of(small(fixed));
      if (r.ranked.empty()) continue;
      CAPTURE(recompute);
      CHECK(*open.ranked.front().makespan <= *r.ranked.front().makespan);
    }
  }
  SECTION("a workload that says too little is told what would fit") {
    const std::int64_t selective = memory_of("selective", 1);
    REQUIRE(selective < memory_of("none", 1));
    c.memory = std::to_string(selective) + " B";
    c.recompute = "none";
    const SearchResult r = search_of(small(c), one);
    CHECK(r.ranked.empty());
    CHECK(r.fits_with == Recompute::Selective);
    c.recompute = "selective";
    CHECK_FALSE(search_of(small(c), one).ranked.empty());
  }
}

TEST_CASE("Replicas of an expert are neighbours where their gradients weigh more than the tokens") {
  SmallCase c;
  c.nodes = 2;
  c.fabric_bandwidth = "1 GB/s";
  c.expert_hidden = 4096;
  c.sequence = 16;
  // On nodes of four, two ranks of experts: with ep inside, each expert is on both nodes; with dp inside, on one.
  const SearchSpace one{.schedule = "baseline", .tp = 1, .ep = 2, .esp = 1, .pp = 1, .most_ordered = 0};
  const auto order_of = [&] { return search_of(small(c), one).ranked.at(0).candidate.rank_order; };
  CHECK(order_of() == RankOrder::ReplicasInner);
  SECTION("and not where the tokens weigh more") {
    c.expert_hidden = 64;
    c.sequence = 4096;
    c.global_batch = 64;
    CHECK(order_of() == RankOrder::Megatron);
  }
  SECTION("nor inside one node, where the order is not asked for") {
    c.nodes = 1;
    const SearchResult r = search_of(small(c), one);
    CHECK(std::ranges::all_of(r.ranked,
                              [](const Evaluated& e) { return e.candidate.rank_order == RankOrder::Megatron; }));
  }
}

TEST_CASE("Where experts span nodes, candidates are also priced with rows that go to each node once") {
  SmallCase c;
  c.nodes = 2;
  c.top_k = 4;
  c.fabric_bandwidth = "1 GB/s";
  SearchSpace one{.tp = 1, .ep = 8, .esp = 1, .pp = 1, .ep_overlap = false, .most_varied = 0, .most_ordered = 0};
  const auto is_deduplicated = [](const Evaluated& e) { return e.candidate.all_to_all == "node_dedup"; };
  CHECK(is_deduplicated(search_of(small(c), one).ranked.at(0)));
  SECTION("not with another all-to-all that the user fixed") {
    one.all_to_all = "linear";
    CHECK(std::ranges::none_of(search_of(small(c), one).ranked, is_deduplicated));
  }
  SECTION("nor inside a node") {
    one.ep = 4;
    CHECK(std::ranges::none_of(search_of(small(c), one).ranked, is_deduplicated));
  }
}

TEST_CASE("Microbatches overlap, and stages are in a V, where that is faster or pinned", "[slow]") {
  SmallCase c;
  c.nodes = 2;
  c.moe_layers = 8;
  c.fabric_bandwidth = "4 GB/s";
  c.global_batch = 32;
  c.micro_batch = "1";
  const Small s = small(c);
  for (const std::int64_t pp : {1, 2}) {
    CAPTURE(pp);
    SearchSpace space{.schedule = "baseline", .tp = 1, .ep = 4, .pp = pp};
    const SearchResult all = search_of(s, space);
    const Evaluated& best = all.ranked.at(0);
    if (pp == 1) CHECK(best.candidate.ep_overlap);
    CHECK(all.global_bound <= best.makespan->seconds());
    for (const bool overlaps : {false, true}) {
      for (const bool delays : {false, true}) {
        if (delays && !overlaps) continue;
        SearchSpace pinned = space;
        pinned.ep_overlap = overlaps;
        pinned.delays_weight_gradients = delays;
        const SearchResult r = search_of(s, pinned);
        CAPTURE(overlaps, delays);
        CHECK(*best.makespan <= *r.ranked.at(0).makespan);
        for (const Evaluated& e : r.ranked) {
          CHECK(e.candidate.ep_overlap == overlaps);
          CHECK(e.candidate.delays_weight_gradients == delays);
        }
      }
    }
    for (const PipelineShape shape : {PipelineShape::Interleaved, PipelineShape::V}) {
      if (pp == 1) continue;
      SearchSpace pinned = space;
      pinned.pipeline = shape;
      const SearchResult r = search_of(s, pinned);
      CHECK(*best.makespan <= *r.ranked.at(0).makespan);
      for (const Evaluated& e : r.ranked) CHECK(e.candidate.pipeline == shape);
    }
  }
}

}  // namespace moeplan::tests::search_decisions_test
