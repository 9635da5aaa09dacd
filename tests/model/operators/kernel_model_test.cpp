#include "model/operators/kernel_model.hpp"

#include <catch2/catch.hpp>

namespace moeplan::tests::kernel_model_test {

using Catch::Detail::Approx;

namespace {

KernelModel streaming() {
  KernelModel m;
  m.launch = Seconds(5e-6);
  m.bytes_per_element = 4;
  m.memory = BytesPerSecond(2e12);
  return m;
}

}  // namespace

TEST_CASE("A memory-bound kernel takes its launch and its bytes") {
  const KernelCost cost = kernel_cost(streaming(), 1e9);
  CHECK(cost.time().value() == Approx(5e-6 + 4e9 / 2e12));
  CHECK(cost.bound() == "memory");
  CHECK(kernel_cost(streaming(), 1).bound() == "launch");
}

TEST_CASE("Data in L2 are faster by their own factor, half of it at the size where half is left") {
  KernelModel m = streaming();
  m.resident = 3;
  m.resident_bytes = Bytes(40e6);
  CHECK(kernel_cost(m, 10).memory.value() == Approx(40 / (3 * 2e12)));
  CHECK(kernel_cost(m, 10e6).memory.value() == Approx(40e6 / (2 * 2e12)));
  CHECK(kernel_cost(m, 1e10).memory.value() == Approx(4e10 / 2e12));
}

TEST_CASE("More blocks take half of the ramp at 4 MB") {
  KernelModel m = streaming();
  m.ramp = Seconds(2e-6);
  CHECK(kernel_cost(m, 1e6).launch.value() == Approx(6e-6));
}

TEST_CASE("A host that cannot issue calls faster sets the least time") {
  KernelModel m = streaming();
  m.host = Seconds(100e-6);
  CHECK(kernel_cost(m, 1000).time() == Seconds(100e-6));
  CHECK(kernel_cost(m, 1000).bound() == "host");
  CHECK(kernel_cost(m, 1e9).time() == kernel_cost(streaming(), 1e9).time());
}

TEST_CASE("More elements never take less time, where L2 is not the slower memory") {
  KernelModel m = streaming();
  m.resident = 2.9;
  m.resident_bytes = Bytes(68e6);
  m.ramp = Seconds(1e-6);
  Seconds before(0);
  for (double elements = 1; elements < 1e9; elements *= 1.3) {
    CHECK(kernel_cost(m, elements).time() >= before);
    before = kernel_cost(m, elements).time();
  }
}

}  // namespace moeplan::tests::kernel_model_test
