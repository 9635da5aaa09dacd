// Every way to run an MoE layer, or every n-th, gives the reference's values on the loopback transport of a device that
// a CPU stands in for, which runs streams in random order: device_values_tests RANKS EVERY [captured|plain|
// wide|linked [ONLY]].
// Exit code 1 where one is wrong.
#include <cstdlib>
#include <string>

#include "tests/device/fake_device.hpp"
#include "tests/device/loopback_values.hpp"

using namespace moeplan;
using namespace moeplan::planner;
using namespace moeplan::runtime;

int main(int argc, char** argv) {
  if (argc < 3) return EXIT_FAILURE;
  const std::string how = argc > 3 ? argv[3] : "plain";
  const bool captures = how == "captured";
  const std::optional<BytesPerSecond> link = how == "linked" ? std::optional(BytesPerSecond(50e9)) : std::nullopt;
  tests::LoopbackWays ways{.ranks = std::atoi(argv[1]),
                           .every = std::max(1, std::atoi(argv[2])),
                           .only = argc > 4 ? argv[4] : "",
                           .times = captures ? 3 : 1};
  constexpr std::int64_t kHidden = 1024, kFfn = 32, kTokens = 12;
  if (how == "wide") ways.layers = tests::wide_layers(ways.ranks, kHidden, kFfn, kTokens);
  const std::int64_t wrong = tests::wrong_loopback_values(
      ways, {.captures = captures, .slab = 0, .link = link},
      [](std::uint64_t n) { return std::make_unique<tests::FakeDevice>(n); },
      [](const Device& device) {
        return dynamic_cast<const tests::FakeDevice&>(device).is_clean() ? "" : "memory is not given back";
      });
  return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
