#include "model/text/line_reader.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/support/checks.hpp"

namespace moeplan::tests::line_reader_test {

using moeplan::tests::error_of;
using moeplan::tests::TemporaryDirectory;

namespace {

std::vector<std::string> lines_of(const std::filesystem::path& path) {
  LineReader reader(path);
  std::vector<std::string> lines;
  while (const auto line = reader.next()) lines.emplace_back(*line);
  return lines;
}

}  // namespace

TEST_CASE("A table's lines are read one at a time, plain or gzip", "[slow]") {
  const TemporaryDirectory dir;
  SECTION("without their ends; the last needs none") {
    CHECK(lines_of(dir.write("a", "one\r\n\ntwo")) == std::vector<std::string>{"one", "", "two"});
    CHECK(lines_of(dir.write("b", "")).empty());
  }
  SECTION("what gzipped() wrote reads back, because both speak gzip; the same text gives the same bytes") {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += std::to_string(i * 7919 % 10007) + "\n";
    const auto path = dir.write("c.gz", gzipped(text));
    CHECK(std::filesystem::file_size(path) < text.size() / 2);
    const std::vector<std::string> lines = lines_of(path);
    REQUIRE(lines.size() == 100'000);
    CHECK(lines[99'999] == std::to_string(99'999 * 7919 % 10007));
    CHECK(gzipped(text) == gzipped(text));
  }
  SECTION("damaged gzip data is refused, not read as a shorter file") {
    const std::string whole = gzipped(tests::repeated("0123456789\n", 50'000));
    CHECK(error_of([&] {
            (void)lines_of(dir.write("d", whole.substr(0, whole.size() / 2)));
          }).find("damaged gzip data") != std::string::npos);
  }
  SECTION("a line without an end is refused, because memory is bounded") {
    CHECK(error_of([&] {
            (void)lines_of(dir.write("e", std::string(LineReader::kLongestLine + 300'000, 'x')));
          }).find("a line has more than") != std::string::npos);
  }
  SECTION("so is what cannot be read") {
    const auto error = [&](const std::filesystem::path& path) {
      return error_of([&] { (void)lines_of(path); }).substr(path.string().size());
    };
    CHECK(error(dir.path() / "none") == ": no such file");
    CHECK(error(dir.path()) == ": cannot be read: it is a directory");
    CHECK(error("/proc/self/mem") == ":1: cannot be read: Input/output error");
    std::filesystem::create_symlink("circle", dir.path() / "circle");
    CHECK(error(dir.path() / "circle") == ": cannot be read: Too many levels of symbolic links");
  }
}

}  // namespace moeplan::tests::line_reader_test
