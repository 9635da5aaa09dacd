#include "profiler/fits/source_text.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::source_text_test {

using namespace moeplan::profiler;

TEST_CASE("names are cited in one printable line of limited length") {
  CHECK(plain("a\tb\xc3\xa4") == "a?b??");
  CHECK(plain(std::string(100, 'x')) == std::string(80, 'x') + "...");
  CHECK(listed({"a", "b"}) == "a, b");
  CHECK(listed({"a", "b", "c", "d", "e", "f"}) == "a, b, c, d and 2 others");
  CHECK(listed_files({"logs/a.log", "b.log"}) == "a.log, b.log");
}

}  // namespace moeplan::tests::source_text_test
