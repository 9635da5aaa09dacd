#include "model/base/sim_time.hpp"

#include <fmt/format.h>

#include <cassert>
#include <cmath>
#include <limits>

#include "model/base/diagnostics.hpp"

namespace moeplan {

namespace {

constexpr std::int64_t kLongestCost = std::numeric_limits<std::int64_t>::max() / 2;  // ps, 53 days

}  // namespace

void throw_time_out_of_range(double seconds) {
  throw InputError({{},
                    "",
                    fmt::format("a time of {:.3g} s is outside the model's range (at most 53 days): "
                                "check the sizes, rates and counts of the input",
                                seconds)});
}

SimTime SimTime::from_seconds(Seconds t) {
  assert(t.value() >= 0 && "a cost is not negative");
  const double picoseconds = t.value() * 1e12;
  if (!(picoseconds < static_cast<double>(kLongestCost))) throw_time_out_of_range(t.value());
  const double nearest = std::round(picoseconds);
  // t and the product each have an error of up to half a unit in the last place.
  const bool is_whole = nearest > 0 && std::abs(picoseconds - nearest) <= picoseconds * 2 * 0x1p-53;
  return SimTime(static_cast<std::int64_t>(is_whole ? nearest : std::ceil(picoseconds)));
}

SimTime SimTime::scaled(SimTime a, std::int64_t n) {
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a.picoseconds_, n, &product) || product > kLongestCost) {
    throw_time_out_of_range(a.seconds().value() * static_cast<double>(n));
  }
  return SimTime(product);
}

}  // namespace moeplan
