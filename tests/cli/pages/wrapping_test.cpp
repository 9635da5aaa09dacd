// Wrapped texts: every word in order, no line too long, and a hanging indent.
#include "cli/pages/text/wrapping.hpp"

#include <catch2/catch.hpp>
#include <sstream>

namespace moeplan::tests::wrapping_test {

using namespace moeplan::cli;

TEST_CASE("A labelled text is wrapped at the width of the page") {
  SECTION("one line if it fits, because there is nothing to wrap") {
    CHECK(labelled("memory", "12 GiB", 10) == "  memory  12 GiB\n");
    CHECK(labelled("", "12 GiB", 4) == "    12 GiB\n");
  }
  SECTION("a text that ends in the last column is not wrapped, one column more is") {
    const std::string word(kPageColumns - 10 - 2, 'x');
    CHECK(labelled("label", word + " y", 10) == "  label   " + word + " y\n");
    CHECK(labelled("label", word + " yz", 10) == "  label   " + word + "\n          yz\n");
  }
  SECTION("lines after the first begin where the text begins, and no word is lost") {
    std::string words;
    for (int i = 0; i < 100; ++i) words += (i > 0 ? " " : "") + std::string(static_cast<std::size_t>(i % 13 + 1), 'w');
    std::istringstream lines(labelled("label", words));
    std::string together;
    for (std::string line; std::getline(lines, line);) {
      CHECK(line.size() <= kPageColumns);
      CHECK(line.find_first_not_of(' ', together.empty() ? 7 : 0) == kTextColumn);
      together += (together.empty() ? "" : " ") + line.substr(kTextColumn);
    }
    CHECK(together == words);
  }
  SECTION("a word longer than a line stands alone, because paths must stay whole") {
    const std::string path(2 * kPageColumns, '/');
    CHECK(labelled("written to", "the file " + path + " now", 14) ==
          "  written to  the file\n" + std::string(14, ' ') + path + "\n" + std::string(14, ' ') + "now\n");
  }
  SECTION("a number stays with its unit, but a list of numbers is wrapped") {
    const std::string word(kPageColumns - 15, 'x');
    CHECK(labelled("", word + " -406.0 ms more", 6) == "      " + word + "\n      -406.0 ms more\n");
    CHECK(labelled("", word + " 406 507 608", 6) == "      " + word + " 406 507\n      608\n");
  }
  SECTION("a label beyond the column is followed by a space") {
    CHECK(labelled("a long label", "text", 6) == "  a long label text\n");
  }
}

}  // namespace moeplan::tests::wrapping_test
