#include "model/workload/routing_trace.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <catch2/catch.hpp>

#include "model/text/line_reader.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::routing_trace_test {

using moeplan::tests::error_of;
using moeplan::tests::TemporaryDirectory;

namespace {

RoutingTrace read_text(const std::string& text) {
  const TemporaryDirectory dir;
  return read_routing_trace(dir.write("t.csv", text));
}

/// What is wrong, line by line, without the file's name.
std::vector<std::string> errors(const std::string& text) {
  const TemporaryDirectory dir;
  std::vector<std::string> list;
  try {
    (void)read_routing_trace(dir.write("t.csv", text));
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics()) list.push_back(std::to_string(d.where.line) + ": " + d.message);
  }
  return list;
}
using Errors = std::vector<std::string>;

const std::string kSmall =
    "iteration,layer,rank,e0,e1,e2\n"
    "5,0,0,1,2,3\n5,0,1,4,5,6\n5,1,0,7,8,9\n5,1,1,10,11,12\n"
    "9,0,0,0,0,1\n9,0,1,0,1,0\n9,1,0,1,0,0\n9,1,1,0,0,0\n";

}  // namespace

TEST_CASE("A routing trace is read from CSV") {
  const RoutingTrace trace = read_text(kSmall);
  SECTION("as counts by iteration, layer, source and expert") {
    CHECK(std::vector<std::int64_t>(trace.iterations().begin(), trace.iterations().end()) ==
          std::vector<std::int64_t>{5, 9});
    CHECK(trace.layers() == 2);
    CHECK(trace.sources() == 2);
    CHECK(trace.experts() == 3);
    CHECK(trace.counts(0, 1) == RoutingCounts::dense(2, 3, {7, 8, 9, 10, 11, 12}));
    CHECK(trace.expert_load(0, 0) == std::vector<std::int64_t>{1 + 4, 2 + 5, 3 + 6});
    CHECK(trace.row(1, 0, RankId(1))[1] == 1);
  }
  SECTION("with rows in any order, because a run's ranks write when they please") {
    CHECK(read_text("iter,layer,rank,e0,e1,e2\n"
                    "9,1,1,0,0,0\n9,0,1,0,1,0\r\n5,1,1,10,11,12\n5,0,0,1,2,3\n9,1,0,1,0,0\n5,0,1,4,5,6\n9,0,0,0,0,1\n"
                    "5,1,0,7,8,9") == trace);
  }
  SECTION("and written so that it reads back the same, plain and gzip") {
    const TemporaryDirectory dir;
    CHECK(to_csv(trace) == kSmall);
    write_routing_trace(dir.path() / "t.csv", trace);
    write_routing_trace(dir.path() / "t.csv.gz", trace);
    CHECK(read_routing_trace(dir.path() / "t.csv") == trace);
    CHECK(read_routing_trace(dir.path() / "t.csv.gz") == trace);
    CHECK(std::filesystem::file_size(dir.path() / "t.csv.gz") != std::filesystem::file_size(dir.path() / "t.csv"));
  }
}

TEST_CASE("Errors of a routing trace name the line, all of them") {
  const std::string head = "iteration,layer,rank,e0,e1\n";
  CHECK(errors("") == Errors{"0: is empty; expected a routing trace: iteration,layer,rank,e0,e1,..."});
  CHECK(errors("src,dst\n") == Errors{"1: \"src,dst\" is not the header iteration,layer,rank,e0,e1,..."});
  CHECK(errors("iteration,layer,rank,e0,e2,x\n") ==
        Errors{"1: column e1 is named \"e2\"", "1: column e2 is named \"x\""});
  CHECK(errors(head) == Errors{"0: has no rows"});
  CHECK(errors(head + "0,0,0,1\n0,0,x,1,2\n0,0,0,-1,2\n0,0,0,1,4294967296\n0,100000,0,1,1\n0,0,0, 1,2\n") ==
        Errors{"2: has 4 fields; expected 5", "3: rank is \"x\"; expected a whole number from 0 to 1048575",
               "4: e0 is \"-1\"; expected a whole number from 0 to 4294967295",
               "5: e1 is \"4294967296\"; expected a whole number from 0 to 4294967295",
               "6: layer is \"100000\"; expected a whole number from 0 to 99999",
               "7: e0 is \" 1\"; expected a whole number from 0 to 4294967295"});
  CHECK(errors(head + "0,0,0,1,\n0,0,1,,\n0,0,2,1x,3\n") ==
        Errors{"2: e1 is \"\"; expected a whole number from 0 to 4294967295",
               "3: e0 is \"\"; expected a whole number from 0 to 4294967295",
               "3: e1 is \"\"; expected a whole number from 0 to 4294967295",
               "4: e0 is \"1x\"; expected a whole number from 0 to 4294967295"});
  SECTION("rows given twice, and rows that lack") {
    CHECK(errors(head + "1,0,0,1,2\n2,0,0,1,2\n1,0,0,3,4\n") ==
          Errors{"4: iteration 1 layer 0 rank 0 is given twice; first on line 2"});
    CHECK(errors(head + "1,0,1,1,2\n2,0,0,1,2\n") ==
          Errors{"0: iteration 1 has no row of layer 0 rank 0", "0: iteration 2 has no row of layer 0 rank 1"});
  }
  SECTION("the first 20, because a single far-off rank leaves out a million rows") {
    CHECK(errors(head + "0,99999,1048575,1,2\n").size() == 20);
  }
  SECTION("too many experts are refused before anything is made of them") {
    std::string wide = "iteration,layer,rank";
    for (int e = 0; e <= kMostTraceExperts; ++e) wide += ",e" + std::to_string(e);
    CHECK(errors(wide + "\n") == Errors{"1: has 65537 experts; at most 65536"});
  }
}

