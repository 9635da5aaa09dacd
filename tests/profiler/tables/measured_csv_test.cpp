#include "profiler/tables/measured_csv.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::measured_csv_test {

using namespace moeplan::profiler;
using moeplan::tests::error_of;

namespace {

auto parse(const std::string& text) { return parse_measured_csv(text, "t.csv"); }
std::string error(const std::string& text) {
  return error_of([&] { static_cast<void>(parse(text)); });
}

}  // namespace

TEST_CASE("collectives, columns in any order, with comments") {
  const auto read = parse(
      "# measured today\ntime_ms, collective,ranks,nodes,bytes,in_place\n\n0.5,all_to_all,16,2,1048576,true\r\n"
      "2,all_gather,8,1,4096,\n");
  const auto& samples = std::get<std::vector<CollectiveSample>>(read);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].collective == Collective::AllToAll);
  CHECK(samples[0].shape == GroupShape{16, 2});
  CHECK(samples[0].n.value() == 1048576);
  CHECK(samples[0].time.value() == Approx(0.5e-3));
  CHECK(samples[0].in_place);
  CHECK_FALSE(samples[1].in_place);
  CHECK(samples[1].where == Location{"t.csv", 5});
}

TEST_CASE("GEMMs, with the names that frameworks use for formats") {
  const auto read = parse("dtype,m,n,k,time_us\nbfloat16,1,2,3,4\nfp8,8,8,8,1e1\n");
  const auto& samples = std::get<std::vector<GemmSample>>(read);
  REQUIRE(samples.size() == 2);
  CHECK(samples[0].dtype == "bf16");
  CHECK(samples[0].k == 3);
  CHECK(samples[1].time.value() == Approx(10e-6));
}

TEST_CASE("what is wrong is said with its line and column, all at once") {
  CHECK(error("") == "t.csv: is empty; expected a line of column names");
  CHECK(error("collective,ranks,nodes,bytes,time_us\n") == "t.csv: holds no measurement");
  CHECK(error("collective,ranks,bytes,time\n") ==
        "t.csv:1: nodes: column is missing\n"
        "t.csv:1: expected one of the columns time_s, time_ms, time_us, time_ns\n"
        "t.csv:1: \"time\" is no known column; did you mean \"time_s\"?");
  CHECK(error("collective,ranks,nodes,bytes,time_us\nalltoall,1,2,0,-3\nall_gather,2,1,8\n") ==
        "t.csv:2: bytes: is \"0\"; expected a whole number from 1 to 1125899906842624\n"
        "t.csv:2: time_us: is \"-3\"; expected a time above 0\n"
        "t.csv:2: collective: \"alltoall\" is no collective; did you mean \"all_to_all\"?\n"
        "t.csv:2: ranks: is \"1\"; expected a whole number from 2 to 1048576\n"
        "t.csv:3: has 4 values for 5 columns");
  CHECK(error("m,n,k,dtype,time_us\n1,1,1,fp17,nan\n") ==
        "t.csv:2: time_us: is \"nan\"; expected a time above 0\nt.csv:2: dtype: \"fp17\" is no number format");
  CHECK(error("collective,ranks,nodes,bytes,time_us,in_place\nall_gather,2,3,8,1,maybe\n") ==
        "t.csv:2: nodes: is \"3\"; expected a whole number from 1 to 2\n"
        "t.csv:2: in_place: is \"maybe\"; expected true or false");
}

}  // namespace moeplan::tests::measured_csv_test
