#include "planner/sweep/axis_values.hpp"

#include <catch2/catch.hpp>

#include "tests/support/checks.hpp"

namespace moeplan::tests::axis_values_test {

using namespace moeplan::sweep;

namespace {

using Texts = std::vector<std::string>;

Texts values(const std::string& yaml, std::string* error = nullptr) {
  Diagnostics wrong;
  const Texts out = axis_values(parse_yaml(yaml, "s.yaml"), "axes.a", wrong);
  const std::string message = tests::error_of([&] { wrong.throw_if_any(); });
  if (error != nullptr) {
    *error = message;
  } else {
    CHECK(message.empty());
  }
  return out;
}
std::string error(const std::string& yaml) {
  std::string message;
  (void)values(yaml, &message);
  return message;
}

}  // namespace

TEST_CASE("A range multiplies or adds up to its end") {
  CHECK(values("1:8:2") == Texts{"1", "2", "4", "8"});
  CHECK(values("1:9:2") == Texts{"1", "2", "4", "8"});
  CHECK(values("64:2048:2") == Texts{"64", "128", "256", "512", "1024", "2048"});
  CHECK(values("1KiB:1GiB:1024") == Texts{"1 KiB", "1024 KiB", "1 GiB"});
  CHECK(values("512 B:2 KiB:2") == Texts{"512 B", "1 KiB", "2 KiB"});
  CHECK(values("100 Gbps:400 Gbps:2") == Texts{"100 Gbps", "200 Gbps", "400 Gbps"});
  CHECK(values("1 us:2 us:+0.5 us") == Texts{"1 us", "1.5 us", "2 us"});
  SECTION("whose end counts though 0.1 is no binary fraction") {
    CHECK(values("0:0.3:+0.1") == Texts{"0", "0.1", "0.2", "0.30000000000000004"});
  }
  SECTION("among other values of a list, or in quotes") {
    CHECK(values("[1, 2:8:2, 100]") == Texts{"1", "2", "4", "8", "100"});
    CHECK(values("\"1:4:2\"") == Texts{"1", "2", "4"});
  }
}

TEST_CASE("Everything else is a value as it stands") {
  CHECK(values("[dgx_h100, ./a.yaml, \"{shape: uniform}\", none, a:b:c]") ==
        Texts{"dgx_h100", "./a.yaml", "{shape: uniform}", "none", "a:b:c"});
  CHECK(values("8") == Texts{"8"});
}

TEST_CASE("Values that are none are refused with their place") {
  CHECK(error("[]").find("axes.a: has no values") != std::string::npos);
  CHECK(error("[1, 2, 1]").find("\"1\" occurs twice") != std::string::npos);
  CHECK(error("[1, [2]]").find("axes.a[1]: expected a value as after the = of -C") != std::string::npos);
  CHECK(error("1:8:1").find("\"1\" is no factor > 1 (or write +STEP)") != std::string::npos);
  CHECK(error("1:8:+0").find("is no step > 0") != std::string::npos);
  CHECK(error("1 us:8 us:+1").find("is no step > 0 of the kind of its ends") != std::string::npos);
  CHECK(error("8:1:2").find("it ends before it begins") != std::string::npos);
  CHECK(error("0:8:2").find("a factor needs a first value > 0") != std::string::npos);
  CHECK(error("0:1:+1e-9").find("has more than 10000 values") != std::string::npos);
  CHECK(error("1:2:1.0000000001").find("has more than 10000 values") != std::string::npos);
}

}  // namespace moeplan::tests::axis_values_test
