#include "model/base/diagnostics.hpp"

#include <rapidcheck.h>
#include <rapidcheck/catch.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::diagnostics_test {

using moeplan::tests::error_of;

TEST_CASE("A diagnostic is one line: file, place, key path, message") {
  SECTION("what is not known is left out") {
    CHECK(Diagnostic{{"a.yaml", 14, 7}, "links[0].bta", "unknown key"}.text() ==
          "a.yaml:14:7: links[0].bta: unknown key");
    CHECK(Diagnostic{{"a.yaml"}, "", "no such file"}.text() == "a.yaml: no such file");
    CHECK(Diagnostic{{}, "x", "wrong"}.text() == "x: wrong");
    CHECK(Diagnostic{{}, "", "wrong"}.text() == "wrong");
  }
  SECTION("a hostile key cannot break the line, because control characters are escaped and long paths cut") {
    CHECK(Diagnostic{{}, "a\nb\x1b[31m", "wrong"}.text() == R"(a\x0ab\x1b[31m: wrong)");
    CHECK(Diagnostic{{}, std::string(1000, 'k'), "wrong"}.text() == std::string(400, 'k') + ": wrong");
    const std::string euros = moeplan::tests::repeated("\xe2\x82\xac", 200);  // 400 is not a multiple of 3
    CHECK(Diagnostic{{}, euros, "wrong"}.text() == euros.substr(0, 399) + ": wrong");
  }
}

TEST_CASE("An InputError carries every diagnostic") {
  Diagnostics found;
  CHECK_NOTHROW(found.throw_if_any());
  found.add({"a.yaml", 1, 1}, "a", "missing key");
  found.add({"a.yaml", 2, 3}, "b", "has no value");
  CHECK(error_of([&] { found.throw_if_any(); }) == "a.yaml:1:1: a: missing key\na.yaml:2:3: b: has no value");

  SECTION("but for one that is withdrawn") {
    found.withdraw({{"a.yaml", 1, 1}, "a", "missing key"});
    found.withdraw({{"a.yaml", 1, 1}, "a", "missing key"});  // not there: nothing
    CHECK(error_of([&] { found.throw_if_any(); }) == "a.yaml:2:3: b: has no value");
  }
  SECTION("a hundred at most are kept, because nobody reads a million") {
    for (int i = 0; i < 1000; ++i) found.add({"a.yaml", 3, 1}, "c", "wrong");
    CHECK(found.list().size() == Diagnostics::kMost);
    const std::string text = error_of([&] { found.throw_if_any(); });
    CHECK(std::count(text.begin(), text.end(), '\n') == static_cast<std::ptrdiff_t>(Diagnostics::kMost));
    CHECK(text.ends_with("\na.yaml: 902 more errors are not shown"));
  }
}

TEST_CASE("The nearest name is what was probably meant") {
  const std::vector<std::string> names{"alpha", "beta", "bandwidth"};
  SECTION("one or two slips are forgiven, a swap counts as one") {
    CHECK(nearest_name("bta", names) == "beta");
    CHECK(nearest_name("ebta", names) == "beta");
    CHECK(nearest_name("bandwith", names) == "bandwidth");
    CHECK(nearest_name("h200", std::vector<std::string>{"gb200", "h200_sxm"}) == "h200_sxm");  // its beginning
    CHECK(nearest_name("mixtral", std::vector<std::string>{"mixtral_8x22b", "mixtral_8x7b"}) == "mixtral_8x7b");
    CHECK(nearest_name("gbps", std::vector<std::string>{"bps", "Gbps"}) == "Gbps");  // another case is the least slip
    CHECK(suggestion("bta", names) == "; did you mean \"beta\"?");
  }
  SECTION("nothing near: the list, if it is short") {
    CHECK(nearest_name("latency", names).empty());
    CHECK(suggestion("latency", names) == "; one of alpha, beta, bandwidth");
    CHECK(suggestion("x", {}).empty());
    CHECK(suggestion("latency", std::vector<std::string>(25, "candidate")).empty());
  }
  SECTION("ties go to the first") { CHECK(nearest_name("ac", std::vector<std::string>{"ab", "ad"}) == "ab"); }
  rc::prop("any two texts can be compared", [](const std::string& a, const std::vector<std::string>& b) {
    const std::string nearest = nearest_name(a, b);
    RC_ASSERT(nearest.empty() || std::find(b.begin(), b.end(), nearest) != b.end());
  });
}

TEST_CASE("Quoted text in a message is short and printable") {
  CHECK(in_quotes("a\"b\\c\n\xc3\xa9") == R"("a\"b\\c\x0a\xc3\xa9")");
  CHECK(in_quotes(std::string(100, 'x')) == "\"" + std::string(60, 'x') + "...\"");
}

}  // namespace moeplan::tests::diagnostics_test
