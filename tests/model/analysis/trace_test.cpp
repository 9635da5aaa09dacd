#include "model/analysis/trace.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "model/text/document.hpp"

namespace moeplan::tests::trace_test {

using nlohmann::json;

namespace {

/// A product of 4 x 8 by 8 x 8 in fp16, then an all-to-all of 16 rows of 8 over all ranks.
Program program(std::int64_t world) {
  Program p;
  p.world_size = world;
  p.groups = {{"ep", world, 1}};
  p.buffers = {{"x", 8, Dtype::Fp16}, {"w", 8, Dtype::Fp16}, {"y", 8, Dtype::Fp16}};
  Operation gemm;
  gemm.name = "up \"projection\"\n";
  gemm.op_class = OpClass::Expert;
  gemm.work = Gemm{};
  gemm.reads = {{BufferId(0), Rows::fixed(4)}, {BufferId(1), Rows::fixed(8)}};
  gemm.writes = {{BufferId(2), Rows::fixed(4)}};
  Operation dispatch;
  dispatch.name = "dispatch";
  dispatch.op_class = OpClass::Dispatch;
  dispatch.stream = Stream::Inter;
  dispatch.work = Communication{.collective = Collective::AllToAll, .group = GroupId(0)};
  dispatch.reads = {{BufferId(0), Rows::fixed(16 * world)}};
  dispatch.writes = {{BufferId(2), Rows::fixed(16 * world)}};
  p.blocks = {{"layer", {gemm, dispatch}}};
  p.stages.front() = {{.block = BlockId(0)}};
  return p;
}

TimelineSpan span(std::int64_t rank, int op, std::int64_t start, std::int64_t end, int repeat = -1) {
  return {RankId(static_cast<std::int32_t>(rank)), BlockId(0), op, repeat, SimTime(start), SimTime(end)};
}

/// `runs` runs, each of 10 us: a product of r + 1 ps, then a dispatch that ends for all at once.
Timeline timeline(std::int64_t world, std::int64_t runs = 1) {
  Timeline t;
  constexpr std::int64_t kRun = 10'000'000;
  t.makespan = SimTime(runs * kRun);
  for (std::int64_t i = 0; i < runs; ++i) {
    for (std::int64_t r = 0; r < world; ++r) {
      t.spans.push_back(span(r, 0, i * kRun, i * kRun + r + 1));
      t.spans.push_back(span(r, 1, i * kRun + r + 1, (i + 1) * kRun));
    }
  }
  return t;
}

std::vector<json> events(const json& trace, const std::string& phase) {
  std::vector<json> out;
  for (const json& e : trace.at("traceEvents")) {
    if (e.at("ph") == phase) out.push_back(e);
  }
  return out;
}

std::vector<int> ids(const std::vector<RankId>& ranks) {
  std::vector<int> out;
  for (const RankId r : ranks) out.push_back(r.value());
  return out;
}

}  // namespace

TEST_CASE("a trace is JSON in which every span stands at its rank, stream and time") {
  const Program p = program(2);
  const json trace = json::parse(chrome_trace(p, timeline(2), {.node_of_rank = {0, 1}}));
  SECTION("processes are ranks with their nodes, threads are streams, both counted from 1") {
    std::map<int, std::string> process, thread;
    for (const json& e : events(trace, "M")) {
      if (e.at("name") == "process_name") process[e.at("pid")] = e.at("args").at("name");
      if (e.at("name") == "thread_name") thread[e.at("tid")] = e.at("args").at("name");
    }
    CHECK(process == std::map<int, std::string>{{1, "rank 0 (node 0)"}, {2, "rank 1 (node 1)"}});
    CHECK(thread == std::map<int, std::string>{{1, "compute"}, {2, "intra"}, {3, "inter"}, {4, "copy"}});
  }
  SECTION("slices carry class, sizes and occurrences") {
    const std::vector<json> slices = events(trace, "X");
    REQUIRE(slices.size() == 4);
    CHECK(slices[0].at("name") == "up \"projection\"\n");
    CHECK(slices[0].at("args").at("class") == "expert");
    CHECK(slices[0].at("args").at("flops") == 2 * 4 * 8 * 8);
    CHECK(slices[0].at("args").at("bytes") == 2 * (4 * 8 + 8 * 8 + 4 * 8));
    CHECK(slices[0].at("args").at("occurrences") == 1);
    CHECK(slices[1].at("tid") == static_cast<int>(Stream::Inter) + 1);
    CHECK(slices[1].at("args").at("bytes_sent") == 16 * 8 * 2);
    CHECK(slices[1].at("args").at("bytes_received") == 16 * 8 * 2);
  }
  SECTION("times are exact to the picosecond, because all six digits behind the point are written") {
    const std::string text = chrome_trace(p, timeline(2));
    CHECK(text.find("\"ts\":0.000001,\"dur\":9.999999") != std::string::npos);
    CHECK(text.find("\"ts\":0.000002,\"dur\":9.999998") != std::string::npos);
    double sum = 0;
    for (const json& e : events(trace, "X")) sum += e.at("dur").get<double>();
    CHECK(sum == Approx(2 * 10.0));  // each rank is busy for the whole 10 us
  }
  SECTION("the same bytes every time") { CHECK(chrome_trace(p, timeline(2)) == chrome_trace(p, timeline(2))); }
}

TEST_CASE("a trace draws copies of iterations if that is asked for, and only a window of time") {
  const Program p = program(1);
  // Two outer iterations of 100 us, each of three inner ones of 10 us.
  Timeline t;
  t.makespan = SimTime(200'000'000);
  t.spans = {span(0, 0, 0, 10'000'000, /*repeat=*/1)};
  t.repeats = {{.parent = -1, .count = 2, .start = SimTime(), .period = SimTime(100'000'000)},
               {.parent = 0, .count = 3, .start = SimTime(), .period = SimTime(10'000'000)}};
  const auto starts = [&](const TraceOptions& options) {
    std::vector<double> out;
    for (const json& e : events(json::parse(chrome_trace(p, t, options)), "X")) {
      if (e.at("cat") == "expert") out.push_back(e.at("ts"));
    }
    return out;
  };
  CHECK(starts({}) == std::vector<double>{0});
  CHECK(starts({.expands_repeats = true}) == std::vector<double>{0, 10, 20, 100, 110, 120});
  const std::pair window{SimTime(10'000'000), SimTime(110'000'000)};  // ends touch: not shown
  CHECK(starts({.expands_repeats = true, .window = window}) == std::vector<double>{10, 20, 100});
  const json expanded = json::parse(chrome_trace(p, t, {.expands_repeats = true}));
  CHECK(events(expanded, "X").size() == 6);  // no slices that count copies
}

TEST_CASE("copies that ranks begin at different times are counted with each rank") {
  const Program p = program(2);
  Timeline t;
  t.makespan = SimTime(35'000'000);
  t.spans = {span(0, 0, 0, 10'000'000, /*repeat=*/0), span(1, 0, 5'000'000, 10'000'000, /*repeat=*/0)};
  t.repeats = {{.count = 3, .start = SimTime(5'000'000), .period = SimTime(10'000'000), .in_step = false}};
  const json trace = json::parse(chrome_trace(p, t, {}));
  std::map<int, double> starts;
  for (const json& e : events(trace, "X")) {
    if (e.at("cat") != "repeat") continue;
    CHECK(e.at("name") == "x 2 more iterations of 10.00 us");
    CHECK(e.at("dur") == 20);
    starts[e.at("pid")] = e.at("ts");
  }
  CHECK(starts == std::map<int, double>{{1, 10.0}, {2, 15.0}});
}

TEST_CASE("arrows lead from senders to receivers") {
  SECTION("every arrow has one start and one end, in slices of the same run, and never points back in time") {
    const json trace = json::parse(chrome_trace(program(3), timeline(3, 2)));
    std::map<int, json> starts, ends;
    for (const json& e : events(trace, "s")) CHECK(starts.emplace(e.at("id"), e).second);
    for (const json& e : events(trace, "f")) CHECK(ends.emplace(e.at("id"), e).second);
    CHECK(starts.size() == 2 * 3 * 2);  // two runs of three ranks with two peers each
    REQUIRE(ends.size() == starts.size());
    for (const auto& [id, s] : starts) {
      const json& f = ends.at(id);
      CHECK(s.at("pid") != f.at("pid"));
      CHECK(s.at("ts").get<double>() <= f.at("ts").get<double>());
      CHECK((s.at("ts").get<double>() < 10) == (f.at("ts").get<double>() < 10));
      CHECK(f.at("bp") == "e");
    }
  }
  SECTION("of 15 receivers the 8 at the next positions have arrows, and the trace says so") {
    const json trace = json::parse(chrome_trace(program(16), timeline(16)));
    std::map<int, int> sender, receiver;
    for (const json& e : events(trace, "s")) sender[e.at("id")] = e.at("pid");
    for (const json& e : events(trace, "f")) receiver[e.at("id")] = e.at("pid");
    CHECK(sender.size() == 16 * 8);
    for (const auto& [id, from] : sender) {
      const int distance = (receiver.at(id) - from + 16) % 16;
      CHECK((distance >= 1 && distance <= 8));
    }
    CHECK(trace.at("otherData").at("most_arrows_out_of_a_slice") == 8);
  }
}

TEST_CASE("iterations that are copies are drawn once and counted") {
  Timeline t = timeline(1);
  t.repeats = {{1, 4, SimTime(0), SimTime(10'000'000)}, {-1, 2, SimTime(0), SimTime(40'000'000)}};
  for (TimelineSpan& s : t.spans) s.repeat = 0;
  t.makespan = SimTime(80'000'000);
  const json trace = json::parse(chrome_trace(program(1), t));
  std::vector<json> repeats;
  for (const json& e : events(trace, "X")) {
    if (e.at("cat") == "repeat") {
      repeats.push_back(e);
    } else {
      CHECK(e.at("args").at("occurrences") == 2 * 4);
    }
  }
  REQUIRE(repeats.size() == 2);
  CHECK(repeats[0].at("name") == "x 3 more iterations of 10.00 us");
  CHECK(repeats[0].at("ts") == 10.0);
  CHECK(repeats[0].at("dur") == 30.0);
  CHECK(repeats[0].at("tid") == 2);
  CHECK(repeats[1].at("ts") == 40.0);
  CHECK(repeats[1].at("dur") == 40.0);
  CHECK(repeats[1].at("args").at("iterations") == 2);
  CHECK(repeats[1].at("name") == "x 1 more iteration of 40.00 us");
  CHECK(repeats[1].at("tid") == 1);
}

TEST_CASE("counters show what links carry") {
  const std::vector<RatePoint> rates{{SimTime(1'000'000), BytesPerSecond(25e9)},
                                     {SimTime(4'000'000), BytesPerSecond(0)}};
  const json trace = json::parse(chrome_trace(
      program(2), timeline(2), {.node_of_rank = {}, .ranks = {}, .links = {{"a \"b\"", rates}, {"idle", {}}}}));
  const std::vector<json> counters = events(trace, "C");
  REQUIRE(counters.size() == 2);
  CHECK(counters[0].at("name") == "a \"b\"");
  CHECK(counters[0].at("ts") == 1.0);
  CHECK(counters[0].at("args").at("GB/s") == 25.0);
  CHECK(counters[1].at("ts") == 4.0);
  CHECK(counters[1].at("args").at("GB/s") == 0.0);
  CHECK(trace.at("otherData").contains("links"));
  SECTION("in a process of their own") {
    for (const json& e : events(trace, "M")) {
      if (e.at("pid") == counters[0].at("pid") && e.at("name") == "process_name") {
        CHECK(e.at("args").at("name") == "links");
      }
    }
  }
}

TEST_CASE("a trace shows as many ranks as a screen can") {
  SECTION("all of 16") { CHECK(default_traced_ranks(16, {}).size() == 16); }
  SECTION("the first 8 where 17 ranks stand on one node or on unknown ones") {
    CHECK(ids(default_traced_ranks(17, {})) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7});
  }
  SECTION("of 4 nodes of 8 the first node and the first of each other") {
    std::vector<int> nodes;
    for (int r = 0; r < 32; ++r) nodes.push_back(r / 8);
    CHECK(ids(default_traced_ranks(32, nodes)) == std::vector<int>{0, 1, 2, 3, 4, 5, 6, 7, 8, 16, 24});
    const json trace = json::parse(chrome_trace(program(32), timeline(32), {.node_of_rank = nodes}));
    CHECK(trace.at("otherData").at("ranks_shown").size() == 11);
    CHECK(trace.at("otherData").at("ranks_left_out") == 32 - 11);
    CHECK(events(trace, "X").size() == 2 * 11);
    for (const json& e : events(trace, "f")) CHECK((e.at("pid") <= 8 || e.at("pid").get<int>() % 8 == 1));
  }
  SECTION("never more than 64, so that a machine of a thousand nodes stays readable") {
    std::vector<int> nodes;
    for (int r = 0; r < 8192; ++r) nodes.push_back(r / 8);
    CHECK(default_traced_ranks(8192, nodes).size() == 64);
  }
  SECTION("those that were asked for") {
    const json trace =
        json::parse(chrome_trace(program(32), timeline(32), {.node_of_rank = {}, .ranks = {RankId(30)}}));
    CHECK(trace.at("otherData").at("ranks_shown") == json{30});
    CHECK(events(trace, "s").empty());
  }
}

TEST_CASE("a trace of many events is written to a file in seconds") {
  // 16 ranks, 500 runs, 2 slices and 8 arrows of two events a run: 144,000 events.
  const auto path = std::filesystem::temp_directory_path() / "moeplan_trace_test.json";
  const auto begin = std::chrono::steady_clock::now();
  write_chrome_trace(path, program(16), timeline(16, 500));
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  CHECK(took.count() < 5);
  CHECK(std::filesystem::file_size(path) > 5'000'000);
  std::filesystem::remove(path);
}

}  // namespace moeplan::tests::trace_test
