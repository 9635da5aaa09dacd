#include "profiler/tables/collective_table.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "profiler/scores/collective_score.hpp"
#include "profiler/scores/held_out.hpp"
#include "profiler/tables/table_kind.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::collective_table_test {

namespace {

const std::string kHeader = "cluster,op,ranks,ranks_per_node,bytes,in_place,time_us,source\n";

/// A machine whose all-gathers take 10 us a step and no time for bytes.
CollectiveModels toy() {
  CollectiveModels m{.cluster = "toy", .ranks_per_node = 4, .measured_ranks = 4};
  m.sources = {"setting 4"};
  m.rings.push_back({.collectives = {Collective::AllGather},
                     .protocol = "LL",
                     .base = Seconds(0),
                     .step = Seconds(10e-6),
                     .bandwidth = BytesPerSecond(1e18)});
  return m;
}

}  // namespace

TEST_CASE("A table of collectives is read, and known by its header") {
  const TemporaryDirectory files;
  const auto path = files.write("t.csv", kHeader + "toy,all_gather,8,4,1024,1,12.5,a log\n");
  CHECK(profiler::table_kind(path) == profiler::TableKind::Collectives);
  const auto rows = profiler::read_collective_table(path);
  REQUIRE(rows.size() == 1);
  CHECK(rows[0].cluster == "toy");
  CHECK(rows[0].op == "all_gather");
  CHECK(rows[0].ranks == 8);
  CHECK(rows[0].ranks_per_node == 4);
  CHECK(rows[0].bytes == Bytes(1024));
  CHECK(rows[0].in_place);
  CHECK(rows[0].time.value() == Approx(12.5e-6));
}

TEST_CASE("Ranks of a table of collectives fill whole nodes") {
  const TemporaryDirectory files;
  const auto path = files.write("t.csv", kHeader + "toy,all_gather,8,3,0,1,12.5,a log\n");
  try {
    (void)profiler::read_collective_table(path);
    FAIL("the table was read");
  } catch (const InputError& e) {
    REQUIRE(e.diagnostics().size() == 2);
    CHECK(e.diagnostics()[0].message == "is \"0\"; expected a whole number from 1 on");
    CHECK(e.diagnostics()[1].message == "is \"3\"; expected a divisor of the 8 ranks");
  }
}

TEST_CASE("Collectives are scored by the file of their cluster") {
  const TemporaryDirectory files;
  const auto table =
      profiler::read_collective_table(files.write("t.csv", kHeader + "toy,all_gather,4,4,1024,0,60,setting 4\n"
                                                                     "toy,all_gather,4,4,1024,0,60,setting 2\n"
                                                                     "toy,all_to_all,4,4,1024,0,60,setting 4\n"
                                                                     "toy,all_gather,8,8,1024,0,60,setting 4\n"
                                                                     "toy,all_gather,8,4,1024,0,60,setting 4\n"
                                                                     "toy,gossip,4,4,1024,0,60,setting 4\n"
                                                                     "other,all_gather,4,4,1024,0,60,log\n"));
  const auto rows = profiler::score_collectives(table, {{"toy", toy()}});
  REQUIRE(rows.size() == 7);
  CHECK(rows[0].id == "2");
  CHECK(rows[0].predicted->value() == Approx(30e-6));  // 3 steps
  CHECK(rows[0].error() == Approx(-0.5));
  CHECK(rows[0].groups == std::vector<std::string>{"all_gather toy 4 ranks below 1 MiB"});
  CHECK(rows[0].is_fitted != profiler::is_held_out(table[0]));
  CHECK(rows[1].reason == "configs/collectives/toy.yaml has no figures of \"setting 2\"");
  CHECK(rows[2].reason == "configs/collectives/toy.yaml has no figures of all_to_all on one node");
  CHECK(rows[3].reason == "8 ranks share a node; configs/collectives/toy.yaml has up to 4");
  CHECK(rows[4].reason == "configs/collectives/toy.yaml has no figures of all_gather on several nodes");
  CHECK(rows[5].reason == "\"gossip\" is no collective");
  CHECK(rows[6].reason == "configs/collectives has no file of other");
  SECTION("the fastest of a machine's sources are a group of their own") {
    auto several = toy();
    several.sources = {"setting 4", "setting 5"};
    const auto settings =
        profiler::read_collective_table(files.write("s.csv", kHeader + "toy,all_gather,4,4,1024,0,60,setting 4\n"
                                                                       "toy,all_gather,4,4,1024,0,40,setting 5\n"
                                                                       "toy,all_gather,4,4,1024,0,10,setting 2\n"
                                                                       "toy,all_gather,4,4,2048,0,50,setting 4\n"));
    const auto scored = profiler::score_collectives(settings, {{"toy", several}});
    const std::string group = "all_gather toy 4 ranks below 1 MiB";
    CHECK(scored[0].groups == std::vector<std::string>{group});
    CHECK(scored[1].groups == std::vector<std::string>{group, group + ", fastest of its sources"});
    CHECK(scored[3].groups == std::vector<std::string>{group});  // the only one of its size
  }
  SECTION("all rows of a machine whose numbers are another's are held out") {
    auto borrowed = toy();
    borrowed.fits_none = true;
    std::vector<profiler::CollectiveRow> sizes(12, table[0]);
    for (std::size_t i = 0; i < sizes.size(); ++i) sizes[i].bytes = Bytes(static_cast<double>(1024 << i));
    const auto fitted = [&](const CollectiveModels& models) {
      const auto scored = profiler::score_collectives(sizes, {{"toy", models}});
      return std::count_if(scored.begin(), scored.end(), [](const auto& row) { return row.is_fitted; });
    };
    CHECK(fitted(toy()) > 0);
    CHECK(fitted(borrowed) == 0);
  }
}

}  // namespace moeplan::tests::collective_table_test
