#include "model/base/sim_time.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <limits>

#include "model/base/diagnostics.hpp"

namespace moeplan {

namespace {

[[noreturn]] void out_of_range(double seconds) {
  throw InputError({{}, "", fmt::format("a time of {:.3g} s is outside the model's range (at most 106 days): "
                                        "check the sizes, rates and counts of the input",
                                        seconds)});
}

}  // namespace

SimTime SimTime::from_seconds(Seconds t) {
  assert(t.value() >= 0 && "a cost is not negative");
  const double picoseconds = std::ceil(t.value() * 1e12);
  if (!(picoseconds < static_cast<double>(std::numeric_limits<std::int64_t>::max() / 2))) out_of_range(t.value());
  return SimTime(static_cast<std::int64_t>(picoseconds));
}

SimTime SimTime::scaled(SimTime a, std::int64_t n) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a.picoseconds_, n, &product) || product > std::numeric_limits<std::int64_t>::max() / 2) {
    out_of_range(a.seconds().value() * static_cast<double>(n));
  }
  return SimTime(product);
}

}  // namespace moeplan
