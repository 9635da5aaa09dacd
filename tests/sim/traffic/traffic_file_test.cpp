#include "sim/traffic/traffic_file.hpp"

#include <zlib.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "model/base/diagnostics.hpp"

namespace moeplan::tests::traffic_file_test {

using namespace moeplan::sim;

namespace {

/// A file of this test's own, removed at the end.
class Scratch {
 public:
  explicit Scratch(const std::string& content) { std::ofstream(path_, std::ios::binary) << content; }
  ~Scratch() { std::filesystem::remove(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_ =
      std::filesystem::temp_directory_path() / ("moeplan_traffic_" + std::to_string(std::rand()) + ".tmp");
};

TrafficFile read_text(const std::string& content) {
  const Scratch file(content);
  return read_traffic(file.path());
}

/// What is wrong, without the folder of the file.
std::vector<std::string> errors(const std::string& content) {
  const Scratch file(content);
  std::vector<std::string> list;
  try {
    (void)read_traffic(file.path());
  } catch (const InputError& e) {
    for (const Diagnostic& d : e.diagnostics()) list.push_back(std::to_string(d.where.line) + ": " + d.message);
  }
  return list;
}

using Errors = std::vector<std::string>;

std::string compressed(const std::string& content) {
  const Scratch file("");
  const gzFile gz = gzopen(file.path().c_str(), "wb");
  gzwrite(gz, content.data(), static_cast<unsigned>(content.size()));
  gzclose(gz);
  std::ifstream in(file.path(), std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

TEST_CASE("A traffic CSV is read as flows") {
  SECTION("pairs in the order of the file, ranks up to the greatest") {
    const TrafficFile file = read_text("src,dst,bytes\n0,1,10\n3,0,2.5\r\n");
    CHECK(file.matrix.ranks == 4);
    REQUIRE(file.matrix.flows.size() == 2);
    CHECK(file.matrix.flows[1].src == RankId(3));
    CHECK(file.matrix.flows[1].dst == RankId(0));
    CHECK(file.matrix.flows[1].bytes == 2.5);
    CHECK(file.finish_s.empty());
  }
  SECTION("with the finish of every flow, if there is the column") {
    CHECK(read_text("src,dst,bytes,finish_s\n0,1,10,1e-6").finish_s == std::vector<double>{1e-6});
  }
  SECTION("compressed as well as plain") {
    CHECK(read_text(compressed("src,dst,bytes\n0,1,10\n")).matrix.flows.size() == 1);
  }
}

TEST_CASE("The matrix of alltoallv_perf is read as flows") {
  SECTION("blanks or commas, comments and blank lines; the diagonal and zeros are no flows") {
    for (const std::string text : {"# three ranks\n9 1 2\n\n3 9 0\n 5\t6 9 \n", "9,1,2\n3, 9 ,0\n5,6,9"}) {
      const TrafficFile file = read_text(text);
      CHECK(file.matrix.ranks == 3);
      REQUIRE(file.matrix.flows.size() == 5);
      CHECK(file.matrix.flows[4].src == RankId(2));
      CHECK(file.matrix.flows[4].dst == RankId(1));
      CHECK(file.matrix.flows[4].bytes == 6);
    }
  }
  SECTION("only if it is square") {
    CHECK(errors("0 1\n1 0 2\n") == Errors{"2: has 3 numbers; the first row has 2"});
    CHECK(errors("0 1\n") == Errors{"0: has 1 rows of 2 numbers; expected a square matrix"});
  }
  SECTION("only if its entries are numbers of bytes") {
    CHECK(errors("0 x\n-1 0\n") == Errors{"1: an entry is \"x\"; expected a number from 0 to 1e+18",
                                          "2: an entry is \"-1\"; expected a number from 0 to 1e+18"});
    CHECK(errors("0,,1\n1,0\n") == Errors{"1: an entry is \"\"; expected a number from 0 to 1e+18",
                                          "2: has 2 numbers; the first row has 3",
                                          "0: has 2 rows of 3 numbers; expected a square matrix"});
  }
}

TEST_CASE("Traffic by column is read as bytes by destination") {
  const auto read = [](const std::string& content) {
    const Scratch file(content);
    return std::get<ColumnFile>(read_traffic_or_columns(file.path())).bytes;
  };
  SECTION("in any order; what is left out gets nothing") {
    CHECK(read("dst,bytes\n3,5\n0,2.5\r\n") == std::vector<double>{2.5, 0, 0, 5});
    CHECK(read("dst,bytes\n").empty());
  }
  SECTION("compressed as well as plain") { CHECK(read(compressed("dst,bytes\n1,7\n")) == std::vector<double>{0, 7}); }
  SECTION("a file of pairs stays one") {
    const Scratch file("src,dst,bytes\n0,1,10\n");
    CHECK(std::get<TrafficFile>(read_traffic_or_columns(file.path())).matrix.flows.size() == 1);
  }
  SECTION("not where it is wrong, or where pairs are asked for") {
    const Scratch file("dst,bytes\n0,1,2\n0\nx,1\n0,-1\n1,1\n1,2\n");
    try {
      (void)read_traffic_or_columns(file.path());
      FAIL("is not refused");
    } catch (const InputError& e) {
      Errors list;
      for (const Diagnostic& d : e.diagnostics()) list.push_back(std::to_string(d.where.line) + ": " + d.message);
      CHECK(list == Errors{"2: \"0,1,2\" is not dst,bytes", "3: \"0\" is not dst,bytes",
                           "4: dst is \"x\"; expected a rank from 0 to 1048575",
                           "5: bytes is \"-1\"; expected a number from 0 to 1e+18",
                           "7: dst 1 is given twice; first on line 6"});
    }
    CHECK(errors("dst,bytes\n0,1\n") == Errors{"1: is traffic by column; expected src,dst,bytes"});
  }
}

TEST_CASE("Errors of a traffic file name the line, all of them") {
  CHECK(errors("src,dst,bytes\n0,1\n0,-1,5\n0,1,nan\n0,1,inf\n 0,1,1\n") ==
        Errors{"2: \"0,1\" has 2 fields; expected 3", "3: dst is \"-1\"; expected a rank from 0 to 1048575",
               "4: bytes is \"nan\"; expected a number from 0 to 1e+18",
               "5: bytes is \"inf\"; expected a number from 0 to 1e+18",
               "6: src is \" 0\"; expected a rank from 0 to 1048575"});
  CHECK(errors("src,dst,bytes\n0,1,5\n1,0,5\n0,1,6\n") == Errors{"4: 0 -> 1 is given twice; first on line 2"});
  CHECK(errors("src,dst\n") ==
        Errors{"1: \"src,dst\" is neither the header src,dst,bytes[,finish_s] or dst,bytes nor a row of numbers"});
  CHECK(errors("") == Errors{"0: is empty; expected a traffic CSV (src,dst,bytes or dst,bytes) or a matrix of bytes"});
  SECTION("the first 20, because a file of another kind has millions") {
    std::string text = "src,dst,bytes\n";
    for (int i = 0; i < 100; ++i) text += "x\n";
    CHECK(errors(text).size() == 20);
  }
  SECTION("a truncated gzip file is not read as a shorter one") {
    std::string text = "src,dst,bytes\n";
    for (int i = 1; i < 50000; ++i) text += "0," + std::to_string(i) + "," + std::to_string(i * 7919 % 10007) + "\n";
    const std::string whole = compressed(text);
    CHECK(read_text(whole).matrix.flows.size() == 49999);
    const Errors list = errors(whole.substr(0, whole.size() / 2));
    REQUIRE(list.size() == 1);
    CHECK(list[0].find("damaged gzip data") != std::string::npos);
  }
  SECTION("no file, or a folder") {
    CHECK_THROWS_AS(read_traffic("/nonexistent/traffic.csv"), InputError);
    CHECK_THROWS_WITH(read_traffic(std::filesystem::temp_directory_path()), Catch::Contains("cannot be read"));
  }
}

}  // namespace moeplan::tests::traffic_file_test
