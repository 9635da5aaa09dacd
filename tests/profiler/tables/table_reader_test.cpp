#include "profiler/tables/table_reader.hpp"

#include <catch2/catch.hpp>

#include "model/text/line_reader.hpp"
#include "profiler/tables/table_kind.hpp"
#include "tests/support/checks.hpp"

namespace moeplan::tests::table_reader_test {

namespace {

const profiler::TableFormat kFormat{
    .noun = "samples", .columns = {"name", "count", "time_us"}, .required = {"name", "time_us"}};

std::string complaints_of(const std::filesystem::path& path) {
  try {
    profiler::read_table(path, kFormat, [](const profiler::TableLine& line) {
      (void)line.positive("count");
      (void)line.time("time_us");
    });
  } catch (const InputError& e) {
    std::string out;
    for (const Diagnostic& d : e.diagnostics()) {
      out += std::to_string(d.where.line) + " " + d.key_path + ": " + d.message + "\n";
    }
    return out;
  }
  return "";
}

}  // namespace

TEST_CASE("A table is read by the names of its columns, whatever their order") {
  const TemporaryDirectory files;
  const std::string path = files.write("t.csv", "time_us,name\n# a comment\n\n 2.5 ,\"a, b\"\n7,c\n");
  std::vector<std::string> names;
  std::vector<double> times;
  profiler::read_table(path, kFormat, [&](const profiler::TableLine& line) {
    names.push_back(line.text("name"));
    times.push_back(line.time("time_us").value());
    CHECK_FALSE(line.optional_whole("count"));
    CHECK(line.whole("count") == 0);
  });
  CHECK(names == std::vector<std::string>{"a, b", "c"});
  CHECK(times == std::vector<double>{2.5 * 1e-6, 7 * 1e-6});
}

TEST_CASE("A table says everything that is wrong with it") {
  const TemporaryDirectory files;
  CHECK(complaints_of(files.write("columns.csv", "nam,count,count\n")) ==
        "1 : \"nam\" is no column of a table of samples; did you mean \"name\"?\n1 count: stands twice\n"
        "1 count: stands twice\n1 name: column is missing\n1 time_us: column is missing\n");
  CHECK(complaints_of(files.write("values.csv", "name,count,time_us\na,0,1\nb,1,-2\nc,1\nd,\"1,1\n")) ==
        "2 count: is \"0\"; expected a whole number from 1 on\n3 time_us: is \"-2\"; expected a time above 0\n"
        "4 : has 2 values for 3 columns\n5 : has a quote that is not closed\n");
  CHECK(complaints_of(files.write("empty.csv", "name,time_us\n")) == "0 : holds no measurement\n");
}

TEST_CASE("The header says what a table measures") {
  const TemporaryDirectory files;
  CHECK(profiler::table_kind(files.write("o.csv.gz", gzipped("gpu,kind,phase,dtype,time_us\n"))) ==
        profiler::TableKind::Operators);
}

}  // namespace moeplan::tests::table_reader_test
