#include "model/base/quantity.hpp"

#include <catch2/catch.hpp>
#include <type_traits>

namespace moeplan::tests::quantity_test {

using namespace moeplan::literals;

namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};
template <class A, class B>
concept Multipliable = requires(A a, B b) {
  a* b;
};
template <class A, class B>
concept Divisible = requires(A a, B b) {
  a / b;
};

}  // namespace

TEST_CASE("A quantity knows its dimension") {
  SECTION("bytes over a rate are a time, because 900 GB at 450 GB/s take 2 s") {
    CHECK(Bytes(900e9) / 450.0_GBps == Seconds(2));
    CHECK(450.0_GBps * 2.0_s == Bytes(900e9));
    CHECK(Bytes(900e9) / 2.0_s == 450.0_GBps);
  }
  SECTION("bytes times beta are a time, because beta is seconds a byte") {
    CHECK(Bytes(4) * SecondsPerByte(0.25) == Seconds(1));
    CHECK(SecondsPerByte(0.25) * Bytes(4) == Seconds(1));
  }
  SECTION("operations over a rate are a time") {
    CHECK(Flops(3e12) / 1.5_TFLOPps == Seconds(2));
    CHECK(1.5_TFLOPps * Seconds(2) == Flops(3e12));
    CHECK(Flops(3e12) / Seconds(2) == 1.5_TFLOPps);
  }
  SECTION("a ratio of equal dimensions is a plain number") {
    static_assert(std::is_same_v<decltype(Seconds(1) / Seconds(2)), double>);
    CHECK(Seconds(1) / Seconds(4) == 0.25);
  }
  SECTION("sums, differences, scaling and order are those of the numbers") {
    Seconds t(1);
    t += Seconds(2);
    t -= Seconds(0.5);
    t *= 2;
    CHECK(t == Seconds(5));
    CHECK(-t < Seconds(0));
    CHECK(t / 2 == Seconds(2.5));
    CHECK(2 * t == t * 2);
    CHECK(10.0_us == Seconds(10 * 1e-6));
    CHECK(7_B == Bytes(7));
  }
  SECTION("what has no meaning does not compile") {
    static_assert(!Addable<Seconds, Bytes>);
    static_assert(!Addable<Seconds, double>);
    static_assert(!Multipliable<Seconds, Seconds>);
    static_assert(!Multipliable<Bytes, BytesPerSecond>);
    static_assert(!Divisible<BytesPerSecond, Bytes>);
    static_assert(!Divisible<Bytes, SecondsPerByte>);
    static_assert(!std::is_convertible_v<double, Seconds>);
    static_assert(!std::is_convertible_v<BytesPerSecond, SecondsPerByte>);
  }
}

}  // namespace moeplan::tests::quantity_test