TEST_CASE("A trace serves other numbers of ranks and experts by a named rule only") {
  const RoutingTrace trace = read_text("iteration,layer,rank,e0,e1,e2,e3\n0,0,0,1,2,3,4\n0,0,1,5,6,7,8\n");
  const auto counts = [](const RoutingTrace& t) { return t.counts(0, 0); };
  SECTION("sum adds neighbours") {
    CHECK(counts(with_sources(trace, 1, TraceMapping::Sum, "t")) == RoutingCounts::dense(1, 4, {6, 8, 10, 12}));
    CHECK(counts(with_experts(trace, 2, TraceMapping::Sum, "t")) == RoutingCounts::dense(2, 2, {3, 7, 11, 15}));
  }
  SECTION("repeat lets every rank stand for several") {
    CHECK(counts(with_sources(trace, 4, TraceMapping::Repeat, "t")) ==
          RoutingCounts::dense(4, 4, {1, 2, 3, 4, 1, 2, 3, 4, 5, 6, 7, 8, 5, 6, 7, 8}));
  }
  SECTION("none is for the number that it has") {
    CHECK(with_sources(trace, 2, TraceMapping::None, "t") == trace);
    CHECK(
        error_of([&] { (void)with_sources(trace, 4, TraceMapping::None, "t"); }) ==
        "t: has 2 ranks, not 4, and the rule \"none\" does not lead there; rules: sum to a divisor, split or repeat to "
        "a multiple");
  }
  SECTION("what does not divide is refused") {
    CHECK(error_of([&] { (void)with_experts(trace, 3, TraceMapping::Sum, "t"); }) ==
          "t: has 4 experts, not 3, and the rule \"sum\" does not lead there; rules: sum to a divisor, split to a "
          "multiple");
    CHECK_FALSE(error_of([&] { (void)with_experts(trace, 8, TraceMapping::Repeat, "t"); }).empty());
    CHECK_FALSE(error_of([&] { (void)with_sources(trace, 0, TraceMapping::Sum, "t"); }).empty());
    CHECK(error_of([&] { (void)with_sources(trace, std::int64_t{1} << 40, TraceMapping::Split, "t"); }) ==
          "t: would have more than 134217728 counts");
  }
  rc::prop("split keeps every expert's and every source's tokens, and parts differ by one at most", [] {
    const auto sources = *rc::gen::inRange<std::int64_t>(1, 4), experts = *rc::gen::inRange<std::int64_t>(1, 6);
    const auto each = *rc::gen::inRange<std::int64_t>(1, 5);
    std::vector<std::uint32_t> numbers;
    for (std::int64_t i = 0; i < sources * experts; ++i) numbers.push_back(*rc::gen::inRange<std::uint32_t>(0, 100));
    const RoutingTrace t({0}, 1, sources, experts, numbers);
    const RoutingTrace wide = with_sources(t, sources * each, TraceMapping::Split, "t");
    RC_ASSERT(with_sources(wide, sources, TraceMapping::Sum, "t") == t);
    const RoutingTrace fine = with_experts(t, experts * each, TraceMapping::Split, "t");
    RC_ASSERT(with_experts(fine, experts, TraceMapping::Sum, "t") == t);
    for (std::int32_t s = 0; s < sources * each; ++s) {
      for (std::int64_t e = 0; e < experts; ++e) {
        const std::int64_t whole =
            t.row(0, 0, RankId(static_cast<std::int32_t>(s / each)))[static_cast<std::size_t>(e)];
        const std::int64_t part = wide.row(0, 0, RankId(s))[static_cast<std::size_t>(e)];
        RC_ASSERT(part == whole / each || part == whole / each + 1);
      }
    }
  });
}

TEST_CASE("SmartMoE's trace is read as it is") {
  const std::filesystem::path path =
      MOEPLAN_SOURCE_DIR "/../shared/data/routing/smartmoe_tokens_per_expert_by_rank.csv.gz";
  if (!std::filesystem::exists(path)) {
    WARN("left out: no " << path);
    return;
  }
  const RoutingTrace trace = read_routing_trace(path);
  CHECK(trace.layers() == 24);
  CHECK(trace.sources() == 16);
  CHECK(trace.experts() == 32);
  CHECK(trace.iterations().size() == 84);
  CHECK(trace.iterations()[1] - trace.iterations()[0] == 30);
  SECTION("every rank selects 16,384 times in every layer, because 8,192 tokens select two experts each") {
    for (std::size_t i = 0; i < trace.iterations().size(); ++i) {
      for (std::int64_t layer = 0; layer < trace.layers(); ++layer) {
        for (std::int32_t rank = 0; rank < 16; ++rank) {
          std::int64_t sum = 0;
          for (const std::uint32_t c : trace.row(i, layer, RankId(rank))) sum += c;
          if (sum != 16384) FAIL("iteration " << i << " layer " << layer << " rank " << rank << ": " << sum);
        }
      }
    }
  }
}

}  // namespace moeplan::tests::routing_trace_test
